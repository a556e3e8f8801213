"""Who may do what: scopes of API tokens, and the caller of a request."""

import hashlib
from dataclasses import dataclass

from rota.model.errors import Forbidden, InvalidInput
from rota.model.work import check_name, check_text

READ, WORK, DISPATCH, ADMIN = "read", "work", "dispatch", "admin"
PLAIN_SCOPES = frozenset({READ, WORK, DISPATCH, ADMIN})
AGENT_PREFIX = "agent:"
# Actors in the event log that are no tokens: callers without a token, and Rota itself.
ANYONE, LOCAL = "anyone", "local"
CONFIGURATION, QUEUE, RECOVERY = "configuration", "queue", "recovery"
SIGNALS, SUPERVISOR, SWEEPER = "signals", "supervisor", "sweeper"
OWN_ACTORS = frozenset(
    {ANYONE, LOCAL, CONFIGURATION, QUEUE, RECOVERY, SIGNALS, SUPERVISOR, SWEEPER, "source"}
)
OWN_PREFIX = "signal:"

# What a scope includes. `agent:<name>` may read, and may work on that agent's items only.
_IMPLIED = {
    READ: frozenset({READ}),
    WORK: frozenset({READ, WORK}),
    DISPATCH: frozenset({READ, WORK, DISPATCH}),
    ADMIN: frozenset({READ, WORK, DISPATCH, ADMIN}),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a request is made."""

    name: str
    scopes: frozenset[str]
    agents: frozenset[str] | None = None  # None: any agent
    token_id: str | None = None  # None: no token; the name is the one that the caller gave itself

    def may(self, scope: str) -> bool:
        return scope in self.scopes

    def demand(self, scope: str) -> None:
        if not self.may(scope):
            raise Forbidden(
                f"this needs the scope '{scope}'; the token '{self.name}' has"
                f" {', '.join(sorted(self.scopes)) or 'none'}",
                required=scope,
            )

    def demand_agent(self, agent: str | None, what: str | None = None) -> None:
        """Raise if the token is for other agents only. `what` names the existing item, if any."""
        if self.agents is None or agent in self.agents:
            return
        whose = f"agent '{agent}'" if agent else "no agent"
        why = f"; {what} belongs to {whose}" if what else f", not for {whose}"
        raise Forbidden(
            f"the token '{self.name}' is only for {', '.join(sorted(self.agents))}{why}",
            required=f"{AGENT_PREFIX}{agent}" if agent else DISPATCH,
        )


@dataclass(frozen=True, slots=True)
class ApiToken:
    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


def everyone(name: str = LOCAL) -> Caller:
    """The caller when no token exists: anyone who reaches the loopback port may do everything."""
    return Caller(name, _IMPLIED[ADMIN])


def caller_of(token: ApiToken) -> Caller:
    scopes: set[str] = set()
    agents: set[str] = set()
    for scope in token.scopes:
        if scope.startswith(AGENT_PREFIX):
            agents.add(scope.removeprefix(AGENT_PREFIX))
            scopes |= _IMPLIED[WORK]
        else:
            scopes |= _IMPLIED[scope]
    wide = any(scope in (WORK, DISPATCH, ADMIN) for scope in token.scopes)
    own = None if wide or not agents else frozenset(agents)
    return Caller(token.name, frozenset(scopes), own, token.id)


def check_token_name(name: str) -> str:
    """Refuse the names of Rota's own actors: in the event log they could not be told apart."""
    check_text(name, "name", 100)
    plain = name.strip().casefold()
    if plain in OWN_ACTORS or plain.startswith(OWN_PREFIX):
        raise InvalidInput(
            f"name: {name[:80]!r} is what Rota calls itself in the log; take another", field="name"
        )
    return name


def check_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if not scopes:
        raise InvalidInput("a token needs at least one scope", field="scopes")
    for scope in scopes:
        if scope.startswith(AGENT_PREFIX):
            check_name(scope.removeprefix(AGENT_PREFIX), "scope")
        elif scope not in PLAIN_SCOPES:
            raise InvalidInput(
                f"scope {scope[:80]!r} is unknown; there are {', '.join(sorted(PLAIN_SCOPES))}"
                " and agent:<name>",
                field="scopes",
            )
    return tuple(dict.fromkeys(scopes))


def hash_secret(secret: str) -> str:
    """Secrets have 256 random bits, so a plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()
