"""A ledger with some days of a fleet's work, for pictures and tests.

The pictures are those in docs/images; the tests need content on every page.

    asyncio.run(furnish(home, days=7))

This leaves `home/rota.yaml` and `home/.rota`, on which `rota up` goes on. Time is simulated, so
that a week takes seconds; the same seed gives the same story.
"""

import heapq
import itertools
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from rota.api import ApiSettings, create_app
from rota.api.signals import signal_endpoints
from rota.app import open_store
from rota.cli.demo_fleet import MORE, SAMPLES, Sample
from rota.config.loading import load_fleet
from rota.model.schedules import SkipReason
from rota.queue.ledger import Ledger
from rota.scheduler import Scheduler, TriggerInfo
from rota.scheduler.triggering import TriggerOutcome
from rota.signals import Signals, SignalScheduler
from rota.testing.clock import ManualClock

Json = dict[str, Any]

CONFIG = """\
version: 1

fleet:
  name: workshop

defaults:
  # In the showroom nobody is in a hurry: an agent says what it does, and stays at it.
  runtime:
    type: command
    command: [sh, -c, "echo 'reading the item'; echo 'looking for the cause'; sleep 900"]
  timeout: 20m

agents:
  - name: ada
    description: mends what is broken
    work_source: {type: queue, types: [bug_fix]}
    instances: {max_concurrent: 2}
    budget: {per_day: {usd: 25, runs: 80}}
    schedules:
      look: {type: interval, interval: 10m, prompt: "Fix this bug, with a test:"}

  - name: brin
    description: reviews what others have changed
    budget: {per_day: {usd: 12}}
    schedules:
      look:
        type: interval
        interval: 15m
        work_source: {type: queue, types: [code_review]}
        prompt: "Review this change:"
      second-look: {type: chat, prompt: "A review has failed. Find out why."}

  - name: cleo
    description: writes, and does what is left
    work_source: {type: queue, types: [docs, chore]}
    instances: {max_concurrent: 2}
    schedules:
      look: {type: interval, interval: 20m, prompt: "Do this:"}

  - name: dora
    description: wakes by the clock, whether there is work or not
    schedules:
      report:
        {type: cron, cron: "0 7 * * 1-5", timezone: Europe/Berlin, prompt: "Write the report."}
      tidy: {type: cron, cron: "30 */6 * * *", prompt: "Remove what nobody needs any more."}
"""
TYPES = {"ada": ("bug_fix",), "brin": ("code_review",), "cleo": ("docs", "chore", "follow_up")}
DEEDS = (
    ("bug_fix", "{} shows old prices"),
    ("code_review", "Review: {}, fewer queries"),
    ("docs", "Describe {}"),
    ("bug_fix", "{} forgets its filter"),
    ("chore", "Remove old flags from {}"),
    ("code_review", "Review: tests of {}"),
    ("bug_fix", "{} is slow"),
    ("docs", "New pictures of {}"),
)
PLACES = (
    "the cart", "the invoice list", "the sign-up form", "the search page", "the stock report",
    "the price import", "the newsletter form", "the order history", "the gift cards",
    "the returns page", "the shipping rates", "the tax settings", "the product page",
)  # fmt: skip
LOG = (
    ("stdout", "reading the item"),
    ("stdout", "looked through 14 files; the cause is in orders/totals.py"),
    ("stdout", "rounding happens before the discount is taken off: 19.99 × 3 − 10 % = 53.98"),
    ("stderr", "warning: 2 tests are skipped on this machine"),
    ("stdout", "added test_discounts_are_rounded_once"),
    ("stdout", "214 tests passed"),
)
QUESTION = "Half of it is done. Which of the two formats is meant, the old or the new?"
AN_HOUR = 3600.0


def _samples(dice: random.Random) -> Iterator[Sample]:
    """The samples of `rota demo`, and then as many more as are needed."""
    yield from (*SAMPLES, *MORE)
    while True:
        for place in dice.sample(PLACES, len(PLACES)):
            kind, title = dice.choice(DEEDS)
            what = title.format(place)
            project = dice.choice(("Shop", "Website"))
            yield Sample(
                project, kind, what[0].upper() + what[1:], dice.choice((1, 2, 2, 3, 3, 3, 4, 5))
            )


