"""The pages of agents and schedules: what stands there, and what is told when they change."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import pytest

from rota.dashboard import dashboard_endpoints
from rota.dashboard.rules import exactly, in_words
from rota.dashboard.strip import Kind, Strip, strip_of, ticks_of
from rota.model.claims import ClaimRequest
from rota.model.clock import to_text
from rota.model.fleet import AgentSpec, Breaker, Budget, Fleet, Limits
from rota.model.runs import AgentLimits, Run, RunEnd, RunStatus, Usage
from rota.model.schedules import (
    Schedule,
    ScheduleState,
    ScheduleType,
    SkipReason,
    Trigger,
    TriggerKind,
)
from rota.model.status import Status
from rota.model.work import NewItem
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.scheduler.due import Rhythm
from rota.scheduler.service import Wakings
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from rota.testing.standing import bring_to
from tests.integration.markup import Element, Markup

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)

HOSTILE = "<script>alert(1)</script> & \"quoted\" 'x' \u202e"
SPENDER = AgentSpec("dora", budget=Budget(per_day=Limits(runs=2, usd=1.0)))
FLEET = Fleet(
    agents=(
        AgentSpec("ada", f"writes {HOSTILE}"),
        AgentSpec("cleo", breaker=Breaker(2, timedelta(minutes=30))),
        SPENDER,
        AgentSpec("emil"),
    ),
    budget=Budget(per_day=Limits(tokens=1_000, wall_time=timedelta(hours=2))),
)


@pytest.fixture
def served(database: str, clock: ManualClock, tmp_path: Path) -> Iterator[Served]:
    pages = dashboard_endpoints(lambda: FLEET)
    with serve(database, clock=clock, logs=tmp_path / "runs", endpoints=pages) as server:
        yield server


@dataclass(frozen=True, slots=True)
class Part:
    element: Element

    @property
    def text(self) -> str:
        return " ".join(self.element.text.split())

    def all(self, tag: str, attribute: str) -> list[str]:
        found = self.element.all(tag)
        return [one[attribute] for one in found if attribute in one.attributes]


def part_of(page: str, name: str) -> Part:
    return Part(Markup(page).by_id(name))


def agent_part(http: httpx2.Client, name: str, **cookies: str) -> Part:
    headers = {"cookie": "; ".join(f"{key}={value}" for key, value in cookies.items())}
    answer = http.get("/ui/agents", headers=headers)
    assert answer.status_code == 200, answer.text
    return part_of(answer.text, f"agent-{name}")


def ran(served: Served, agent: str, end: RunEnd | None, spec: AgentSpec | None = None) -> Run:
    """A run of an agent, ended so, or not ended."""

    async def body() -> Run:
        run = await served.ledger.runs.begin(agent, TriggerKind.SCHEDULE, schedule="poll")
        if end is not None:
            await served.ledger.runs.end(run, end, spec)
        return run

    return served.run(body)


# agents


def test_what_an_agent_does_is_said_in_words(http: httpx2.Client, served: Served) -> None:
    assert "idle" in agent_part(http, "emil").text
    queue = served.ledger.queue
    item = served.run(lambda: queue.submit(NewItem("chore", HOSTILE)))
    http.patch("/agents/ada", json={"max_concurrent": 3})
    served.run(lambda: queue.claim(ClaimRequest("ada")))
    part = agent_part(http, "ada")
    assert "at work" in part.text
    assert "1 of 3 slots in use" in part.text
    assert HOSTILE in part.text
    assert f"/items/{item.id}" in part.all("a", "href")
    assert part.text.count("free") == 2
    run = ran(served, "emil", None)
    assert f"/ui/runs/{run.id}" in agent_part(http, "emil").all("a", "href")
    assert "at work" in agent_part(http, "emil").text
    page = http.get("/ui/agents").text
    assert "4 agents: 2 at work, 2 idle" in part_of(page, "panel-names").text
    assert "<script>alert" not in page


def test_a_paused_agent_says_so_and_may_be_resumed(http: httpx2.Client) -> None:
    assert "PATCH /agents/ada" in agent_part(http, "ada").all("button", "data-call")
    assert '{"paused": true}' in agent_part(http, "ada").all("button", "data-body")
    http.patch("/agents/ada", json={"paused": True})
    part = agent_part(http, "ada")
    assert "paused" in part.text
    assert '{"paused": false}' in part.all("button", "data-body")


def test_an_agent_whose_work_waits_for_reviews_says_so(http: httpx2.Client, served: Served) -> None:
    http.patch("/agents/ada", json={"max_in_review": 1})
    assert "In review0 of at most 1" in agent_part(http, "ada").text.replace("\n", "")
    served.run(lambda: bring_to(served.ledger.queue, Status.IN_REVIEW, "ada"))
    part = agent_part(http, "ada")
    assert "waits for reviews" in part.text


def test_an_open_breaker_says_until_when_and_why(
    http: httpx2.Client, served: Served, clock: ManualClock
) -> None:
    spec = FLEET.agents[1]
    ran(served, "cleo", RunEnd(RunStatus.FAILED, error=HOSTILE), spec)
    assert "closed; 1 of 2 failures in a row" in agent_part(http, "cleo").text
    ran(served, "cleo", RunEnd(RunStatus.FAILED, error=HOSTILE), spec)
    part = agent_part(http, "cleo")
    assert "breaker open until 2026-05-01 12:30:00 UTC (in 30m)" in part.text
    assert HOSTILE in part.text
    assert "Allow runs now" in part.text
    clock.advance(1801)
    assert "breaker open" not in agent_part(http, "cleo").text


def test_a_quota_and_a_budget_that_are_used_up_say_so(http: httpx2.Client, served: Served) -> None:
    until = "2026-05-01T15:00:00.000000Z"
    end = RunEnd(RunStatus.FAILED, usage_limit=True, usage_limit_until=until)
    ran(served, "emil", end, FLEET.agents[3])
    assert "quota used up until 2026-05-01 15:00:00 UTC" in agent_part(http, "emil").text
    ran(served, "dora", RunEnd(RunStatus.SUCCEEDED, usage=Usage(10, 5, 0.25)), SPENDER)
    part = agent_part(http, "dora")
    assert "$0.25 of $1.00" in part.text
    assert "1 of 2 runs" in part.text
    assert part.all("meter", "value") == ["0.25", "1"]
    ran(served, "dora", RunEnd(RunStatus.SUCCEEDED, usage=Usage(10, 5, 0.25)), SPENDER)
    part = agent_part(http, "dora")
    assert "budget used up until 2026-05-02 00:00:00 UTC" in part.text
    assert "why" not in part.all("p", "class")  # the bars say it
    assert "USD" not in part.text
    assert "idle" in agent_part(http, "ada").text
    ran(served, "dora", RunEnd(RunStatus.SUCCEEDED, usage=Usage(1_000)), SPENDER)
    assert "fleet budget used up until" in agent_part(http, "ada").text
    fleets = part_of(http.get("/ui/agents").text, "fleet-budget").text
    assert "1,030 of 1,000 tokens used up" in fleets
    assert "No agent is started before 2026-05-02 00:00:00 UTC" in fleets
    assert "1030 of 1000" not in fleets + agent_part(http, "ada").text


def test_today_is_the_viewers_day(http: httpx2.Client, served: Served, clock: ManualClock) -> None:
    clock.advance(-11 * 3600)  # 01:00 in UTC, the evening before in New York
    ran(served, "ada", RunEnd(RunStatus.FAILED, usage=Usage(7)))
    clock.advance(11 * 3600)
    assert "no runs" in agent_part(http, "ada", rota_zone="America%2FNew_York").text
    for status in (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED):
        ran(served, "ada", RunEnd(status, usage=Usage(1_000, 200, 0.004)))
    last = ran(served, "ada", None)
    part = agent_part(http, "ada")
    assert "4 runs: 1 failed, 1 running, 2 succeeded" in part.text
    assert "2 of 3 (67 %)" in part.text
    assert "$0.0080 · 2,407 tokens" in part.text
    assert f"/ui/runs/{last.id}" in part.all("a", "href")
    assert "2 of 2 (100 %)" in agent_part(http, "ada", rota_zone="America%2FNew_York").text


def test_a_thousand_slots_and_many_agents_are_not_all_drawn(http: httpx2.Client) -> None:
    http.patch("/agents/ada", json={"max_concurrent": 1000})
    assert "and 976 more free" in agent_part(http, "ada").text
    for n in range(50):
        http.patch(f"/agents/n{n:02}", json={"max_concurrent": 1})
    page = http.get("/ui/agents").text
    assert page.count("<article") == 50
    [more] = re.findall(r'rel="next" href="([^"]+)"', page)
    rest = http.get(more).text
    assert rest.count("<article") == 4
    assert "n49" in rest
    assert http.get("/ui/agents?after=Not%20a%20name").status_code == 422


def test_pages_with_nothing_to_show_teach_the_next_step(database: str) -> None:
    with serve(database, endpoints=dashboard_endpoints()) as server:
        agents = httpx2.get(f"{server.url}/ui/agents").text
        assert "while it has an item" in agents
        assert "This server runs without a configuration of agents" in agents
        assert "rota init" in httpx2.get(f"{server.url}/ui/schedules").text


# schedules

MINUTES = timedelta(minutes=5)
NAMED = {
    "poll": Schedule("ada", "poll", ScheduleType.INTERVAL, interval=MINUTES),
    "morning": Schedule(
        "ada", "morning", ScheduleType.CRON, cron="0 9 * * 1-5", timezone="Europe/Berlin"
    ),
    "push": Schedule("ada", "push", ScheduleType.WEBHOOK, secret_env="PUSH_SECRET"),
    "open": Schedule("ada", "open", ScheduleType.WEBHOOK),
    "talk": Schedule("ada", "talk", ScheduleType.CHAT),
}
ADA = AgentSpec("ada", schedules=tuple(NAMED.values()), max_concurrent=9)


class Wakes:
    """A scheduler in the served process, whose triggers end as the test says."""

    def __init__(self, served: Served, clock: ManualClock) -> None:
        self._served = served
        self.outcome: TriggerOutcome | None = None
        self.scheduler = served.run(lambda: self._made(clock))

    async def _made(self, clock: ManualClock) -> Scheduler:
        async def hear(info: TriggerInfo) -> TriggerOutcome | None:
            if self.outcome is not None:
                return self.outcome
            run = await self._served.ledger.runs.begin(
                "ada", info.trigger.kind, schedule=info.schedule.name, trigger_id=info.trigger.id
            )
            await self._served.ledger.runs.end(run, RunEnd(RunStatus.SUCCEEDED))
            return None

        scheduler = Scheduler(self._served.store, node="n1", clock=clock, on_trigger=hear)
        await scheduler.open([ADA])
        self._served.ledger.schedules.attach(scheduler)
        return scheduler

    def tick(self) -> None:
        async def body() -> None:
            await self.scheduler.tick()
            await self.scheduler.idle()

        self._served.run(body)


@pytest.fixture
def wakes(served: Served, clock: ManualClock) -> Iterator[Wakes]:
    made = Wakes(served, clock)
    yield made
    served.run(made.scheduler.stop)


def schedule_part(http: httpx2.Client, name: str) -> Part:
    answer = http.get("/ui/schedules")
    assert answer.status_code == 200, answer.text
    return part_of(answer.text, f"s/ada/{name}")


def test_an_agent_that_only_another_server_knows_is_woken_while_that_one_has_it(
    http: httpx2.Client, wakes: Wakes, served: Served
) -> None:
    for name in ("zoe", "stranger"):
        ran(served, name, None)
        assert "Woken byno schedule" in agent_part(http, name).text
    zoe = AgentSpec("zoe", schedules=(replace(NAMED["poll"], agent="zoe"),))
    served.run(lambda: wakes.scheduler.set_agents([ADA, zoe]))
    assert "Woken byits schedules" in agent_part(http, "zoe").text
    assert "Woken byno schedule" in agent_part(http, "stranger").text
    served.run(lambda: wakes.scheduler.set_agents([ADA]))
    served.run(lambda: served.store.transact(lambda tx: tx.rest_schedules(["ada"])))
    assert "Woken byno schedule" in agent_part(http, "zoe").text


def test_times_in_what_a_skip_says_are_shown_as_all_others(
    http: httpx2.Client, wakes: Wakes, clock: ManualClock
) -> None:
    wakes.outcome = TriggerOutcome.skipped(SkipReason.USAGE_LIMIT, f"until {clock.text(3600)} <b>")
    wakes.tick()
    part = schedule_part(http, "poll")
    assert "until 2026-05-01 13:00:00 UTC <b>" in part.text
    assert clock.text(3600) in part.all("time", "datetime")


def test_schedules_of_each_type_say_when_they_wake(http: httpx2.Client, wakes: Wakes) -> None:
    wakes.tick()
    poll, morning = schedule_part(http, "poll").text, schedule_part(http, "morning").text
    assert "every 5 minutes interval 5m" in poll
    assert "in 5m 2026-05-01 12:05:00 UTC" in poll
    assert "Monday to Friday at 09:00, Europe/Berlin cron 0 9 * * 1-5, Europe/Berlin" in morning
    assert "2026-05-04 07:00:00 UTC" in morning
    assert "POST /hooks/ada/push" in schedule_part(http, "push").text
    assert "has no secret" not in schedule_part(http, "push").text
    assert "has no secret" in schedule_part(http, "open").text
    assert "POST /chat/ada/talk" in schedule_part(http, "talk").text


def test_the_legend_explains_every_mark(http: httpx2.Client, wakes: Wakes) -> None:
    legend = part_of(http.get("/ui/schedules").text, "legend")
    assert legend.all("use", "href") == [f"#m-{kind}" for kind in Kind]
    assert legend.all("rect", "class") == ["band"]
    assert "upcoming, too often for single marks" in legend.text


def test_the_last_run_is_linked_and_what_came_to_nothing_is_told(
    http: httpx2.Client, wakes: Wakes, served: Served, clock: ManualClock
) -> None:
    wakes.tick()
    run = served.run(lambda: served.ledger.runs.latest(["ada"]))["ada"]
    part = schedule_part(http, "poll")
    assert f"/ui/runs/{run.id}" in part.all("a", "href")
    assert "Last check0s ago 2026-05-01 12:00:00 UTC Last run" in part.text
    assert "Last runsucceeded 0s ago 2026-05-01 12:00:00 UTC" in part.text
    clock.advance(300)
    wakes.outcome = TriggerOutcome.skipped(SkipReason.SOURCE_ERROR, HOSTILE)
    wakes.tick()
    part = schedule_part(http, "poll")
    assert "source error 0s ago" in part.text
    assert "Last check0s ago 2026-05-01 12:05:00 UTC: source error Last run" in part.text
    assert "Last runsucceeded 5m ago 2026-05-01 12:00:00 UTC" in part.text
    assert "1 skip in all" in part.text
    assert part.text.count(HOSTILE) == 2  # the skip's detail, and the last error
    assert f"/ui/runs/{run.id}" in part.all("a", "href")
    assert "<script>alert" not in http.get("/ui/schedules").text


def test_what_a_run_would_end_as_is_said_where_it_is_offered(
    http: httpx2.Client, wakes: Wakes, served: Served, clock: ManualClock
) -> None:
    assert "would end as" not in schedule_part(http, "poll").text
    limits = AgentLimits("ada", 5, clock.text(60), None, HOSTILE)
    served.run(lambda: served.store.transact(lambda tx: tx.put_limits(limits, clock.text())))
    told = schedule_part(http, "poll").text
    assert "Run now would end as breaker open: the breaker of 'ada' is open until" in told
    assert "2026-05-01 12:01:00 UTC" in told
    assert "rota agent resume ada" in told
    http.patch("/agents/ada", json={"paused": True})
    assert "Run now would end as agent paused: agent 'ada' is paused" in (
        schedule_part(http, "poll").text
    )


def test_a_schedule_is_switched_by_buttons_that_fit(http: httpx2.Client, wakes: Wakes) -> None:
    calls = schedule_part(http, "poll").all("button", "data-call")
    assert calls == ["POST /schedules/ada/poll/trigger", "POST /schedules/ada/poll/disable"]
    http.post("/schedules/ada/poll/disable")
    part = schedule_part(http, "poll")
    assert part.all("button", "data-call")[1] == "POST /schedules/ada/poll/enable"
    assert "none: the schedule is disabled" in part.text
    assert "5 schedules, 1 disabled" in part_of(http.get("/ui/schedules").text, "panel-names").text


@on_both_databases
def test_switching_and_triggering_leave_one_event_each(http: httpx2.Client, wakes: Wakes) -> None:
    """What changes nothing tells nothing."""
    for verb in ("disable", "disable", "enable", "enable", "trigger"):
        assert http.post(f"/schedules/ada/poll/{verb}").status_code in {200, 202}
    for _ in range(2):
        http.post("/chat/ada/talk", json={"text": "hello", "message_id": "m-1"})
    assert http.post("/schedules/ada/none/enable").status_code == 404
    events = http.get("/events", params={"type": "schedule.updated"}).json()
    assert [(one["agent"], one["reason"]) for one in events] == [
        ("ada", "disabled"),
        ("ada", "enabled"),
        ("ada", "triggered"),
        ("ada", "triggered"),
    ]
    first, second, third, fourth = (one["payload"] for one in events)
    assert first == {"schedule": "poll", "enabled": False}
    assert second == {"schedule": "poll", "enabled": True}
    assert third.keys() == {"schedule", "triggered", "trigger_id"}
    assert (third["triggered"], fourth["triggered"]) == ("manual", "chat")
    assert http.get(f"/triggers/{third['trigger_id']}").json()["schedule"] == "poll"


@on_both_databases
def test_both_pages_show_what_there_is_on_both_databases(
    http: httpx2.Client, wakes: Wakes, served: Served
) -> None:
    wakes.tick()
    ran(served, "ada", None)
    assert "2 runs: 1 running, 1 succeeded" in agent_part(http, "ada").text
    part = schedule_part(http, "poll")
    assert "succeeded" in part.text
    assert "#m-good" in part.all("use", "href")


def test_many_schedules_come_by_pages(http: httpx2.Client, served: Served) -> None:
    agents = [
        AgentSpec(
            f"a{n:02}",
            schedules=tuple(replace(NAMED["poll"], agent=f"a{n:02}", name=f"s{k}") for k in "xyz"),
        )
        for n in range(20)
    ]
    served.run(lambda: _opened(served, agents))
    page = http.get("/ui/schedules").text
    assert page.count("<article") == 50
    [more] = re.findall(r'rel="next" href="([^"]+)"', page)
    assert more == "/ui/schedules?after=a16/sy"
    assert http.get(more).text.count("<article") == 10
    only = http.get("/ui/schedules?agent=a03").text
    assert only.count("<article") == 3
    assert "no schedule" in http.get("/ui/schedules?agent=nobody").text
    assert http.get("/ui/schedules?after=nonsense").status_code == 400


async def _opened(served: Served, agents: list[AgentSpec]) -> None:
    scheduler = Scheduler(served.store, node="n2", clock=served.ledger.clock)
    await scheduler.open(agents)
    await scheduler.stop()


# rules in words


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (timedelta(seconds=90), "every 90 seconds"),
        (timedelta(hours=1), "every hour"),
        (timedelta(days=2), "every 2 days"),
        ("* * * * *", "every minute, UTC"),
        ("*/15 * * * *", "every 15 minutes, UTC"),
        ("5 * * * *", "every hour, at minute 5, UTC"),
        ("0 */6 * * *", "every 6 hours, on the hour, UTC"),
        ("30 8,17 * * *", "every day at 08:30 and 17:30, UTC"),
        ("0 9 * * MON-FRI", "Monday to Friday at 09:00, UTC"),
        ("0 9 * * 0,3,6", "Sunday, Wednesday and Saturday at 09:00, UTC"),
        ("15 6 1 * *", "on day 1 of every month at 06:15, UTC"),
        ("@daily", "every day at 00:00, UTC"),
        ("@hourly", "every hour, on the hour, UTC"),
        ("0 9-17/2 * * 1#2", "by a cron rule, UTC"),
        ("0 0 1 1 *", "by a cron rule, UTC"),
    ],
)
def test_a_rule_is_put_into_words(rule: str | timedelta, words: str) -> None:
    assert in_words(rhythm(rule)) == words


def test_a_rule_stands_there_exactly_too() -> None:
    assert exactly(rhythm(timedelta(hours=36))) == "interval 36h"
    assert exactly(rhythm("@daily", "Asia/Tokyo")) == "cron @daily, Asia/Tokyo"
    assert in_words(Rhythm(ScheduleType.CHAT)) == "whenever a message arrives"
    assert exactly(Rhythm(ScheduleType.WEBHOOK)) == "webhook"
    assert in_words(None) == "not configured yet"


def rhythm(rule: str | timedelta, zone: str = "UTC") -> Rhythm:
    if isinstance(rule, timedelta):
        return Rhythm(ScheduleType.INTERVAL, interval=rule)
    return Rhythm(ScheduleType.CRON, cron=rule, timezone=zone)


# the strip of a day

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def state(rule: Rhythm, next_at: datetime | None = None, **values: Any) -> ScheduleState:
    text = to_text(next_at) if next_at else None
    facts: dict[str, Any] = {
        "agent": "ada", "name": "poll", "type": rule.type, "definition": rule.text,
        "enabled": True, "next_run_at": text, "slot": text, "last_run_at": None,
        "last_completed_at": None, "last_error": None, "last_skip_reason": None,
        "last_skip_at": None, "skip_count": 0, "trigger_count": 0, "running": 0,
    }  # fmt: skip
    return ScheduleState(**facts | values)


def wakings(outcome: str, *hours_ago: float, count: int = 1) -> list[Wakings]:
    times = [to_text(NOON - timedelta(hours=hours)) for hours in hours_ago]
    return [Wakings("ada", "poll", outcome, count, time, time) for time in times]


def coming(strip: Strip) -> list[tuple[float, str]]:
    return [(mark.x, mark.when) for mark in strip.marks if mark.kind is Kind.COMING]


def test_past_and_coming_triggers_stand_at_their_times() -> None:
    past = [
        *wakings("succeeded", 12), *wakings("failed", 6), *wakings("no_work", 3, count=2),
        *wakings("cancelled", 2), *wakings("running", 0), *wakings("no_such_outcome", 1),
    ]  # fmt: skip
    six = timedelta(hours=6)
    strip = strip_of(state(rhythm(six), NOON + timedelta(hours=3)), past, NOON, BERLIN)
    assert [(mark.kind, mark.x, mark.when, mark.what) for mark in strip.marks] == [
        (Kind.GOOD, 0.0, "Fri 02:00", "succeeded"),
        (Kind.BAD, 25.0, "Fri 08:00", "failed"),
        (Kind.NOTHING, 37.5, "Fri 11:00", "2 × no work"),
        (Kind.STOPPED, 41.67, "Fri 12:00", "cancelled"),
        (Kind.STOPPED, 45.83, "Fri 13:00", "no such outcome"),
        (Kind.OPEN, 50.0, "Fri 14:00", "running"),
        (Kind.COMING, 62.5, "Fri 17:00", "upcoming"),
        (Kind.COMING, 87.5, "about Fri 23:00", "upcoming"),
    ]
    assert "last 12 hours: 1 × succeeded, 1 × failed, 2 × no work" in strip.label
    assert strip.label.endswith("next 12 hours: 2 upcoming")


def test_what_is_overdue_stands_at_now() -> None:
    hour = state(rhythm("0 * * * *"), NOON - timedelta(days=9))
    strip = strip_of(hour, [], NOON + timedelta(minutes=30), ZoneInfo("UTC"))
    assert coming(strip)[:2] == [(50.0, "Wed 12:00"), (52.08, "Fri 13:00")]
    assert strip.marks[0].what == "due now"


def test_more_than_can_be_marked_becomes_a_band_and_coarser_marks() -> None:
    often = state(rhythm("*/5 * * * *"), NOON + MINUTES)
    past = wakings("no_work", *(n / 6 for n in range(72))) + wakings("succeeded", 1, 1.5)
    strip = strip_of(often, past, NOON, ZoneInfo("UTC"))
    assert coming(strip) == []
    assert strip.band is not None
    assert strip.band.when == "from Fri 12:05 on"
    assert (strip.band.x, strip.band.width) == (50.35, 49.65)
    assert strip.band.what == "every 5 minutes, UTC"
    marks = [mark for mark in strip.marks if mark.kind is not Kind.COMING]
    assert len(marks) <= 24
    assert [mark.what for mark in marks if mark.kind is Kind.GOOD] == ["succeeded", "succeeded"]
    assert marks[1].when == "Fri 01:00 to 01:50"
    assert marks[1].what == "6 × no work"


def test_the_day_of_the_clock_change_has_its_own_hours() -> None:
    """The hour that is skipped has no tick; the one that comes twice has two."""
    spring = datetime(2026, 3, 28, 22, tzinfo=UTC)
    rule = rhythm("30 2 * * *", "Europe/Berlin")
    strip = strip_of(state(rule, rule.after(spring)), [], spring, BERLIN)
    # 02:30 does not exist there; Rota wakes right after the gap, at 03:00 there, 01:00 in UTC.
    assert coming(strip) == [(62.5, "Sun 03:00")]
    labels = [tick.label for tick in ticks_of(spring, BERLIN) if tick.label]
    assert labels == ["12", "15", "18", "21", "Sun", "03", "06", "09", "12"]
    places = {tick.label: tick.x for tick in ticks_of(spring, BERLIN)}
    assert places["03"] - places["Sun"] == pytest.approx(100 * 2 / 24, abs=0.02)
    autumn = datetime(2026, 10, 24, 22, tzinfo=UTC)
    places = {tick.label: tick.x for tick in ticks_of(autumn, BERLIN)}
    assert places["03"] - places["Sun"] == pytest.approx(100 * 4 / 24, abs=0.02)
    first = next(ticks_of(NOON, ZoneInfo("Asia/Kolkata")))  # half an hour off
    assert first.x == pytest.approx(100 * 0.5 / 24, abs=0.02)


@on_both_databases
def test_the_strip_shows_the_triggers_that_the_ledger_has(
    http: httpx2.Client, wakes: Wakes, served: Served, clock: ManualClock
) -> None:
    triggers = [
        Trigger(f"ffff{n}", "ada", "poll", f"s{n}", TriggerKind.SCHEDULE, "n1", clock.text(at))
        for n, at in enumerate((-6 * 3600, -13 * 3600))
    ]
    served.run(lambda: served.store.transact(lambda tx: tx.insert_triggers(triggers)))
    part = schedule_part(http, "poll")
    uses = part.element.all("use")
    assert ("#m-open", "25.0%") in [(one["href"], one.attributes.get("x")) for one in uses]
    assert len([one for one in uses if one["href"] == "#m-open"]) == 1
    assert part.all("svg", "role") == ["img"]
    assert "Fri 06:00: running" in part.text
