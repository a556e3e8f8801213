"""The dashboard while several things happen at once."""

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Locator, Route, expect

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
    site.revoke()
    kept.arrive()
    for _ in range(2):  # whenever it has connected again
        page.wait_for_event("response", lambda answer: answer.status == 401)
    assert [route.request.url for route in kept.routes] == [
        f"{site.url}/sign-in?next=%2F%3Fq%3Dgate"
    ]
    kept.let_go()
    page.wait_for_url("**/sign-in*")


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
