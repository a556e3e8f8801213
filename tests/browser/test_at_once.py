"""The dashboard while several things happen at once."""

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Locator, Response, Route, expect

from rota.testing.browser import Page, Visit
from tests.browser.site import Site
from tests.browser.test_board import card, opened

pytestmark = pytest.mark.needs("chromium")


@dataclass  # without slots: Playwright sets attributes on listeners
class Kept:
    """Requests for addresses like `pattern` that get their answers only when the test says so."""

    page: Page
    pattern: str
    routes: list[Route] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.route(self.pattern, self.hold)

    def hold(self, route: Route) -> None:
        self.routes.append(route)

    def arrive(self, count: int = 1) -> None:
        while len(self.routes) < count:
            self.page.wait_for_timeout(10)

    def let_go(self) -> None:
        for route in self.routes:
            route.continue_()
        self.page.unroute(self.pattern)


def chosen(page: Page, one: Locator, verb: str) -> None:
    one.get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name=verb).click()


def test_a_late_answer_closes_no_dialog_that_was_opened_after_it(site: Site, page: Page) -> None:
    first = site.add("Paint the gate")
    site.add("Mend the fence")
    opened(page)
    kept = Kept(page, "**/work/*/cancel")
    chosen(page, card(page, "queued", "Paint the gate"), "Cancel")
    page.locator("#move-do").click()
    kept.arrive()
    page.locator("#move").get_by_role("button", name="Close").click()
    chosen(page, card(page, "queued", "Mend the fence"), "Cancel")
    page.locator("#move").get_by_label("Notes").fill("It is made of stone")
    kept.let_go()
    expect(page.locator("#announce")).to_contain_text("Cancel: Paint the gate")
    expect(card(page, "queued", "Paint the gate")).to_have_count(0)
    assert site.client.work_get(first)["status"] == "cancelled"
    expect(page.locator("#move")).to_be_visible()
    expect(page.locator("#move").get_by_label("Notes")).to_have_value("It is made of stone")


def test_a_card_that_changes_while_it_is_dragged_leaves_no_column_marked(
    site: Site, page: Page
) -> None:
    item = site.add("Paint the gate")
    opened(page)
    card(page, "queued", "Paint the gate").hover()
    page.mouse.down()
    page.locator(".column.dispatched .scroll").hover()
    page.locator(".column.dispatched .scroll").hover()
    expect(page.locator(".column.may")).not_to_have_count(0)
    with page.expect_response("**/board?*"):
        site.client.edit(item, priority=1)
    page.locator("footer").hover()
    page.mouse.up()
    expect(card(page, "queued", "Paint the gate")).to_contain_text("P1")
    expect(page.locator(".column.may, .column.may-not")).to_have_count(0)


def test_a_page_of_a_column_that_comes_late_brings_no_card_back(site: Site, page: Page) -> None:
    """The page was made before the item moved, and arrives after the move is shown."""
    site.client.work_add_many([{"type": "chore", "description": f"Item {n:02}"} for n in range(40)])
    (last,) = [one["id"] for one in site.client.work_list() if one["description"] == "Item 39"]

    def made_before(route: Route) -> None:
        answer = route.fetch()
        site.client.dispatch(last, "zoe")
        expect(card(page, "dispatched", "Item 39")).to_be_visible()
        route.fulfill(response=answer)

    opened(page)
    page.route("**/board/queued?*", made_before, times=1)
    page.locator(".column.queued .more").click()
    expect(card(page, "queued", "Item 38")).to_be_attached()
    expect(card(page, "dispatched", "Item 39")).to_be_visible()
    expect(card(page, "queued", "Item 39")).to_have_count(0)


def test_what_is_selected_stays_selected_when_very_much_changes_at_once(
    site: Site, page: Page
) -> None:
    gate, frames = site.add("Paint the gate", priority=1), list[str | bytes]()

    def note(frame: str | bytes) -> None:
        frames.append(frame)

    with page.expect_websocket() as socket:
        opened(page)
    socket.value.on("framereceived", note)
    page.locator(f"#i-{gate}").focus()
    page.keyboard.press("x")
    kept = Kept(page, "**/board?*")  # so that all the rest is heard before the board asks again
    site.client.edit(gate, priority=2)
    kept.arrive()
    site.client.work_add_many([{"type": "chore", "description": "Item"} for _ in range(300)])
    while len(frames) < 301:
        page.wait_for_timeout(10)
    with page.expect_response(f"{site.url}/"):
        kept.let_go()
    expect(page.locator(".column.queued .count")).to_have_text("301")
    expect(page.locator("#picked").get_by_text("1 selected")).to_be_visible()
    expect(page.locator(f"#i-{gate}")).to_be_focused()


