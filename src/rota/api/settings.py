"""Settings of the HTTP face, given once, when the app is made."""

from dataclasses import dataclass

from rota.config.settings import is_loopback

RECHECK_SECONDS = 10.0  # a revoked token is noticed by then, also on a stream
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class ApiSettings:
    host: str = "127.0.0.1"  # the address that the server is bound to
    insecure: bool = False  # open without tokens also beyond loopback
    trusted: bool = False  # the caller is this process: no tokens, no browser checks
    allowed_hosts: frozenset[str] = frozenset()  # host names it is called by, beyond its own
    allowed_origins: frozenset[str] = frozenset()  # origins of pages that may call, beyond its own
    max_body_bytes: int = 1024 * 1024
    heartbeat_seconds: float = 15.0  # a comment on event streams, so that proxies keep them open
    longest_wait_seconds: float = 60.0  # a long poll is answered by then, whatever it asked for
    remember_seconds: float = 1.0  # how long an answer about tokens may be reused
    recheck_seconds: float = RECHECK_SECONDS  # of a stream's token
    auth_failures: int = 10  # wrong tokens per address and window, then 429
    auth_window_seconds: float = 60.0

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def open_without_tokens(self) -> bool:
        """Whether the server may be open when there is no token. Revoking the last token must not
        open a server that others can reach; one with allowed_hosts is reached through a proxy."""
        alone = self.on_loopback and not self.allowed_hosts
        return self.trusted or self.insecure or alone