@dataclass
class Story:
    """Who does what, and when. Everything happens through the API, in simulated time."""

    http: httpx2.AsyncClient
    clock: ManualClock
    until: datetime
    dice: random.Random
    samples: Iterator[Sample]
    projects: dict[str, str] = field(default_factory=dict)
    _events: list[tuple[datetime, int, Callable[[], Awaitable[None]]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def at(self, when: datetime, what: Callable[[], Awaitable[None]]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), what))

    def later(self, seconds: float, what: Callable[[], Awaitable[None]]) -> None:
        self.at(self.clock.now() + timedelta(seconds=seconds), what)

    async def play(self) -> None:
        while self._events and self._events[0][0] <= self.until:
            when, _, what = heapq.heappop(self._events)
            self.clock.advance((when - self.clock.now()).total_seconds())
            await what()
        self.clock.advance((self.until - self.clock.now()).total_seconds())

    async def ask(self, method: str, path: str, body: Any = None, actor: str = "sam") -> Any:
        answer = await self.http.request(method, path, json=body, headers={"Rota-Actor": actor})
        if not answer.is_success:
            raise RuntimeError(f"{method} {path}: {answer.text}")
        return answer.json() if answer.content else None

    # people

    async def open(self) -> None:
        for name in dict.fromkeys(one.project for one in SAMPLES):
            self.projects[name] = (await self.ask("POST", "/projects", {"name": name}))["id"]
        for agent in ("ada", "cleo"):
            await self.ask("PATCH", f"/agents/{agent}", {"max_concurrent": 2})
        for spec in (
            {"name": "look-at-failures", "max_fires": None,
             "trigger": {"kind": "work_item.status.transition", "to": ["failed"]},
             "action": {"kind": "submit", "title": "Why did it fail: {item.description}"}},
            {"name": "nobody-reviews", "max_fires": None,
             "trigger": {"kind": "time", "after": "4h", "in": ["in_review"]},
             "action": {"kind": "follow_up", "title": "Ask somebody for the review"}},
        ):  # fmt: skip
            await self.ask("POST", "/signals", spec)

    async def look_twice(self) -> None:
        """Once there are schedules."""
        spec = {
            "name": "failed-review", "max_fires": None,
            "trigger": {"kind": "run.finished", "outcome": ["failed"], "agent": "brin"},
            "action": {"kind": "trigger", "agent": "brin", "schedule": "second-look"},
        }  # fmt: skip
        await self.ask("POST", "/signals", spec)

    async def arrive(self) -> None:
        sample = next(self.samples)
        body = {
            "type": sample.type,
            "description": sample.title,
            "priority": sample.priority,
            "project_id": self.projects[sample.project],
            "labels": list(sample.labels),
            "body": "Seen by a customer.\n\n- how often: every time\n- since: the last release",
        }
        await self.ask("POST", "/work", body)
        agent = next(agent for agent, types in TYPES.items() if sample.type in types)
        self.later(self.dice.uniform(30, 400), partial(self.look, agent))

    async def direct(self) -> None:
        """Items for an agent that has not begun yet, and a question."""
        waiting = await self.ask("GET", "/work?status=queued&limit=6")
        for item in waiting[-2:]:
            await self.ask("POST", f"/work/{item['id']}/dispatch", {"assigned_agent": "dora"})
        for item in waiting[:1]:
            await self.ask("POST", f"/work/{item['id']}/dispatch", {"assigned_agent": "eve"})
            await self.ask("POST", f"/work/{item['id']}/start", {}, "eve")
            why = {"notes": "The staging server is down."}
            await self.ask("POST", f"/work/{item['id']}/block", why, "eve")

    async def settle(self, item: str) -> None:
        """A person answers, or reviews what was handed over."""
        status = (await self.ask("GET", f"/work/{item}"))["status"]
        verb = {"blocked": "release", "in_review": "complete", "failed": "retry"}.get(status)
        if verb is not None:
            await self.ask("POST", f"/work/{item}/{verb}", {"notes": "The new one, please."})

    # agents

    async def look(self, agent: str) -> None:
        body = {"agent": agent, "types": TYPES[agent], "lease_seconds": AN_HOUR}
        for item in await self.ask("POST", "/work/claim", body, agent):
            token = item["claim"]["token"]
            begun = {"agent": agent, "work_item_id": item["id"], "token": token}
            run = await self.ask("POST", "/runs", {**begun, "schedule": "look"}, agent)
            lasts = min(self.dice.lognormvariate(6.2, 0.7), 0.8 * AN_HOUR)
            self.later(lasts, partial(self.end, agent, run, item, token))

    async def end(self, agent: str, run: Json, item: Json, token: str) -> None:
        await self.say(run)
        status, verb, more = self.dice.choices(
            (
                ("succeeded", "complete", {"notes": "Done, with tests."}),
                ("succeeded", "hand_over", {"artifact_url": "https://example.org/pull/42"}),
                ("failed", "fail", {"notes": "2 of 214 tests failed"}),
                ("partial", "block", {"notes": QUESTION}),
            ),
            (84, 7, 5, 4),
        )[0]
        thousand = self.dice.randint(8, 90)
        ended = {
            "status": status, "summary": more.get("notes", "Handed over for a review."),
            "exit_code": 0 if status == "succeeded" else 1, "turns": self.dice.randint(3, 30),
            "input_tokens": thousand * 1000, "output_tokens": thousand * 120,
            "cost_usd": round(thousand * 0.009, 2),
        }  # fmt: skip
        await self.ask("POST", f"/runs/{run['id']}/end", ended, agent)
        await self.ask("POST", f"/work/{item['id']}/{verb}", {"token": token, **more}, agent)
        if verb != "complete":
            self.later(self.dice.uniform(1, 20) * AN_HOUR, partial(self.settle, item["id"]))
        self.later(self.dice.uniform(20, 200), partial(self.look, agent))

    async def say(self, run: Json) -> None:
        lines = (
            json.dumps({"ts": self.clock.text(n * 3 - 40), "stream": stream, "text": text})
            for n, (stream, text) in enumerate(LOG)
        )
        await self.http.post(
            f"/runs/{run['id']}/log?offset=0",
            content="".join(f"{line}\n" for line in lines),
            headers={"Content-Type": "application/x-ndjson"},
        )