def test_a_clock_that_is_set_back_does_not_stop_a_page(site: Site, page: Page) -> None:
    item = site.add("Paint the gate")
    for path in ("/", f"/items/{item}"):
        opened(page, path)
        site.client.edit(item, description=f"First {path}")
        expect(page.get_by_text(f"First {path}").first).to_be_visible()
        page.evaluate("{ const now = Date.now; Date.now = () => now() - 86400000; }")
        site.client.edit(item, description=f"Second {path}")
        expect(page.get_by_text(f"Second {path}").first).to_be_visible()


def test_a_page_whose_token_has_ended_waits_for_the_form_however_slow(
    site: Site, visit: Visit
) -> None:
    visit.tolerate("status of 401")
    page = visit.page
    secret = site.token()
    page.goto("/sign-in")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site.url}/")
    opened(page, "/?q=gate")
    kept = Kept(page, "**/sign-in*")
    refused: list[Response] = []  # one whenever it has connected again
    page.on("response", lambda answer: refused.append(answer) if answer.status == 401 else None)
    site.revoke()
    kept.arrive()
    while len(refused) < 3:
        page.wait_for_timeout(10)
    assert [route.request.url for route in kept.routes] == [
        f"{site.url}/sign-in?next=%2F%3Fq%3Dgate"
    ]
    kept.let_go()
    page.wait_for_url("**/sign-in*")


def test_the_rest_of_a_move_that_was_partly_refused_is_tried_again_alone(
    site: Site, page: Page, visit: Visit
) -> None:
    visit.tolerate("status of 503")
    gate, fence = site.add("Paint the gate"), site.add("Mend the fence")
    opened(page)
    for one in (gate, fence):
        page.locator(f"#i-{one}").focus()
        page.keyboard.press("x")
    page.route(f"**/work/{fence}/cancel", lambda route: route.fulfill(status=503), times=1)
    page.locator("#picked").get_by_role("button", name="Cancel").click()
    page.locator("#move-do").click()
    expect(page.locator("#move .problem")).to_contain_text(
        "Mend the fence: The server answered 503"
    )
    page.locator("#move-do").click()
    expect(page.locator("#move")).to_be_hidden()
    assert len(site.client.work_list("cancelled")) == 2


def test_the_menu_of_a_card_that_changes_meanwhile_gives_the_focus_back(
    site: Site, page: Page
) -> None:
    item = site.add("Paint the gate")
    opened(page)
    page.locator(f"#i-{item}").focus()
    page.keyboard.press("m")
    site.client.edit(item, priority=1)
    expect(card(page, "queued", "Paint the gate")).to_contain_text("P1")
    page.keyboard.press("Escape")
    expect(page.locator(f"#i-{item}")).to_be_focused()


def test_a_dialog_that_is_submitted_twice_sends_once(site: Site, page: Page) -> None:
    item = site.add("Paint the gate")
    opened(page, f"/items/{item}")
    kept = Kept(page, "**/work/*/note")
    page.locator("#note").click()
    page.locator("#dialog-note").get_by_label("Note").fill("The hinge is off")
    page.get_by_role("button", name="Add note").dblclick()
    kept.arrive()
    kept.let_go()
    expect(page.locator("#dialog-note")).to_be_hidden()
    noted = [one for one in site.client.work_get(item)["events"] if one["type"] == "work.noted"]
    assert len(noted) == 1


def test_a_refusal_is_told_also_when_its_dialog_was_closed(
    site: Site, page: Page, visit: Visit
) -> None:
    visit.tolerate("status of 409")
    item = site.add("Paint the gate")
    opened(page)
    kept = Kept(page, "**/work/*/cancel")
    chosen(page, card(page, "queued", "Paint the gate"), "Cancel")
    page.locator("#move-do").click()
    kept.arrive()
    page.locator("#move").get_by_role("button", name="Close").click()
    site.client.cancel(item)
    kept.let_go()
    expect(page.locator("#messages")).to_contain_text("cancelled")


def test_the_focus_returns_to_a_card_that_changes_while_its_dialog_is_open(
    site: Site, page: Page
) -> None:
    item = site.add("Paint the gate")
    opened(page)
    page.locator(f"#i-{item}").focus()
    page.keyboard.press("m")
    page.get_by_role("menuitem", name="Cancel").press("Enter")
    site.client.edit(item, priority=1)
    expect(card(page, "queued", "Paint the gate")).to_contain_text("P1")
    page.keyboard.press("Escape")
    expect(page.locator("#move")).to_be_hidden()
    expect(page.locator(f"#i-{item}")).to_be_focused()


def test_a_board_that_stays_open_keeps_no_more_cards_than_somebody_may_look_at(
    site: Site, page: Page
) -> None:
    site.client.set_agent("ann", max_concurrent=50)
    opened(page)
    done = page.locator(".column.completed")
    for count in (50, 100, 150):
        site.client.work_add_many([{"type": "chore", "description": "Item"} for _ in range(50)])
        for one in site.client.claim("ann", limit=50, lease_seconds=600):
            site.client.complete(one["id"], one["claim"]["token"])
        expect(done.locator(".count")).to_have_text(f"{count}")
    expect(done.locator(".card").nth(100)).to_have_count(0)
    expect(done.locator(".more")).to_have_count(1)


