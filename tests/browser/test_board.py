"""The board, as a person uses it."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Route, expect

from rota.model.schedules import TriggerKind
from rota.testing.browser import PHONE, Page, Visit
from tests.browser.conftest import Visits
from tests.browser.site import Site

pytestmark = pytest.mark.needs("chromium")


def opened(page: Page, path: str = "/") -> Page:
    page.goto(path)
    expect(page.locator("#feed")).to_contain_text("Live")
    return page


def card(page: Page, status: str, text: str) -> Locator:
    return page.locator(f".column.{status} .card", has_text=text)


def test_an_item_is_added_dispatched_by_drag_blocked_with_a_note_and_retried(
    site: Site, page: Page
) -> None:
    opened(page)
    page.get_by_role("button", name="Add an item").click()
    page.get_by_label("What needs to be done").fill("Paint the gate")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(card(page, "queued", "Paint the gate")).to_be_visible()

    card(page, "queued", "Paint the gate").drag_to(page.locator(".column.dispatched .scroll"))
    page.locator("#move").get_by_label("Agent").fill("zoe")
    page.get_by_role("button", name="Dispatch").click()
    expect(card(page, "dispatched", "Paint the gate")).to_contain_text("zoe")
    expect(page.locator("#announce")).to_contain_text("Paint the gate: Dispatched")

    card(page, "dispatched", "Paint the gate").get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Start").click()
    card(page, "in_progress", "Paint the gate").get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Block").click()
    page.locator("#move-do").click()  # the field is required: the browser keeps it open
    expect(page.locator("#move")).to_be_visible()
    page.locator("#move").get_by_label("Notes").fill("Which green?")
    page.locator("#move-do").click()
    expect(card(page, "blocked", "Paint the gate")).to_contain_text("Which green?")
    expect(page.locator("#attention")).to_have_text("1 item needs a person")
    expect(page).to_have_title("(1) Board · Rota")
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", "/icon/1")
    (item,) = site.client.work_list()
    assert (item["status"], item["assigned_agent"]) == ("blocked", "zoe")

    card(page, "blocked", "Paint the gate").get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Fail").click()
    page.locator("#move-do").click()
    card(page, "failed", "Paint the gate").get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Retry").click()
    expect(card(page, "queued", "Paint the gate")).to_be_visible()
    expect(page).to_have_title("Board · Rota")


def test_a_move_that_is_not_allowed_explains_itself_and_changes_nothing(
    site: Site, page: Page
) -> None:
    site.add("Paint the gate")
    opened(page)
    card(page, "queued", "Paint the gate").drag_to(page.locator(".column.completed .scroll"))
    told = "Paint the gate is queued and cannot become completed (possible: "
    expect(page.locator("#messages")).to_contain_text(told)
    expect(card(page, "queued", "Paint the gate")).to_be_visible()
    assert [item["status"] for item in site.client.work_list()] == ["queued"]


def test_cards_that_go_by_different_moves_go_one_column_at_a_time(site: Site, page: Page) -> None:
    gate, fence = site.add("Paint the gate"), site.add("Mend the fence")
    for item, status, more in (
        (gate, "failed", {"outcome": "failed"}),
        (fence, "in_review", {"artifact_url": "https://example.org/1"}),
    ):
        site.client.work_dispatch(item, agent=f"of-{item[-12:]}")
        site.client.edit(item, status=status, **more)
    opened(page)
    for status, text in (("failed", "Paint the gate"), ("in_review", "Mend the fence")):
        card(page, status, text).focus()
        page.keyboard.press("x")
    card(page, "failed", "Paint the gate").drag_to(page.locator(".column.queued .scroll"))
    expect(page.locator("#messages")).to_contain_text("different actions (Reopen, Retry)")
    assert {item["status"] for item in site.client.work_list()} == {"failed", "in_review"}


def test_what_an_agent_works_on_is_taken_from_it_only_on_purpose(site: Site, page: Page) -> None:
    site.add("Paint the gate")
    (claimed,) = site.client.claim("ann", lease_seconds=600)
    opened(page)
    expect(card(page, "in_progress", "Paint the gate")).to_contain_text("lease ends in")
    card(page, "in_progress", "Paint the gate").get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Release").click()
    page.locator("#move-do").click()  # not without the tick
    expect(page.locator("#move")).to_be_visible()
    page.get_by_label("End the claim of ann").check()
    page.locator("#move-do").click()
    expect(card(page, "queued", "Paint the gate")).to_be_visible()
    assert site.client.work_get(claimed["id"])["claim"] is None


def test_a_deferred_item_says_when_it_is_available(site: Site, page: Page) -> None:
    site.add("Paint the gate", available_at="2100-01-01T00:00:00Z")
    opened(page)
    marks = card(page, "queued", "Paint the gate").locator(".marks")
    expect(marks).to_contain_text(re.compile(r"available in \d+d"))


@pytest.mark.parametrize("minutes", [-10, 10])
def test_ages_do_not_go_by_a_wrong_clock_of_the_viewer(
    site: Site, page: Page, minutes: int
) -> None:
    item = site.add("Paint the gate")
    page.clock.install(time=datetime.now(UTC) + timedelta(minutes=minutes))
    page.goto("/")
    page.clock.run_for(1_000)  # until the ages are counted again
    expect(page.locator(f"#i-{item} .age")).to_have_text(re.compile(r"^[1-9]\d?s$"))


def test_what_is_due_is_fetched_in_time_by_a_wrong_clock_of_the_viewer(
    showroom: Site, visits: Visits
) -> None:
    now, visit = datetime.now(UTC), visits(showroom.url)
    visit.tolerate("LOCAL_NETWORK_ACCESS")  # no feed on a page that was fulfilled
    page = visit.page
    soon = f'data-refresh="{(now + timedelta(seconds=40)).isoformat()}"'

    def due_soon(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=re.sub('data-refresh="[^"]+"', soon, answer.text()))

    page.route("**/ui/schedules", due_soon)
    page.clock.install(time=now + timedelta(minutes=10))
    page.goto("/ui/schedules")
    with page.expect_request("**/ui/schedules"):
        page.clock.run_for(60_000)
    page.unroute_all(behavior="wait")


def test_a_change_made_elsewhere_appears_by_itself(site: Site, page: Page) -> None:
    first = site.add("First", priority=2)
    opened(page)
    urgent = site.add("Urgent", priority=1)
    expect(page.locator(".column.queued .card .name")).to_have_text(["Urgent", "First"])
    site.client.work_dispatch(first, "ann", start=False)
    expect(card(page, "dispatched", "First")).to_be_visible()
    expect(page.locator(".column.queued .count")).to_have_text("1")
    site.client.work_update(urgent, status="cancelled")
    expect(page.locator(".column.queued .card")).to_have_count(0)
    expect(page.get_by_text("No item is waiting. Add one")).to_be_visible()
    expect(page.get_by_text("Items dispatched to an agent wait here")).to_be_hidden()


def test_a_column_on_its_own_page_follows_changes_and_offers_no_move(
    site: Site, page: Page
) -> None:
    first = site.add("Paint the gate")
    page.goto("/board/queued")
    expect(page.locator(f"#i-{first}")).to_be_visible()
    expect(page.locator("html.js")).to_be_attached()
    expect(page.locator(".menu:visible, .pick:visible")).to_have_count(0)
    second = site.add("Oil the hinges")
    expect(page.locator(f"#i-{second}")).to_be_visible()


def test_what_happens_while_the_board_asks_is_asked_for_too(site: Site, page: Page) -> None:
    """Time in the page is the test's: the second event is heard while the first is asked for."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.clock.install()
    with page.expect_websocket() as socket:
        opened(page)
    page.route("**/board?*", hold, times=1)
    for name in ("First", "Second"):
        with socket.value.expect_event(
            "framereceived", lambda frame: "work.submitted" in str(frame)
        ):
            site.add(name)
        page.clock.run_for(500)
        until_held(page, held)
    expect(page.locator(".card")).to_have_count(0)
    held[0].continue_()
    expect(page.locator(".card .name")).to_have_text(["First"])
    page.clock.run_for(500)
    expect(page.locator(".card .name")).to_have_text(["First", "Second"])