@asynccontextmanager
async def _stage(home: Path, start: datetime, until: datetime, seed: int) -> AsyncIterator[Story]:
    clock, state = ManualClock(start), home / ".rota"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with open_store(str(state / "rota.db"), clock) as store:
        ledger = Ledger.on(store, logs=state / "runs")
        endpoints = signal_endpoints(Signals(store))
        api = create_app(ledger, ApiSettings(trusted=True), endpoints=endpoints)
        dice = random.Random(seed)

        async def woken(info: TriggerInfo) -> TriggerOutcome | None:
            idle = info.schedule.name == "look" and dice.random() < 0.7
            return TriggerOutcome.skipped(SkipReason.NO_WORK) if idle else None

        scheduler = Scheduler(
            store, node="showroom", clock=clock, on_trigger=woken, rng=dice.random
        )
        signals = SignalScheduler(store, owner="showroom")
        transport = httpx2.ASGITransport(app=api)
        async with httpx2.AsyncClient(transport=transport, base_url="http://rota") as http:
            story = Story(http, clock, until, dice, _samples(dice))

            async def wake() -> None:
                await scheduler.tick()
                await scheduler.idle()
                await signals.tick()

            opening = max(start, until - timedelta(hours=25))
            story.at(opening, partial(_opened, scheduler, home))
            story.at(opening, story.look_twice)
            for minutes in range(24 * 60 + 30, 0, -10):
                if until - timedelta(minutes=minutes) > start:
                    story.at(until - timedelta(minutes=minutes), wake)
            yield story
            await scheduler.stop()


async def _opened(scheduler: Scheduler, home: Path) -> None:
    await scheduler.open(load_fleet(home / "rota.yaml").fleet.agents)


def _arrivals(start: datetime, until: datetime, dice: random.Random) -> Iterator[datetime]:
    """More during the day; and several in the last minutes, which still wait."""
    moment = start
    while moment < until:
        yield moment
        rate = 9 if 7 <= moment.hour < 18 else 1.5
        moment += timedelta(hours=dice.expovariate(rate))
    yield from (until - timedelta(seconds=25 * n) for n in range(14, 2, -1))


async def furnish(home: Path, *, days: float, seed: int = 4, now: datetime | None = None) -> None:
    until = now or datetime.now(UTC)
    start = until - timedelta(days=days)
    (home / "rota.yaml").write_text(CONFIG)
    async with _stage(home, start, until, seed) as story:
        await story.open()
        for moment in _arrivals(start, until, story.dice):
            story.at(moment, story.arrive)
        story.at(until - timedelta(seconds=50), story.direct)
        await story.play()
