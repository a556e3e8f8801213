"""Names as long as they may be: on every page all stays on the page, and in reach."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, expect

from rota.model.fleet import AgentSpec, Budget, Fleet, Limits
from rota.model.runs import RunEnd, RunStatus, Usage
from rota.model.schedules import Schedule, ScheduleType, TriggerKind
from rota.queue.ledger import Ledger
from rota.scheduler import Scheduler, TriggerInfo
from rota.signals import SignalScheduler
from rota.storage.schedule_port import Node
from rota.testing.browser import PHONE
from tests.browser.conftest import Visits
from tests.browser.site import PAGES, Site, served_site

pytestmark = pytest.mark.needs("chromium")

AGENT, OTHER = "a" * 64, "b" * 64
SCHEDULE, TYPE, LABEL = "s" * 64, "t" * 100, "l" * 100
PROJECT, ACTOR, TITLE = "P" * 200, "c" * 200, "d" * 2_000
SPEC = AgentSpec(
    AGENT,
    budget=Budget(per_day=Limits(usd=1.0)),
    schedules=(Schedule(AGENT, SCHEDULE, ScheduleType.CRON, cron="0 9 * * 1-5"),),
)

# Boxes that a person would have to look for beside the window, or beside their panel. What is out
# of the window on the board is in a column of its own.
BESIDE = """
() => {
  const FRAMES = "dialog, .card, .column, .panel, header.top, body";
  const HIDDEN = ".unseen, .skip, datalist, option, thead, svg.shapes, title, pre *";
  const name = (one) => `${one.localName} ${one.className?.baseVal ?? one.className} ${one.id}`;
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height || one.closest(HIDDEN)) continue;
    const frame = one.parentElement.closest(FRAMES);
    const inside = frame.getBoundingClientRect();
    const edge = one.closest(".board") ? inside.right : Math.min(inside.right, innerWidth);
    const isBeside = box.right > edge + 1 || box.left < inside.left - 1;
    if (isBeside && !one.matches(".column")) found.push(`${name(one)} in ${name(frame)}`);
  }
  const page = document.documentElement;
  return page.scrollWidth > page.clientWidth ? [...found, "the page itself"] : found;
}
"""


@dataclass(frozen=True, slots=True)
class Stage:
    site: Site
    item: str  # that its agent works on
    blocked: str
    run: str
    left: str  # a run whose server is gone

    @property
    def addresses(self) -> list[str]:
        items = [f"/items/{self.item}", f"/items/{self.blocked}"]
        more = [f"/ui/schedules?agent={AGENT}", "/ui/signals?show=all", "/board/in_progress"]
        runs = [f"/ui/runs/{self.run}", f"/ui/runs/{self.left}"]
        return [*PAGES, *items, *more, *runs, f"/nowhere/{'x' * 150}"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with served_site(tmp_path_factory.mktemp("long"), Fleet(agents=(SPEC,))) as site:
        yield furnished(site)


def furnished(site: Site) -> Stage:
    client, ledger = site.client, site.served.ledger
    project = client.create_project(PROJECT)["id"]
    fields = {"type": TYPE, "labels": [LABEL, "short"], "project_id": project, "created_by": ACTOR}
    first = site.add(TITLE, **fields)
    client.set_agent(AGENT, max_concurrent=9)
    (claimed,) = client.claim(AGENT, lease_seconds=3600)
    item = site.served.run(lambda: ledger.views.item(first))
    run = site.served.run(
        lambda: ledger.runs.begin(AGENT, TriggerKind.SCHEDULE, schedule=SCHEDULE, item=item)
    )
    blocked = site.taken(TITLE, agent=OTHER, **fields)
    site.add(TITLE, blocked_by=[blocked], agent=OTHER, **fields)
    whole = site.served.run(lambda: ledger.views.item(blocked))
    ended = site.served.run(
        lambda: ledger.runs.begin(OTHER, TriggerKind.SCHEDULE, schedule=SCHEDULE, item=whole)
    )
    end = RunEnd(RunStatus.FAILED, error="e" * 300, usage=Usage(1_000, 200, 0.25))
    site.served.run(lambda: ledger.runs.end(ended, end))
    action = {"kind": "follow_up", "title": TITLE[:200], "agent": OTHER}
    blocks = {"kind": "work_item.status.transition", "to": ["blocked"]}
    client.create_signal(blocks, action, work_item_id=blocked, name="n" * 64)
    more = {"type": [TYPE], "label": [LABEL], "agent": AGENT, "project_id": project}
    client.create_signal({**blocks, **more}, action, name="m" * 64)
    client.block(blocked, notes="w" * 300)
    site.served.run(SignalScheduler(site.served.store, owner="test").tick)
    site.served.run(lambda: open_schedules(site))
    assert claimed["id"] == first
    return Stage(site, first, blocked, run.id, left_run(site))


def left_run(site: Site) -> str:
    gone = "2026-01-01T00:00:00.000000Z"
    node = Node("n" * 100, "there:/", 1, gone, gone)
    site.served.run(lambda: site.served.store.transact(lambda tx: tx.put_node(node)))
    runs = Ledger.on(site.served.store, node=node.id).runs
    return site.served.run(lambda: runs.begin(OTHER, TriggerKind.SCHEDULE)).id


async def open_schedules(site: Site) -> None:
    async def woken(info: TriggerInfo) -> None:
        return None

    scheduler = Scheduler(site.served.store, node="n1", on_trigger=woken)
    await scheduler.open([SPEC])


@pytest.mark.parametrize("width", [360, 1280])
def test_long_names_stay_on_every_page(stage: Stage, visits: Visits, width: int) -> None:
    visit = visits(stage.site.url, viewport={"width": width, "height": 800})
    visit.tolerate("status of 404 .*/nowhere")
    page, beside = visit.page, []
    for address in stage.addresses:
        page.goto(address)
        beside += [f"{address}: {one}" for one in page.evaluate(BESIDE)]
    assert not beside, "\n".join(beside)


def demand_within(dialog: Locator) -> None:
    expect(dialog).to_be_visible()
    assert dialog.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    for button in dialog.locator(".tools button").all():
        button.scroll_into_view_if_needed()
        expect(button).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("width", [360, 1280])
def test_the_buttons_of_every_dialog_are_in_reach(stage: Stage, visits: Visits, width: int) -> None:
    page = visits(stage.site.url, viewport={"width": width, "height": 800}).page
    opened = 0
    for address in (f"/items/{stage.item}", f"/items/{stage.blocked}", "/ui/agents", "/ui/signals"):
        page.goto(address)
        for button in page.locator("main [data-dialog], #edit").all():
            button.click()
            demand_within(page.locator("dialog[open]"))
            page.keyboard.press("Escape")
            opened += 1
    assert opened > 15
    page.goto("/")
    for verb in ("Block", "Release"):
        page.locator(f"#i-{stage.item}").get_by_role("button", name="Actions for").click()
        page.get_by_role("menuitem", name=verb).click()
        for part in ("#move-title", "#move-do"):
            expect(page.locator(part)).to_be_in_viewport(ratio=1)
        demand_within(page.locator("#move"))
        page.keyboard.press("Escape")


def test_the_name_of_a_token_leaves_room_to_sign_out(site: Site, visits: Visits) -> None:
    secret = site.token(name="T" * 100)
    page = visits(site.url, viewport=PHONE).page
    page.goto("/sign-in")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site.url}/")
    assert page.evaluate(BESIDE) == []
    expect(page.get_by_role("button", name="Sign out")).to_be_in_viewport(ratio=1)