def until_held(page: Page, held: list[Route]) -> None:
    while not held:
        page.clock.run_for(50)


def test_a_page_that_could_not_ask_asks_again(site: Site, visit: Visit) -> None:
    visit.tolerate("ERR_FAILED")
    item, page = site.add(), visit.page
    opened(page, f"/items/{item}")
    page.route(f"**/items/{item}", lambda route: route.abort(), times=1)
    with page.expect_event("requestfailed"):
        site.client.note(item, "the hinge is off")
    expect(page.get_by_text("the hinge is off").first).to_be_visible()


def test_filters_are_in_the_address_and_hold_for_what_comes_later(site: Site, page: Page) -> None:
    site.add("Paint the gate", type="bug", labels=["garden"])
    site.add("Mend the roof", type="chore")
    opened(page)
    page.keyboard.press("/")
    page.keyboard.type("GATE")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=GATE*")
    expect(page.locator(".card .name")).to_have_text(["Paint the gate"])
    expect(page.locator("#feed")).to_contain_text("Live")
    site.add("Another roof")
    site.add("Another gate")
    expect(page.locator(".card .name")).to_have_text(["Paint the gate", "Another gate"])
    expect(page.locator(".column.queued .count")).to_have_text("2")
    opened(page, "/?label=garden&type=bug")
    expect(page.locator(".card .name")).to_have_text(["Paint the gate"])
    page.reload()
    expect(page.get_by_label("Label", exact=True)).to_have_value("garden")


