"""Signing in and out, as a person does it."""

import pytest
from playwright.sync_api import expect

from rota.testing.accessibility import barriers
from rota.testing.browser import PHONE, Chromium, Page, Visit
from tests.browser.conftest import Visits
from tests.browser.site import Site

pytestmark = pytest.mark.needs("chromium")


def sign_in(page: Page, secret: str) -> None:
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()


def test_a_person_signs_in_acts_and_signs_out(
    site: Site, page: Page, visit: Visit, browser: Chromium
) -> None:
    item = site.add("Mend the fence")
    secret = site.token("dispatch", name="dana")
    page.goto(f"/items/{item}")
    assert page.url == f"{site.url}/sign-in?next=/items/{item}"
    expect(page.get_by_label("Token")).to_be_focused()

    visit.tolerate("status of 401")
    sign_in(page, "rota_wrong")
    expect(page.get_by_role("alert")).to_contain_text("Not signed in: this token is not known here")
    expect(page.get_by_label("Token")).to_have_attribute("aria-invalid", "true")
    assert visit.context.cookies() == []

    sign_in(page, secret)
    page.wait_for_url(f"**/items/{item}")
    (cookie,) = (one for one in visit.context.cookies() if one["name"] == "rota_token")
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    assert secret not in page.evaluate("document.cookie")
    expect(page.locator("#feed")).to_contain_text("Live")  # the socket has the cookie too
    made = page.evaluate(
        """async (body) => (await fetch("/work", {
          method: "POST", body, headers: {"content-type": "application/json"},
        })).status""",
        '{"type": "chore", "description": "By hand"}',
    )
    assert made == 201

    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    assert not [one for one in visit.context.cookies() if one["name"] == "rota_token"]
    page.goto("/")
    assert page.url == f"{site.url}/sign-in"


def test_a_revoked_token_leads_an_open_page_to_the_form(
    site: Site, page: Page, visit: Visit, browser: Chromium
) -> None:
    secret = site.token("read", name="dana")
    page.goto("/?q=fence")
    sign_in(page, secret)
    expect(page.locator("#feed")).to_contain_text("Live")
    visit.tolerate("status of 401|WebSocket")
    site.revoke()
    page.wait_for_url("**/sign-in?next=**")
    expect(page.locator("input[name=next]")).to_have_value("/?q=fence")


def test_signing_in_needs_no_script(site: Site, visits: Visits, browser: Chromium) -> None:
    secret = site.token("read", name="dana")
    page = visits(site.url, java_script_enabled=False).page
    page.goto("/")
    sign_in(page, secret)
    page.wait_for_url(f"{site.url}/")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    page.goto("/")
    assert page.url == f"{site.url}/sign-in"


@pytest.mark.needs("axe")
def test_everybody_can_use_the_form(site: Site, visits: Visits, browser: Chromium) -> None:
    site.token("read")
    for options in ({"viewport": PHONE}, {"color_scheme": "dark"}):
        visit = visits(site.url, **options)
        visit.tolerate("status of 401")
        visit.page.goto("/")
        assert barriers(visit.page) == []
        sign_in(visit.page, "rota_wrong")
        expect(visit.page.get_by_role("alert")).to_be_visible()
        visit.page.get_by_text("Where do I get a token?").click()
        assert barriers(visit.page) == []


def test_a_page_of_another_port_can_neither_act_nor_read_nor_listen(
    site: Site, visit: Visit, page: Page, browser: Chromium
) -> None:
    """Cookies know no ports: its requests carry ours."""
    secret = site.token("admin")
    page.goto("/sign-in")
    sign_in(page, secret)
    page.wait_for_url(f"{site.url}/")
    visit.tolerate(".")
    evil = "http://127.0.0.1:8765/evil"
    page.route(evil, lambda route: route.fulfill(body="<h1>evil</h1>", content_type="text/html"))
    page.goto(evil)
    assert page.evaluate("origin") == "http://127.0.0.1:8765"
    tried = page.evaluate(
        """async (url) => {
          const ask = (path, options) => fetch(url + path, {credentials: "include", ...options})
            .then((answer) => answer.type, () => "failed");
          const simple = {method: "POST", mode: "no-cors", body: "{}"};
          const socket = new Promise((done) => {
            const one = new WebSocket(url.replace("http", "ws") + "/ws");
            one.onopen = () => done("open");
            one.onclose = () => done("closed");
          });
          return [
            await ask("/work", {}), await ask("/sweep", simple), await ask("/sign-out", simple),
            await socket,
          ];
        }""",
        site.url,
    )
    assert tried == ["failed", "failed", "failed", "closed"]
    assert [one["name"] for one in visit.context.cookies()].count("rota_token") == 1
