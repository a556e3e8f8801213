"""Overview and signals in a browser: they stay current, keep what is open, ask before they act."""

import re

import pytest
from playwright.sync_api import Page, expect

from rota.queue import statistics
from rota.signals import SignalScheduler
from tests.browser.site import Site

pytestmark = pytest.mark.needs("chromium")

BLOCKS = {"kind": "work_item.status.transition", "to": ["blocked"]}
FAILS = {"kind": "work_item.status.transition", "to": ["failed"]}


def test_the_overview_counts_on_and_keeps_its_tables_open(
    site: Site, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "SLOW", 1e9)  # nothing is told twice, however slow we are
    site.client.complete(site.taken("First"), outcome="success")
    page.goto("/ui/overview")
    expect(page.locator("#feed")).to_have_attribute("data-state", "on")
    completed = page.locator(".numbers li", has_text="Completed").locator(".much")
    expect(completed).to_have_text("1")
    panel = page.locator("#p-throughput")
    panel.get_by_text("Numbers").click()
    newest = panel.locator("tbody tr").first.locator("td").nth(1)
    expect(newest).to_have_text("1")
    site.client.complete(site.taken("Second"), outcome="success")
    expect(completed).to_have_text("2")
    expect(newest).to_have_text("2")
    expect(newest).to_be_visible()
    page.get_by_role("link", name="Show the last 7 days").click()
    expect(page).to_have_url(re.compile("window=7d"))
    seen = page.get_by_role("img", name="In the last 7 days, 2 items were completed")
    expect(seen).to_be_visible()


def test_figures_that_are_dear_to_count_are_asked_for_once_more(
    site: Site, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "kept_for", lambda taken: 3.0)
    site.client.complete(site.taken("First"), outcome="success")
    page.goto("/ui/overview")
    expect(page.locator("#feed")).to_have_attribute("data-state", "on")
    completed = page.locator(".numbers li", has_text="Completed").locator(".much")
    expect(completed).to_have_text("1")
    site.client.complete(site.taken("Second"), outcome="success")
    expect(completed).to_have_text("2")
    expect(page.locator("[data-again-in]")).to_have_count(0)


def test_signals_come_fire_and_go_before_the_viewers_eyes(site: Site, page: Page) -> None:
    page.goto("/ui/signals")
    expect(page.locator("#feed")).to_have_attribute("data-state", "on")
    expect(page.get_by_text("No signal is active")).to_be_visible()
    item = site.taken("Open the gate")
    action = {"kind": "follow_up", "title": "Find the key"}
    site.client.create_signal(BLOCKS, action, work_item_id=item, name="key")
    kept = site.client.create_signal(FAILS, name="any")["id"]
    expect(page.locator(".signal")).to_have_count(2)
    expect(page.locator(".signal", has_text="key")).to_contain_text("The item becomes blocked")
    page.locator(f"#cancel-{kept}").click()
    page.get_by_role("button", name="Keep the signal").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    site.client.block(item, notes="locked")
    processor = SignalScheduler(site.served.store, owner="test")
    site.served.run(processor.tick)
    expect(page.locator("#follow-ups")).to_contain_text("Find the key")
    page.get_by_role("button", name="Done").click()
    expect(page.locator("#follow-ups")).to_contain_text("No follow-up is open")
    again = site.client.create_signal(FAILS, name="again")["id"]
    page.locator(f"#cancel-{again}").click()
    page.get_by_role("button", name="Cancel the signal").click()
    expect(page.locator(f"#s-{again}")).to_have_count(0)
    page.get_by_role("link", name="All").click()
    expect(page.locator(f"#s-{again}")).to_contain_text("cancelled")