def test_an_item_whose_answer_was_lost_and_that_is_added_again_is_there_once(
    site: Site, page: Page, visit: Visit
) -> None:
    visit.tolerate("ERR_FAILED|status of 502")
    lost = iter((lambda route: route.abort(), lambda route: route.fulfill(status=502, body="<p>")))

    def answer(route: Route) -> None:
        route.fetch()
        next(lost)(route)

    opened(page)
    page.route("**/work", answer, times=2)
    page.get_by_role("button", name="Add an item").click()
    page.get_by_label("What needs to be done").fill("Paint the gate")
    add, problem = page.get_by_role("button", name="Add", exact=True), page.locator(".problem")
    add.click()
    expect(problem).to_have_text(
        "The server did not answer, so the change may not have been made; try again."
    )
    add.click()
    expect(problem).to_have_text("The server answered 502.")
    add.click()
    expect(page.locator("#new-item")).to_be_hidden()
    assert [one["description"] for one in site.client.work_list()] == ["Paint the gate"]
    page.get_by_role("button", name="Add an item").click()
    page.get_by_label("What needs to be done").fill("Paint the gate")
    add.click()
    expect(card(page, "queued", "Paint the gate")).to_have_count(2)  # asked for anew, it is another


def test_an_item_that_is_added_out_of_sight_can_be_found(site: Site, page: Page) -> None:
    opened(page, "/?agent=zoe")
    long = f"{'Paint the gate and the fence ' * 30}at last"
    page.get_by_role("button", name="Add an item").click()
    page.get_by_label("What needs to be done").fill(long)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#messages")).to_contain_text("Item added: Paint the gate")
    (item,) = site.client.work_list()
    assert item["description"] == long
    page.locator("#messages a").click()
    expect(page).to_have_url(f"{site.url}/items/{item['id']}")


