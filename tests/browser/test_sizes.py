"""Every page at the sizes that people have: nothing beside the page, nothing out of reach."""

import re
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from rota.model.fleet import AgentSpec, Budget, Fleet, Limits
from rota.model.runs import RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind
from rota.signals import SignalScheduler
from rota.testing.browser import PHONE, Chromium, Page, Visit
from tests.browser.conftest import Visits
from tests.browser.site import Site, served_site

pytestmark = pytest.mark.needs("chromium")

NARROW_DESK = {"width": 1200, "height": 800}
LOW = {"width": 1000, "height": 700}
FAINT = "getComputedStyle(board).getPropertyValue('--faint')"


def box(one: Locator) -> tuple[float, float, float, float]:
    """Left, top, right, bottom."""
    found = one.bounding_box()
    assert found is not None
    right, bottom = found["x"] + found["width"], found["y"] + found["height"]
    return found["x"], found["y"], right, bottom


def demand_within(page: Page, *places: Locator) -> None:
    width = page.evaluate("innerWidth")
    for place in places:
        expect(place).to_be_visible()
        left, _, right, _ = box(place)
        assert left >= 0, place
        assert right <= width, place


def test_all_columns_of_the_board_fit_on_a_narrow_desk(site: Site, visits: Visits) -> None:
    site.add("word " * 30, labels=["a-label", "another-label"])
    page = visits(site.url, viewport=NARROW_DESK).page
    page.goto("/")
    demand_within(page, page.locator(".column.queued"), page.locator(".column.failed"))
    assert page.evaluate("board.scrollWidth <= board.clientWidth")
    assert page.evaluate(FAINT) == "0px"


def test_cards_that_were_seen_in_a_wide_window_fit_into_a_narrow_one(
    site: Site, visits: Visits
) -> None:
    for number in range(25):
        site.add(f"Paint board {number} of the long fence behind the house")
    page = visits(site.url, viewport={"width": 1800, "height": 800}).page
    page.goto("/")
    cards = page.locator(".column.queued .card")
    cards.last.scroll_into_view_if_needed()
    expect(cards.last).to_be_in_viewport()
    # A card's width is remembered at the end of a frame in which the card is out of sight.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.set_viewport_size(NARROW_DESK)
    scroll = page.locator(".column.queued .scroll")
    assert scroll.evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_a_board_that_does_not_fit_shows_that_it_scrolls(site: Site, visits: Visits) -> None:
    page = visits(site.url, viewport={"width": 900, "height": 700}).page
    page.goto("/")
    assert page.evaluate("board.scrollWidth > board.clientWidth")
    assert page.evaluate(FAINT) == "48px", "the side that goes on"
    page.evaluate("board.scrollTo(board.scrollWidth, 0)")
    page.wait_for_function(f"{FAINT} === '0px'")


def test_on_a_phone_every_column_has_its_heading_however_far_another_was_read(
    site: Site, visits: Visits
) -> None:
    site.client.work_add_many([{"type": "chore", "description": "Item"} for _ in range(40)])
    site.client.set_agent("ann", max_concurrent=50)
    for one in site.client.claim("ann", limit=40, lease_seconds=600):
        site.client.complete(one["id"], one["claim"]["token"])
    item = site.add("Paint the gate")
    page = visits(site.url, viewport=PHONE, is_mobile=True, has_touch=True).page
    page.goto("/")
    done = page.locator(".column.completed")
    done.locator(".card").last.scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(done.locator(".card").last).to_be_in_viewport()
    expect(done.get_by_role("heading")).to_be_in_viewport()
    page.evaluate("board.scrollTo({ left: 0, behavior: 'instant' })")
    expect(page.locator(".column.queued").get_by_role("heading")).to_be_in_viewport()
    expect(page.locator(f"#i-{item}")).to_be_in_viewport()


def test_runs_on_a_phone_show_item_error_and_cost(site: Site, visits: Visits) -> None:
    item, runs = site.taken("Build the release of this month"), site.served.ledger.runs
    known = site.served.run(lambda: site.served.ledger.views.item(item))
    run = site.served.run(lambda: runs.begin("ann", TriggerKind.MANUAL, item=known))
    end = RunEnd(RunStatus.FAILED, error="it exited with 1", usage=Usage(1_000, 200, 0.25))
    site.served.run(lambda: runs.end(run, end))
    page = visits(site.url, viewport=PHONE).page
    page.goto("/ui/runs")
    row = page.locator(f"#run-{run.id}")
    words = ("Build the release", "it exited with 1", "$0.25", "1,200", "failed")
    demand_within(page, *(row.get_by_text(one).first for one in words))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_follow_ups_on_a_phone_are_ended_without_scrolling_aside(
    site: Site, visits: Visits
) -> None:
    item = site.taken("Open the gate")
    action = {"kind": "follow_up", "title": "Find the key"}
    blocks = {"kind": "work_item.status.transition", "to": ["blocked"]}
    site.client.create_signal(blocks, action, work_item_id=item)
    site.client.block(item, notes="locked")
    site.served.run(SignalScheduler(site.served.store, owner="test").tick)
    page = visits(site.url, viewport=PHONE).page
    page.goto("/ui/signals")
    row = page.locator("#follow-ups tbody tr")
    done = row.get_by_role("button", name="Done")
    demand_within(page, row.locator(".status"), row.get_by_text("any agent"), done)
    done.click()
    expect(page.locator("#follow-ups")).to_contain_text("No follow-up is open")