def test_what_was_done_yesterday_leaves_the_board(site: Site, page: Page) -> None:
    opened(page)
    item = site.taken("Paint the gate")
    site.client.edit(item, status="completed", outcome="success")
    expect(card(page, "completed", "Paint the gate")).to_be_visible()
    page.evaluate("""() => {
      const old = document.querySelector(".completed .card").cloneNode(true);
      old.querySelector(".name").textContent = "Of yesterday";
      old.id = "i-yesterday";
      old.dataset.key = "2020-01-01T00:00:00.000000Z yesterday";
      document.querySelector(".completed .cards").append(old);
    }""")
    site.add("Mend the fence")
    expect(card(page, "queued", "Mend the fence")).to_be_visible()
    expect(card(page, "completed", "Of yesterday")).to_have_count(0)
    expect(card(page, "completed", "Paint the gate")).to_be_visible()


def test_an_edit_does_not_undo_what_somebody_else_has_changed_meanwhile(
    site: Site, page: Page
) -> None:
    item = site.add("Paint the gate", labels=["garden"])
    opened(page, f"/items/{item}")
    page.locator("#edit").click()
    dialog = page.locator("#dialog-edit")
    dialog.get_by_label("Labels").fill("garden\nspring")
    site.client.edit(item, labels=["garden", "urgent"])
    expect(page.locator("#item-head")).to_contain_text("urgent")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.locator(".problem")).to_contain_text(
        "Somebody has changed the labels meanwhile, to: garden, urgent."
    )
    assert site.client.work_get(item)["labels"] == ["garden", "urgent"]
    dialog.get_by_role("button", name="Close").click()
    page.locator("#edit").click()
    dialog.get_by_label("Title").fill("Paint the fence")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("Paint the fence")
    assert site.client.work_get(item)["labels"] == ["garden", "urgent"]


def test_a_card_that_moves_into_a_column_that_is_fetched_anew_is_there_once(
    site: Site, page: Page
) -> None:
    gate = site.taken("Paint the gate")
    site.client.work_add_many([{"type": "chore", "description": "Item"} for _ in range(101)])
    opened(page)
    kept = Kept(page, f"{site.url}/")
    for limit in (40, 40, 21):
        for one in site.client.claim("ann", limit=limit, lease_seconds=600):
            site.client.complete(one["id"], one["claim"]["token"])
    kept.arrive()
    site.client.edit(gate, status="completed", outcome="success")
    kept.let_go()
    expect(card(page, "completed", "Paint the gate").first).to_be_visible()
    site.add("Mend the fence")
    expect(card(page, "queued", "Mend the fence")).to_be_visible()
    expect(page.locator(f"[id='i-{gate}']")).to_have_count(1)


def test_a_card_that_changes_stays_though_it_is_the_last_that_is_loaded(
    site: Site, page: Page
) -> None:
    site.client.work_add_many([{"type": "chore", "description": f"Item {n:02}"} for n in range(40)])
    opened(page)
    last = page.locator(".column.queued .card").nth(29)
    item = str(last.get_attribute("data-id"))
    site.client.edit(item, description="Item 29, changed")
    expect(last.locator(".name")).to_have_text("Item 29, changed")
    site.client.dispatch(item, "zoe")
    expect(card(page, "dispatched", "Item 29, changed")).to_be_visible()
    site.client.release(item)
    expect(last.locator(".name")).to_have_text("Item 29, changed")


def test_what_is_done_meanwhile_stays_when_all_cards_that_are_loaded_change(
    site: Site, page: Page
) -> None:
    """One by one from the oldest to the newest, each of which was the last one for a moment."""
    gate, frames = site.taken("Paint the gate", agent="smith"), list[str | bytes]()
    site.client.set_agent("ann", max_concurrent=50)
    site.client.work_add_many([{"type": "chore", "description": f"Item {n:02}"} for n in range(40)])
    done = site.client.claim("ann", limit=40, lease_seconds=600)

    def note(frame: str | bytes) -> None:
        frames.append(frame)

    for one in done:
        site.client.complete(one["id"], one["claim"]["token"])
    with page.expect_websocket() as socket:
        opened(page)
    socket.value.on("framereceived", note)
    kept = Kept(page, "**/board?*")
    site.client.note(done[0]["id"], "well done")
    kept.arrive()
    for one in done[1:]:
        site.client.note(one["id"], "well done")
    site.client.edit(gate, status="completed", outcome="success")
    while len(frames) < 41:
        page.wait_for_timeout(10)
    kept.let_go()
    names = page.locator(".column.completed .card .name")
    expect(names).to_have_text(["Paint the gate", *(f"Item {n:02}" for n in range(39, 9, -1))])
