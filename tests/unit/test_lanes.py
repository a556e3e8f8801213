"""Requests and the threads that take them."""

import threading
from concurrent.futures import ThreadPoolExecutor

from rota.storage.lanes import Lanes, Seat


def resting(lanes: Lanes[str], count: int) -> bool:
    return len(lanes._resting) == count


def until(condition: object) -> None:
    assert callable(condition)
    wait = threading.Event()
    while not condition():
        wait.wait(0.001)


def test_what_nobody_waits_for_is_served_in_the_order_it_came() -> None:
    lanes: Lanes[str] = Lanes()
    for word in ("first", "second", None):
        lanes.put(word)
    seat = Seat[str]()
    assert [lanes.get(seat) for _ in range(3)] == ["first", "second", None]


def test_the_one_that_worked_last_is_asked_again() -> None:
    lanes: Lanes[str] = Lanes()
    seats = [Seat[str](), Seat[str]()]
    with ThreadPoolExecutor(2) as threads:
        cold = threads.submit(lanes.get, seats[0])
        until(lambda: resting(lanes, 1))
        for word in ("one", "two", "three"):
            warm = threads.submit(lanes.get, seats[1])
            until(lambda: resting(lanes, 2))
            lanes.put(word)
            assert warm.result(30) == word
        assert not cold.done()
        lanes.put("at last")
        assert cold.result(30) == "at last"
