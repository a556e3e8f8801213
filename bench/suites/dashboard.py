"""The board in Chromium, with 5,000 open items: time to the first paint, time from a commit to the
page, its weight, and what an open page costs the server while nothing happens."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import rota_side
from bench.places import both_databases
from bench.report import Outcome, Table
from bench.suites import Options

_ITEMS = 5_000
_WATCH = """() => {
  window.seen = {};
  new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.addedNodes)
      if (node.dataset && node.dataset.id) window.seen[node.dataset.id] = Date.now();
  }).observe(document.getElementById("board"), { childList: true, subtree: true });
}"""
_WEIGHT = """() => performance.getEntriesByType("resource").reduce(
  (sum, one) => sum + one.transferSize, performance.getEntriesByType("navigation")[0].transferSize)
"""
_PAINT = '() => performance.getEntriesByName("first-contentful-paint")[0].startTime'


def run(options: Options) -> Outcome:
    visits, moves, rest = (3, 10, 2.0) if options.quick else (15, 100, 20.0)
    figures = []
    for database, place in both_databases(options.directory):
        with (
            tempfile.TemporaryDirectory(prefix="bench-state-") as state,
            rota_side.up(place, Path(state)) as server,
            _chromium() as browser,
        ):
            rota_side.fill_over_http(server.port, _ITEMS)
            url = f"http://127.0.0.1:{server.port}/"
            figure: dict[str, Any] = {"database": database, "items": _ITEMS}
            figure |= _visited(browser, url, visits)
            figure["live_ms"] = _live(browser, url, server.port, moves)
            figure["rest"] = _rest(browser, url, server.process.pid, rest)
            figures.append(figure)
    return Outcome(figures, [Table("The board with 5,000 open items", _COLUMNS, _rows(figures))])


@contextmanager
def _chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    from rota.testing.browser import FLAGS
    from rota.testing.chromium import find_chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        yield browser
        browser.close()


def _visited(browser: Any, url: str, visits: int) -> dict[str, Any]:
    """Each visit has an empty cache."""
    paints, weights = [], []
    for _ in range(visits):
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector("#feed[data-state=on]")
        paints.append(page.evaluate(_PAINT))
        weights.append(page.evaluate(_WEIGHT))
        context.close()
    return {
        "first_paint_ms": {"p50": round(statistics.median(paints)), "worst": round(max(paints))},
        "weight_kb": round(max(weights) / 1000, 1),
    }


def _live(browser: Any, url: str, port: int, moves: int) -> dict[str, float]:
    """From the answer to the writer, which comes after the commit, to the card in the page."""
    page = browser.new_page()
    page.goto(url)
    page.wait_for_selector("#feed[data-state=on]")
    page.evaluate(_WATCH)
    taken = []
    for _ in range(moves):
        body = {"type": "chore", "description": "Arrives", "priority": 1}
        _, text = rota_side.request(port, "POST", "/work", body)
        committed = time.time() * 1000
        item = json.loads(text)["id"]
        page.wait_for_selector(f"#i-{item}", state="attached")
        taken.append(max(0.0, page.evaluate("(id) => window.seen[id]", item) - committed))
        # Removed again: the column's first page must not fill up with them.
        rota_side.request(port, "DELETE", f"/work/{item}")
        page.wait_for_selector(f"#i-{item}", state="detached")
    page.close()
    ordered = sorted(taken)
    return {"p50": round(ordered[len(ordered) // 2], 1), "worst": round(ordered[-1], 1)}


def _rest(browser: Any, url: str, pid: int, seconds: float) -> dict[str, float]:
    """Ten pages are open, and nothing happens."""
    pages = [browser.new_page() for _ in range(10)]
    for page in pages:
        page.goto(url)
        page.wait_for_selector("#feed[data-state=on]")
    page.wait_for_timeout(1_000)
    before = _cpu_seconds(pid)
    page.wait_for_timeout(seconds * 1_000)
    used = _cpu_seconds(pid) - before
    for page in pages:
        page.close()
    return {"pages": len(pages), "seconds": seconds, "cpu_percent": round(used / seconds * 100, 2)}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_COLUMNS = (
    "database",
    "first paint p50 ms",
    "worst",
    "KB",
    "live p50 ms",
    "worst",
    "10 pages at rest, CPU",
)


def _rows(figures: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            one["database"],
            f"{one['first_paint_ms']['p50']}",
            f"{one['first_paint_ms']['worst']}",
            f"{one['weight_kb']}",
            f"{one['live_ms']['p50']}",
            f"{one['live_ms']['worst']}",
            f"{one['rest']['cpu_percent']} %",
        ]
        for one in figures
    ]
