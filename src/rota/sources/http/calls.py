"""A request to a tracker's API, and its failure."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from rota.model.clock import Clock
from rota.model.errors import WorkSourceError
from rota.sources.http.errors import ApiError, TokenError
from rota.sources.http.limits import RetryOptions
from rota.sources.http.wire import Timeouts


@dataclass(frozen=True, slots=True)
class Service:
    """The differences between one tracker's API and another's."""

    name: str  # for people: "GitHub"
    scheme: str  # of the Authorization header
    headers: Mapping[str, str]
    api_error: type[ApiError]
    token_error: type[TokenError]
    scopes: tuple[str, ...] = ()  # that a token needs, where tokens have scopes

    def no_token(self, why: str) -> TokenError:
        return self.token_error(why, required_scopes=self.scopes)


@dataclass(frozen=True, slots=True)
class Patience:
    """Waiting times and the clock; tests inject their own."""

    retry: RetryOptions
    timeouts: Timeouts
    pause: Callable[[float], Awaitable[None]]
    rng: random.Random
    clock: Clock


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    url: str
    body: bytes | None = field(default=None, repr=False)
    repeatable: bool = True
    conditional: bool = False

    @property
    def budget(self) -> str:
        """The GitHub rate limit that it counts against."""
        return "graphql" if self.url.endswith("/graphql") else "rest"


@dataclass(frozen=True, slots=True)
class Failure:
    error: WorkSourceError
    again: bool  # a retry is safe, and may help
    wait: float | None = None  # seconds that the tracker asked us to wait

    @property
    def is_limit(self) -> bool:
        return isinstance(self.error, ApiError) and self.error.is_rate_limit_error
