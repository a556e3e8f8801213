"""`rota watch` follows a server's feed, and finds its way where there is none."""

import queue
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from rota.api import ApiSettings
from rota.cli import feed
from rota.cli.feed import NoFeed, follow
from rota.model.errors import InvalidInput, Unauthenticated
from rota.model.work import NewItem
from rota.testing.served import Served, serve
from tests.acceptance.terminal import ThisProcess


def add(http: httpx2.Client) -> str:
    answer = http.post("/work", json={"type": "chore", "description": "x"})
    return str(answer.json()["id"])


def test_it_tells_events_as_the_log_has_them(http: httpx2.Client, served: Served) -> None:
    item = add(http)
    events = follow(served.url, None, 0, {"types": ("work.submitted",), "work_item_id": None})
    assert next(events) == http.get("/events").json()[0]
    other = add(http)
    assert next(events)["work_item_id"] == other != item
    events.close()


def test_it_goes_on_behind_what_it_was_told(http: httpx2.Client, served: Served) -> None:
    """Also when that was nothing but where it begins."""
    before, pauses, said = add(http), queue.SimpleQueue[float](), list[str]()
    events = follow(served.url, None, None, {}, pauses.put, tell=said.append)
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(next, events)
        _cut(served)
        pauses.get(timeout=20)
        first = add(http)
        assert told.result(20)["work_item_id"] == first != before
    gone = [f"{served.url} does not answer; trying again until it does"]
    assert said == [*gone, f"{served.url} answers again"]
    _cut(served)
    second = add(http)
    assert next(events)["work_item_id"] == second
    assert not pauses.empty()
    events.close()


def test_whoever_has_heard_enough_leaves_the_rest_unread(served: Served) -> None:
    new = [NewItem("chore", str(number)) for number in range(200)]
    served.run(lambda: _submit(served, new))
    events = follow(served.url, None, 0, {})
    next(events)
    begun = time.monotonic()
    events.close()
    assert time.monotonic() - begun < 5  # to say farewell in form takes ten


async def _submit(served: Served, new: list[NewItem]) -> None:
    for one in new:
        await served.ledger.queue.submit(one)


def test_ctrl_c_while_it_says_farewell_is_one_as_any_other(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> Iterator[dict[str, object]]:
        try:
            yield from real(served.url, None, 0, {})
        finally:
            raise KeyboardInterrupt

    real = feed.follow
    monkeypatch.setattr(feed, "follow", interrupted)
    here = ThisProcess(tmp_path, {"ROTA_URL": served.url})
    item = here.type("add", "Mend the gate").strip()
    ended = here.run("watch", "--since", "0", "--limit", "1")
    assert (ended.returncode, ended.stderr) == (130, "")
    assert item in ended.stdout


def _cut(served: Served) -> None:
    """As soon as there is something to cut."""
    while not served.run(lambda: _end_all(served)):
        time.sleep(0.01)


async def _end_all(served: Served) -> bool:
    if not served.api._sockets._feed.followers:
        return False
    for one in tuple(served.api._sockets._open):
        one.end(1001, "for a test")
    return True


def test_what_is_wrong_is_said_as_over_http(served: Served) -> None:
    with pytest.raises(InvalidInput, match="no-such"):
        next(follow(served.url, None, 0, {"types": ("no-such",)}))


def test_a_token_is_wanted_where_there_are_tokens(database: str) -> None:
    with serve(database) as served:
        ledger = served.ledger
        item = served.run(lambda: ledger.queue.submit(NewItem("chore", "x"))).id
        secret = served.run(lambda: ledger.tokens.create("t", ("read",)))[1]
        with pytest.raises(Unauthenticated):
            next(follow(served.url, "rota_wrong", 0, {}))
        with pytest.raises(Unauthenticated, match="wants a token: set ROTA_TOKEN"):
            next(follow(served.url, None, 0, {}))
        events = follow(served.url, f" {secret}\n", 0, {})
        assert next(events)["work_item_id"] == item
        events.close()


def test_who_is_refused_for_now_hears_why(database: str) -> None:
    said = list[str]()

    def give_up(pause: float) -> None:
        raise KeyboardInterrupt

    with serve(database, ApiSettings(auth_failures=1)) as served:
        served.run(lambda: served.ledger.tokens.create("t", ("read",)))
        with pytest.raises(Unauthenticated):
            next(follow(served.url, "rota_wrong", 0, {}))
        with pytest.raises(KeyboardInterrupt):
            next(follow(served.url, "rota_wrong", 0, {}, give_up, tell=said.append))
        [told] = said
        assert told.startswith(f"{served.url}: too many wrong tokens from this address; wait ")
        assert told.endswith("; trying again")


def test_a_server_without_a_feed_is_noticed(served: Served) -> None:
    with pytest.raises(NoFeed):
        next(follow(f"{served.url}/elsewhere", None, 0, {}))


def test_a_server_that_is_away_is_waited_for(database: str) -> None:
    with serve(database) as served:
        url = served.url
    tries, said = list[float](), list[str]()

    def give_up(pause: float) -> None:
        tries.append(pause)
        if len(tries) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(follow(url, None, 0, {}, give_up, tell=said.append))
    assert (len(tries), len(said)) == (3, 1)