def test_the_buttons_of_a_schedule_stand_clear_of_its_facts(showroom: Site, visits: Visits) -> None:
    page = visits(showroom.url, viewport=PHONE).page
    page.goto("/ui/schedules")
    panel = page.locator(".schedule").first
    buttons, rule = panel.locator(".tools"), panel.get_by_text("Rule")
    assert box(rule)[1] - box(buttons)[3] >= 4


@pytest.mark.parametrize("viewport", [PHONE, NARROW_DESK], ids=["phone", "desk"])
def test_an_agent_whose_budget_is_used_up_says_so_beside_its_name(
    tmp_path: Path, browser: Chromium, viewport: dict[str, int]
) -> None:
    spec = AgentSpec("brin", budget=Budget(per_day=Limits(usd=1.0)))
    with served_site(tmp_path, Fleet(agents=(spec,))) as site:
        runs = site.served.ledger.runs
        run = site.served.run(lambda: runs.begin("brin", TriggerKind.SCHEDULE))
        end = RunEnd(RunStatus.SUCCEEDED, usage=Usage(10, 10, 1.25))
        site.served.run(lambda: runs.end(run, end, spec))
        # The page ends before the server does: until then it would try to connect again.
        with browser.visiting(site.url, viewport=viewport) as visit:
            page = visit.page
            page.goto("/ui/agents")
            name, badge = page.locator("#name-brin"), page.locator("#agent-brin .state .status")
            expect(badge).to_have_text("budget used up")
            assert box(badge)[1] < box(name)[3]


# What is written in the plots: its words, its size in pixels, and its box.
WRITTEN = """
() => [...document.querySelectorAll(".plot text")].flatMap((one) => {
  const { left, top, right, bottom } = one.getBoundingClientRect();
  const size = parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
  return right > left ? [[one.textContent, size, left, top, right, bottom]] : [];
})
"""


