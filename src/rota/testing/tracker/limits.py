"""GitHub's primary rate limit: so many requests per hour, account and resource."""

from dataclasses import dataclass

from rota.testing.tracker.clock import StubClock
from rota.testing.tracker.http import Json, Request

WINDOW_SECONDS = 3600
FOR_ACCOUNTS = 5000
FOR_STRANGERS = 60


@dataclass(slots=True)
class Budget:
    resource: str
    limit: int
    reset: int  # Unix time
    used: int = 0

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    def headers(self) -> dict[str, str]:
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-used": str(self.used),
            "x-ratelimit-reset": str(self.reset),
            "x-ratelimit-resource": self.resource,
        }

    def facts(self) -> Json:
        return {
            "limit": self.limit,
            "remaining": self.remaining,
            "used": self.used,
            "reset": self.reset,
        }


class Limits:
    def __init__(self, clock: StubClock) -> None:
        self._clock = clock
        self._budgets: dict[tuple[str, str], Budget] = {}

    def budget(self, request: Request) -> Budget:
        login = request.token.account.login if request.token else ""
        return self.of(login, "graphql" if request.path == "/graphql" else "core")

    def of(self, login: str, resource: str) -> Budget:
        key = (login.casefold(), resource)
        now = self._clock.seconds()
        found = self._budgets.get(key)
        if found is None:
            limit = FOR_ACCOUNTS if login else FOR_STRANGERS
            found = self._budgets[key] = Budget(resource, limit, now + WINDOW_SECONDS)
        elif found.reset <= now:
            found.used, found.reset = 0, now + WINDOW_SECONDS
        return found

    def set(
        self,
        login: str,
        resource: str,
        *,
        limit: int | None,
        remaining: int | None,
        reset_in: int | None,
    ) -> Budget:
        budget = self.of(login, resource)
        if limit is not None:
            budget.limit, budget.used = limit, 0
        if remaining is not None:
            budget.used = budget.limit - remaining
        if reset_in is not None:
            budget.reset = self._clock.seconds() + reset_in
        return budget
