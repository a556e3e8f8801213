"""The fleet's configuration, read again while the server runs."""

from collections.abc import Awaitable, Callable

import msgspec

from rota.api.answers import Answer, json_answer
from rota.api.call import Call
from rota.api.routing import Endpoint, endpoint, given
from rota.model.access import ADMIN
from rota.model.errors import Refused

Reload = Callable[[], "Awaitable[Reloaded]"]


class Gone(msgspec.Struct, frozen=True):
    """What the configuration had before the reload, and has no more."""

    agents: list[str] = []
    schedules: list[str] = []  # of agents that are still there: agent/name
    sources: list[str] = []


class Reloaded(msgspec.Struct, frozen=True):
    """The configuration after the reload; `changed` says whether it differs."""

    changed: bool
    agents: list[str]
    sources: list[str]
    gone: Gone
    warnings: list[str]


@endpoint(
    "POST", "/config/reload", scope=ADMIN, tag="fleet", gives=Reloaded,
    refuses=(401, 403, 409, 415, 422),
)  # fmt: skip
async def reload_config(reload: Reload | None, call: Call) -> Answer:
    """Read `rota.yaml` again, without dropping any run.

    A file with a mistake changes nothing: the answer names the mistakes, and the old
    configuration stays.
    """
    if reload is None:
        raise Refused(
            "this server runs no fleet, so there is no configuration to read; ask the one that"
            " `rota up` started"
        )
    return json_answer(await reload())


_CONFIG_ENDPOINTS = (reload_config,)


def config_endpoints(reload: Reload | None) -> tuple[Endpoint, ...]:
    """`reload` is None where the server runs no fleet."""
    return given(reload, _CONFIG_ENDPOINTS)