@pytest.mark.parametrize("viewport", [PHONE, NARROW_DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("window", ["24h", "7d", "30d"])
def test_what_is_written_in_a_plot_can_be_read(
    showroom: Site, visits: Visits, viewport: dict[str, int], window: str
) -> None:
    page = visits(showroom.url, viewport=viewport).page
    page.goto(f"/ui/overview?window={window}")
    expect(page.locator(".plot text").first).to_be_visible()
    written = page.evaluate(WRITTEN)
    assert len(written) > 50
    assert [text for text, size, *_ in written if size < 9.5] == []
    for one, other in combinations(written, 2):
        (*_, left, top, right, bottom), (*_, begin, above, end, below) = one, other
        beside = right <= begin or end <= left
        assert beside or bottom <= above + 2 or below <= top + 2, (one, other)


@pytest.mark.parametrize("path", ["/", "/ui/runs"])
def test_fields_and_buttons_of_a_filter_stand_in_one_line(
    site: Site, page: Page, path: str
) -> None:
    page.goto(path)
    fields = page.locator("form.filters").locator("input:visible, select, button").all()
    edges = {(round(box(one)[1]), round(box(one)[3])) for one in fields}
    assert len(edges) == 1, edges


def test_what_is_wrong_with_a_new_item_is_seen_in_a_low_window(site: Site, visits: Visits) -> None:
    visit: Visit = visits(site.url, viewport=LOW)
    visit.tolerate("status of 422")
    page = visit.page
    page.goto("/")
    page.get_by_role("button", name="Add an item").click()
    page.get_by_label("What needs to be done").fill("Paint the gate")
    page.get_by_label("For this agent only").fill("No Such Name!")
    page.get_by_role("button", name="Add", exact=True).click()
    problem = page.locator("#new-item .problem")
    expect(problem).to_have_text(re.compile("^For this agent only: 'No Such Name!'[^!]*$"))  # once
    expect(page.get_by_label("For this agent only")).to_be_focused()
    expect(problem).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Add", exact=True)).to_be_in_viewport(ratio=1)


def test_what_is_wrong_with_one_of_several_labels_is_told_by_its_number(
    site: Site, visits: Visits
) -> None:
    visit = visits(site.url)
    visit.tolerate("status of 422")
    page, labels = visit.page, ["red", "green", "x" * 300]
    page.goto("/")
    page.get_by_role("button", name="Add an item").click()
    page.get_by_label("What needs to be done").fill("Paint the gate")
    page.get_by_label("Labels").fill(", ".join(labels))
    page.get_by_role("button", name="Add", exact=True).click()
    told = "(number 3): it has 300 characters; at most 100 are allowed."
    expect(page.locator("#new-item .problem")).to_have_text(f"Labels, separated by commas {told}")
    expect(page.get_by_label("Labels")).to_be_focused()
    page.goto(f"/items/{site.add()}")
    page.locator("#edit").click()
    page.get_by_label("Labels").fill("\n".join(labels))
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#dialog-edit .problem")).to_have_text(f"Labels, one on each line {told}")


def test_all_that_is_missing_in_a_form_is_told_at_once(site: Site, visits: Visits) -> None:
    visit = visits(site.url)
    visit.tolerate("status of 422")
    page = visit.page
    page.goto("/")
    page.get_by_role("button", name="Add an item").click()
    # As where an older page meets a newer server, which asks for more.
    page.evaluate(
        "for (const one of document.querySelectorAll('#new-item [required]')) {"
        " one.required = false; one.value = ''; }"
    )
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#new-item .problem")).to_have_text(
        "Type: it is missing; say what kind of work it is, such as code_review. What needs to be"
        " done: it is missing; say in a few words what is to be done."
    )
    expect(page.get_by_label("Type", exact=True).last).to_be_focused()


@pytest.mark.parametrize("viewport", [PHONE, NARROW_DESK], ids=["phone", "desk"])
def test_a_project_with_a_long_name_leaves_all_of_a_new_item_within_reach(
    site: Site, visits: Visits, viewport: dict[str, int]
) -> None:
    site.client.create_project("Everything that has to be done before we move to the other house")
    page = visits(site.url, viewport=viewport).page
    page.goto("/")
    page.get_by_role("button", name="Add an item").click()
    dialog = page.locator("#new-item")
    assert dialog.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    add = dialog.get_by_role("button", name="Add", exact=True)
    demand_within(page, dialog.get_by_label("What needs to be done"), add)


def test_long_labels_of_an_item_stay_on_the_page_of_a_phone(site: Site, visits: Visits) -> None:
    item = site.add(labels=["waits-for-" + "x" * 60, "short"])
    page = visits(site.url, viewport=PHONE).page
    page.goto(f"/items/{item}")
    demand_within(page, page.get_by_text("waits-for-"), page.get_by_text("short", exact=True))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# Words of a card that its box covers.
COVERED = """
(card) => {
  const box = card.querySelector(".pick").getBoundingClientRect();
  const isBeside = (one) => one.left >= box.right || box.left >= one.right;
  const isCovered = (one) => !isBeside(one) && one.top < box.bottom && box.top < one.bottom;
  const texts = document.createTreeWalker(card, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const isSeen = getComputedStyle(texts.currentNode.parentElement).visibility === "visible";
    if (isSeen && [...range.getClientRects()].some(isCovered)) found.push(texts.currentNode.data);
  }
  return found;
}
"""


@pytest.mark.parametrize("way", ["hover", "focus", "pick"])
def test_the_box_of_a_card_covers_no_word(site: Site, visits: Visits, way: str) -> None:
    items = [site.add("Sweep"), site.add("Sweep the yard " * 8, labels=["garden", "spring", "x"])]
    blocked = site.taken("Paint the gate and the fence")
    site.client.block(blocked, "Which green is meant? " * 3)
    page = visits(site.url, viewport=NARROW_DESK).page
    page.goto("/")
    for item in (*items, blocked):
        card = page.locator(f"#i-{item}")
        card.hover() if way == "hover" else card.focus()
        if way == "pick":
            page.keyboard.press("x")
            expect(card.locator(".pick")).to_be_checked()
            page.locator("footer").hover()
        expect(card.locator(".pick")).to_have_css("opacity", "1")
        assert card.evaluate(COVERED) == []
        card.locator(".pick").click()
        expect(card.locator(".pick")).to_be_checked(checked=way != "pick")


def test_the_page_of_the_api_leads_back_to_the_board(site: Site, page: Page) -> None:
    page.goto("/docs")
    page.get_by_role("link", name="Board").click()
    expect(page).to_have_title("Board · Rota")
