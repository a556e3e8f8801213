"""What holds for every page of the dashboard."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from rota.testing.accessibility import barriers
from rota.testing.browser import PHONE, Chromium, Page, Visit
from tests.browser.conftest import Visits
from tests.browser.site import PAGES, Site
from tests.faults.processes import Server

pytestmark = pytest.mark.needs("chromium")
NO_COOKIES = "Object.defineProperty(document, 'cookie', { get: () => '', set() {} });"


def addresses(site: Site) -> list[str]:
    """Every page there is, with an item and a run that have something to tell."""
    (run, *_) = site.client.list_runs(limit=1, status="succeeded")
    return [*PAGES, f"/items/{run['work_item_id']}", f"/ui/runs/{run['id']}", "/nowhere"]


def pages_asked_for(page: Page) -> list[str]:
    """Their paths, as they are asked for."""
    asked: list[str] = []
    page.on(
        "request",
        lambda one: asked.append(urlsplit(one.url).path) if one.is_navigation_request() else None,
    )
    return asked


def live(page: Page) -> None:
    expect(page.locator("#feed")).to_contain_text("Live")


@pytest.mark.needs("axe")
@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({}, []),
        ({"viewport": PHONE, "has_touch": True, "is_mobile": True}, ["target-size"]),
        ({"color_scheme": "dark"}, ["color-contrast"]),
    ],
    ids=["desk", "phone", "dark"],
)
def test_everybody_can_use_every_page(
    showroom: Site, visits: Visits, browser: Chromium, options: dict[str, object], rules: list[str]
) -> None:
    visit = visits(showroom.url, **options)
    visit.tolerate("status of 404 .*/nowhere")
    found = []
    for address in addresses(showroom):
        visit.page.goto(address)
        found += [f"{address}: {one}" for one in barriers(visit.page, *rules)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("address", ["/", "/ui/overview", "/ui/schedules"])
def test_the_first_page_that_somebody_sees_has_the_days_of_their_time_zone(
    showroom: Site, visits: Visits, address: str
) -> None:
    page = visits(showroom.url, timezone_id="Asia/Tokyo").page
    asked = pages_asked_for(page)
    page.goto(address)
    expect(page.locator("body[data-zone='Asia/Tokyo']")).to_have_count(1)
    live(page)
    page.goto("/ui/agents")
    live(page)
    assert asked == [address, address, "/ui/agents"]


def test_a_page_whose_cookies_are_not_kept_is_loaded_once(showroom: Site, visits: Visits) -> None:
    visit = visits(showroom.url, timezone_id="Asia/Tokyo")
    visit.context.add_init_script(NO_COOKIES)
    asked = pages_asked_for(visit.page)
    visit.page.goto("/")
    live(visit.page)
    expect(visit.page.locator("body[data-zone=UTC]")).to_have_count(1)
    assert asked == ["/"]


def test_every_page_can_be_read_without_script(
    showroom: Site, visits: Visits, browser: Chromium
) -> None:
    visit = visits(showroom.url, java_script_enabled=False)
    visit.tolerate("status of 404 .*/nowhere")
    page = visit.page
    for address in addresses(showroom):
        page.goto(address)
        expect(page.locator("main h1")).to_have_count(1)
        for button in page.locator("button:visible").all():  # none that would do nothing
            form = button.evaluate("(one) => one.form && one.form.method")
            assert form in ("get", "post"), (address, button.text_content())


def test_the_menu_leads_everywhere_and_says_where_one_is(
    showroom: Site, visits: Visits, browser: Chromium
) -> None:
    page = visits(showroom.url).page
    page.goto("/")
    menu = page.get_by_role("navigation", name="Main")
    names = menu.get_by_role("link").all_text_contents()
    for name in names:
        menu.get_by_role("link", name=name).click()
        expect(menu.locator("[aria-current=page]")).to_have_text(name)
        live(page)
    assert len(names) == len(PAGES)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url(f"{showroom.url}/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()


@pytest.mark.parametrize("options", [{}, {"viewport": PHONE}], ids=["desk", "phone"])
def test_the_menu_stays_where_it_is_from_page_to_page(
    site: Site, visits: Visits, options: dict[str, object]
) -> None:
    page = visits(site.url, **options).page
    places = []
    for address in PAGES:
        page.goto(address)
        links = page.get_by_role("navigation", name="Main").get_by_role("link").all()
        places.append([link.bounding_box() for link in links])
    assert all(one == places[0] for one in places)


def test_the_page_says_that_the_server_is_gone_and_catches_up_when_it_is_back(
    visits: Visits, browser: Chromium, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("killed")
    server = Server(home, str(home / "rota.db"))
    server.start()
    try:
        visit = visits(server.url)
        visit.tolerate("ERR_CONNECTION_REFUSED|WebSocket connection")
        page = visit.page
        page.goto("/")
        live(page)
        server.kill()
        expect(page.locator("#feed")).to_contain_text("Not connected")
        server.start()
        made = page.request.post(
            "/work", data={"type": "chore", "description": "Made while nobody looked"}
        )
        assert made.status == 201
        live(page)
        expect(page.get_by_text("Made while nobody looked")).to_be_visible()
    finally:
        server.kill()


def test_a_page_that_is_not_there_helps_to_find_what_was_meant(
    site: Site, page: Page, visit: Visit, browser: Chromium
) -> None:
    site.add("Mend the fence")
    site.add("Paint the gate")
    visit.tolerate("status of 404")
    page.goto("/nowhere")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    page.get_by_label("Search the board").fill("fence")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=fence")
    expect(page.get_by_text("Mend the fence")).to_be_visible()
    expect(page.get_by_text("Paint the gate")).to_have_count(0)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "/?project=Shop",
            "The parameter project of the address: it is not known here; there are project_id,"
            " agent, type, label, q, need.",
        ),
        ("/?q=a&q=b", "The parameter q of the address: it is given twice."),
        ("/board/queued?cursor=x", "The parameter cursor of the address: not one of ours,"),
    ],
)
def test_an_address_that_is_not_understood_says_by_which_part_of_it(
    site: Site, page: Page, visit: Visit, address: str, said: str
) -> None:
    visit.tolerate("status of 4")
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_have_text("Not understood")
    expect(page.locator("main")).to_contain_text(said)
