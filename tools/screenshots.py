"""Pictures of every page and of the board in a terminal, for docs/images: `make screenshots`.

A week of a fleet's work is simulated on a new ledger (tools/showroom.py), `rota up` goes on from
there, and a browser takes the pictures.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2

from rota.client.pooled import PooledTransport
from rota.config import StateDir
from rota.terminal.app import BoardApp
from rota.terminal.board import BoardClient
from rota.terminal.filters import Filters
from rota.terminal.transport import Told
from rota.testing.browser import Chromium, chromium
from tools.showroom import furnish

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DAYS = 7
MOST_BYTES = 150_000
STARTING_SECONDS = 30.0
DESK = {"viewport": {"width": 1280, "height": 680}}
PHONE = {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True}
TERMINAL = (160, 30)  # cells
HOUR = 16  # of the viewer's day: at its beginning, nothing has been done yet


@contextmanager
def _server(home: Path) -> Iterator[str]:
    state = home / ".rota"
    place = ["--state-dir", str(state), "--db", str(state / "rota.db")]
    program = [sys.executable, "-m", "rota", *place, "up", "--port", "0"]
    program += ["--config", str(home / "rota.yaml")]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    with subprocess.Popen(program, cwd=home, env=ours, stdout=subprocess.DEVNULL) as server:
        try:
            yield _url(server, state)
        finally:
            server.terminate()
            server.wait()


def _url(server: "subprocess.Popen[bytes]", state: Path) -> str:
    deadline = time.monotonic() + STARTING_SECONDS
    while (found := StateDir(state).running()) is None:
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the server did not start; its words are above")
        time.sleep(0.05)  # another process, whose file is all there is to watch
    return found.url


def _pages(url: str) -> dict[str, str]:
    """The addresses of all pages, with an item and a run that have something to show."""
    with httpx2.Client(base_url=url) as http:
        (run, *_) = http.get("/runs", params={"status": "succeeded", "limit": 1}).json()
        item = _asking(http) or run["work_item_id"]
    return {
        "board": "/",
        "item": f"/items/{item}",
        "overview": "/ui/overview",
        "agents": "/ui/agents",
        "schedules": "/ui/schedules",
        "signals": "/ui/signals",
        "runs": "/ui/runs",
        "run": f"/ui/runs/{run['id']}",
    }


def _asking(http: httpx2.Client) -> str | None:
    """An item whose run ended with a question that nobody has answered yet."""
    for run in http.get("/runs", params={"status": "partial", "limit": 20}).json():
        if http.get(f"/work/{run['work_item_id']}").json()["status"] == "blocked":
            return str(run["work_item_id"])
    return None


def _zone() -> str:
    """A time zone in which it is that hour now. The sign is POSIX's: west of Greenwich is plus."""
    east = HOUR - datetime.now(UTC).hour
    return f"Etc/GMT{-east if east <= 14 else 24 - east:+d}"


def _shoot(browser: Chromium, url: str, pages: dict[str, str], suffix: str, **options: Any) -> None:
    def take() -> None:
        with browser.visiting(url, timezone_id=os.environ["TZ"], **options) as visit:
            for name, path in pages.items():
                visit.page.goto(path)
                if path != "/sign-in":
                    visit.page.wait_for_selector("#feed[data-state=on]")
                visit.page.screenshot(path=IMAGES / f"{name}{suffix}.png", animations="disabled")

    browser.run(take)


async def _board(url: str) -> str:
    """The board in a terminal as SVG; without a font, which it would load from another host."""
    told = Told(PooledTransport(url))
    client = BoardClient(transport=told)
    async with client:
        app = BoardApp(client, told, Filters(), "http://127.0.0.1:8080")
        async with app.run_test(size=TERMINAL) as pilot:
            while not (app.front.live and app.front.read_at):
                await pilot.pause(0.05)
            await pilot.pause()
            drawn = app.export_screenshot(title="Rota")
            app.workers.cancel_all()
    return re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)


def _terminal(browser: Chromium, url: str) -> None:
    drawn = asyncio.run(_board(url))

    def take() -> None:
        with browser.visiting(url, viewport={"width": 1300, "height": 680}) as visit:
            visit.page.set_content(f"<body style='margin: 0'>{drawn}")
            visit.page.locator("svg").screenshot(path=IMAGES / "terminal-board.png")

    browser.run(take)


def _sign_in(browser: Chromium, url: str) -> None:
    """The last picture: from the first token on, nobody gets in without one."""
    httpx2.post(f"{url}/tokens", json={"name": "boss", "scopes": ["admin"]}).raise_for_status()
    small = {"width": 1280, "height": 480}
    _shoot(browser, url, {"sign-in": "/sign-in"}, "", viewport=small)


def main() -> int:
    os.environ["TZ"] = _zone()  # of the board in the terminal, too
    time.tzset()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rota-showroom-") as place:
        home = Path(place)
        asyncio.run(furnish(home, days=DAYS))
        with _server(home) as url, chromium() as browser:
            pages = _pages(url)
            _shoot(browser, url, pages, "", **DESK)
            _shoot(browser, url, {"board": "/"}, "-dark", color_scheme="dark", **DESK)
            _shoot(browser, url, {"board": "/"}, "-phone", **PHONE)
            _terminal(browser, url)
            _sign_in(browser, url)
    heavy = False
    for picture in sorted(IMAGES.glob("*.png")):
        size = picture.stat().st_size
        heavy = heavy or size > MOST_BYTES
        print(
            f"{picture.name:20} {size / 1000:6.0f} kB{'  TOO LARGE' if size > MOST_BYTES else ''}"
        )
    return int(heavy)


if __name__ == "__main__":
    sys.exit(main())
