"""Where Rota listens and keeps its state: environment variables and command-line options."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rota import surroundings
from rota.model.errors import InvalidInput

LEDGER = "rota.db"  # in the state directory

_ON = frozenset({"on", "1", "true", "yes"})
_OFF = frozenset({"off", "0", "false", "no"})


@dataclass(frozen=True, slots=True)
class Settings:
    host: str = "127.0.0.1"
    port: int = 8080
    state_dir: Path = Path(".rota")
    database: str = f".rota/{LEDGER}"
    insecure: bool = False
    faces_only: bool = False  # it answers requests, and starts nothing by itself
    dashboard: bool = True
    drain_seconds: float = 10.0
    allowed_hosts: frozenset[str] = frozenset()  # names of the server, beyond its own
    config: Path = Path("rota.yaml")
    # Names and networks that hooks may reach although they are not on the public internet.
    hook_hosts: tuple[str, ...] = ()
    agents: bool = True  # wake the agents of the configuration
    signals: bool = True  # fire signals; otherwise they are stored and wait
    chosen: frozenset[str] = frozenset()  # host or port, if set by option or variable

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        host: str | None = None,
        port: int | str | None = None,
        database: str | None = None,
        state_dir: str | Path | None = None,
        insecure: bool = False,
        faces_only: bool = False,
        dashboard: bool = True,
        allowed_hosts: Sequence[str] = (),
        config: str | Path | None = None,
        agents: bool = True,
        signals: bool = True,
        drain_seconds: float = 10.0,
    ) -> "Settings":
        """An option wins over its variable, a variable over the default."""
        env = surroundings.environ if environ is None else environ
        state = Path(state_dir or env.get("ROTA_STATE_DIR") or ".rota")
        return cls(
            host=host or env.get("ROTA_HOST") or "127.0.0.1",
            port=_port(port if port is not None else env.get("PORT") or 8080),
            state_dir=state,
            database=database or env.get("DATABASE_URL") or str(state / LEDGER),
            insecure=insecure,
            faces_only=faces_only,
            dashboard=dashboard,
            allowed_hosts=_hosts(allowed_hosts or env.get("ROTA_ALLOWED_HOSTS", "").split(",")),
            config=_config(config or env.get("ROTA_CONFIG")),
            chosen=frozenset(
                name
                for name, said in (
                    ("host", host or env.get("ROTA_HOST")),
                    ("port", port if port is not None else env.get("PORT")),
                )
                if said not in (None, "")
            ),
            agents=agents,
            signals=signals and switch(env, "ROTA_SIGNALS", default=True),
            drain_seconds=drain_seconds,
            hook_hosts=tuple(sorted(_hosts(env.get("ROTA_HOOK_HOSTS", "").split(",")))),
        )

    def listening(self, host: str | None, port: int | None) -> "Settings":
        """With host and port of the configuration file, unless an option or a variable sets
        them."""
        return replace(
            self,
            host=self.host if host is None or "host" in self.chosen else host,
            port=self.port if port is None or "port" in self.chosen else _port(port),
        )

    @property
    def run_logs(self) -> Path:
        return self.state_dir / "runs"

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def is_postgres(database: str) -> bool:
    return database.startswith(("postgresql://", "postgres://"))


def is_loopback(host: str) -> bool:
    """Whether a server on this host can be reached only from this machine."""
    import ipaddress  # noqa: PLC0415 - most commands need it never

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def switch(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    """A variable that is on or off; empty means not set."""
    said = environ.get(name, "").strip().lower()
    if said and said not in _ON | _OFF:
        raise InvalidInput(f"{name}: {said[:40]!r} is not known; write on or off", field=name)
    return said in _ON if said else default


def _config(named: str | Path | None) -> Path:
    """A file that is named must exist; the default file need not. A name that cannot be one is that
    of no file, as `Path` says since 3.14."""
    if named is not None and os.path.isdir(named):  # noqa: PTH112
        raise InvalidInput(
            f"{named} is a directory; name the file in it, for example {Path(named) / 'rota.yaml'}",
            field="config",
        )
    if named is not None and not os.path.isfile(named):  # noqa: PTH113
        raise InvalidInput(f"there is no configuration file {named}", field="config")
    return Path(named or "rota.yaml")


def _hosts(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.strip().lower() for name in names if name.strip())


def _port(value: int | str) -> int:
    try:
        port = int(value)
    except ValueError:
        port = -1
    if not 0 <= port <= 65_535:
        raise InvalidInput(
            f"port: {str(value)[:40]!r} is not a port; set PORT or --port to a number from 1 to"
            " 65535 (0 takes a free one)",
            field="port",
        )
    return port
