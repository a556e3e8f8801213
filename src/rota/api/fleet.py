"""Agents and tokens: who works, and who may call."""

from collections.abc import Mapping

from msgspec import UNSET

from rota.api import schemas, wire
from rota.api.answers import Answer, empty_answer, json_answer
from rota.api.auth import Gate
from rota.api.bodies import AgentChange, AgentQuery, NewToken, PageQuery
from rota.api.budgets import Known, used_up
from rota.api.call import Call
from rota.api.pages import cut_answer
from rota.api.routing import Endpoint, endpoint, given
from rota.model.access import ADMIN, DISPATCH, READ
from rota.model.agents import Agent, AgentLoad
from rota.model.errors import NotFound
from rota.model.fleet import Fleet
from rota.model.runs import AgentLimits
from rota.model.work import check_name
from rota.runner.admission import Standing


async def _agents(call: Call, fleet: Fleet) -> list[schemas.Agent]:
    """Agents that are configured, have work on their hands, run, or may not run."""
    loads = {load.agent.name: load for load in await call.ledger.views.agents()}
    standings = await call.ledger.admission.standings(loads)
    used = await used_up(call.ledger, fleet)
    unattended = await call.ledger.schedules.unattended(standings)
    return [
        wire.agent_of(_load(loads, name), one, used.get(name), unattended=name in unattended)
        for name, one in standings.items()
    ]


async def _agent(
    call: Call, fleet: Fleet, name: str, timezone: str = "UTC"
) -> schemas.Agent | None:
    loads = {load.agent.name: load for load in await call.ledger.views.agents()}
    standing = await call.ledger.admission.standing(name, timezone)
    if name not in loads and standing == Standing(AgentLimits(name)):
        return None
    used = await used_up(call.ledger, fleet)
    unattended = bool(await call.ledger.schedules.unattended([name]))
    return wire.agent_of(_load(loads, name), standing, used.get(name), unattended=unattended)


def _load(loads: Mapping[str, AgentLoad], name: str) -> AgentLoad:
    return loads.get(name) or AgentLoad(Agent(name), 0, 0)


@endpoint("GET", "/agents", scope=READ, tag="agents", gives=list[schemas.Agent], sets=("Link",))
async def list_agents(fleet: Known, call: Call, query: PageQuery) -> Answer:
    """List agents that are configured, have items, run, or may not run."""
    return cut_answer(call, query, await _agents(call, fleet()), place=lambda one: one.name)


@endpoint("GET", "/agents/{name}", scope=READ, tag="agents", gives=schemas.Agent)
async def show_agent(fleet: Known, call: Call, query: AgentQuery) -> Answer:
    """Show one agent.

    Its day, for `spent_today`, begins at midnight in `timezone`.
    """
    found = await _agent(call, fleet(), call.id, query.timezone)
    if found is None:
        raise NotFound(f"nobody has heard of an agent {call.id!r}", id=call.id)
    return json_answer(found)


@endpoint("PATCH", "/agents/{name}", scope=DISPATCH, tag="agents", gives=schemas.Agent)
async def change_agent(fleet: Known, call: Call, body: AgentChange) -> Answer:
    """Set the limits of an agent, pause it or resume it.

    A new name adds an agent. With `max_in_review` the agent gets no new item while that many of
    its items are in progress or in review; `null` removes the limit. `paused: false` also lets
    an agent run again at once that failed too often or used up its quota.
    """
    await _change(call, body)
    return json_answer(await _agent(call, fleet(), call.id))


async def _change(call: Call, body: AgentChange) -> None:
    name = check_name(call.id, "agent")
    if body.paused is False:
        await call.ledger.admission.resume(name)
    await call.ledger.queue.set_agent(
        name,
        max_concurrent=body.max_concurrent,
        paused=body.paused,
        max_in_review=... if body.max_in_review is UNSET else body.max_in_review,
        actor=call.actor,
    )


@endpoint("GET", "/tokens", scope=ADMIN, tag="tokens", gives=list[schemas.Token], sets=("Link",))
async def list_tokens(gate: Gate, call: Call, query: PageQuery) -> Answer:
    """List tokens, without their secrets."""
    found = await call.ledger.tokens.list()
    return cut_answer(call, query, found, place=lambda one: one.id, written=wire.token_of)


@endpoint("POST", "/tokens", scope=ADMIN, tag="tokens", gives=schemas.TokenWithSecret, status=201)
async def create_token(gate: Gate, call: Call, body: NewToken) -> Answer:
    """Create a token; its secret is shown this once.

    From the first token on, every call needs one, except `GET /health` and signed webhooks.
    """
    token, secret = await call.ledger.tokens.create(body.name, body.scopes, body.expires_at)
    gate.forget()
    return json_answer(wire.token_with(token, secret), 201)


@endpoint("DELETE", "/tokens/{id}", scope=ADMIN, tag="tokens", status=204)
async def revoke_token(gate: Gate, call: Call) -> Answer:
    """Revoke a token."""
    await call.ledger.tokens.revoke(call.id)
    gate.forget()
    return empty_answer()


_AGENT_ENDPOINTS = (list_agents, show_agent, change_agent)


def agent_endpoints(fleet: Known) -> tuple[Endpoint, ...]:
    """`fleet` returns the configuration, where one is known; budgets come from there."""
    return given(fleet, _AGENT_ENDPOINTS)


_TOKEN_ENDPOINTS = (list_tokens, create_token, revoke_token)


def token_endpoints(gate: Gate) -> tuple[Endpoint, ...]:
    """This server's gate knows of a change of tokens at once."""
    return given(gate, _TOKEN_ENDPOINTS)