def test_everything_can_be_done_by_keys(site: Site, page: Page) -> None:
    for name in ("One", "Two", "Three"):
        site.add(name)
    site.client.work_dispatch(site.add("Sent"), "ann", start=False)
    opened(page)
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    expect(card(page, "queued", "Two")).to_be_focused()
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("toolbar")).to_contain_text("2 selected")
    page.keyboard.press("m")
    expect(page.get_by_role("menuitem", name="Dispatch")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#move").get_by_label("Agent")).to_be_focused()
    page.keyboard.type("zoe")
    page.keyboard.press("Enter")
    expect(page.locator(".column.dispatched .card")).to_have_count(3)
    expect(page.get_by_role("toolbar")).to_be_hidden()
    page.keyboard.press("n")  # a note, on the page of an item and in a terminal
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.keyboard.press("a")
    expect(page.get_by_label("What needs to be done")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#new-item")).to_be_hidden()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    around = page.locator("#keys").bounding_box()
    close = page.locator("#keys").get_by_role("button", name="Close").bounding_box()
    assert around is not None
    assert close is not None
    assert close["width"] < around["width"] / 2
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    card(page, "queued", "One").focus()
    page.keyboard.press("l")
    expect(page.locator(".column.dispatched .card").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/items/*")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url(f"{site.url}/")


def test_five_thousand_items_come_page_by_page(site: Site, page: Page) -> None:
    for start in range(0, 5_000, 1_000):
        site.client.work_add_many(
            [{"type": "chore", "description": f"Item {start + n}"} for n in range(1_000)]
        )
    opened(page)
    expect(page.locator(".column.queued .count")).to_have_text("5,000")
    shown = page.locator(".column.queued .card")
    expect(shown).to_have_count(30)
    page.locator(".column.queued .more").scroll_into_view_if_needed()
    expect(shown.nth(59)).to_be_attached()
    names = page.locator(".column.queued .name").all_text_contents()
    assert names[:60] == [f"Item {n}" for n in range(60)]
    site.add("Behind all of them", priority=5)
    expect(page.locator(".column.queued .count")).to_have_text("5,001")
    urgent = site.add("Before all of them", priority=1)
    expect(shown.first).to_have_attribute("data-id", urgent)


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_board_never_scrolls_sideways_as_a_page(site: Site, visits: Visits, size: str) -> None:
    site.add("A" * 300)
    site.add("word " * 60)
    page = opened(visits(site.url, **({"viewport": PHONE} if size == "phone" else {})).page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.locator(".card").first).to_have_attribute("data-status", re.compile("queued"))


def test_what_is_blocked_is_given_back_with_an_answer(site: Site, page: Page) -> None:
    item = site.taken("A poem about love")
    site.client.block(item, "Whose love is it about?")
    opened(page)
    card(page, "blocked", "A poem").get_by_role("button", name="Actions for").click()
    expect(page.get_by_role("menuitem")).to_have_text(["Release", "Fail", "Resume", "Open"])
    page.get_by_role("menuitem", name="Release").click()
    page.locator("#move").get_by_label("Notes").fill("That of cats.")
    page.locator("#move-do").click()
    expect(card(page, "queued", "A poem")).to_be_visible()
    assert site.client.work_get(item)["notes"] == "That of cats."


def test_a_question_of_a_run_is_answered_on_the_page_of_its_item(site: Site, page: Page) -> None:
    item = site.add("A poem about love")
    (claimed,) = site.client.claim("poet", lease_seconds=600)
    ledger = site.served.ledger
    known = site.served.run(lambda: ledger.views.item(item))
    site.served.run(lambda: ledger.runs.begin("poet", TriggerKind.SCHEDULE, item=known))
    opened(page, f"/items/{item}")
    site.client.block(item, "Whose love is it about?", claimed["claim"]["token"])
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    page.get_by_role("button", name="Answer…").click()
    for nothing in ("", "  "):
        page.get_by_label("Your answer").fill(nothing)
        page.get_by_role("button", name="Answer", exact=True).click()
        expect(page.get_by_label("Your answer")).to_be_focused()
        expect(page.locator("#dialog-answer")).to_be_visible()
    assert site.client.work_get(item)["status"] == "blocked"
    page.get_by_label("Your answer").fill("That of cats.")
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator("#item-head .status")).to_have_text("queued")
    expect(page.locator("#notes")).to_contain_text("That of cats.")
