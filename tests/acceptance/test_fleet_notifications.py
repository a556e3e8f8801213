"""`rota up` tells people what happened, also what happened while it was dead."""

import sys
from typing import Any

from tests.acceptance.fleet_site import Site, whole_lines

KEEPS = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def heard(place: Site) -> list[Any]:
    return whole_lines(place.place / "heard.jsonl")


def configure(place: Site, *, on: bool = True) -> None:
    argv = [sys.executable, "-S", "-c", KEEPS, str(place.place / "heard.jsonl")]
    notify = {
        "channels": {"desk": {"type": "command", "argv": argv}},
        "rules": {"people": {"on": ["blocked"], "to": "desk"}},
    }
    web = {"public_url": "https://rota.example.org"}
    signals = {
        "tell": {
            "when": {"kind": "work_item.status.transition", "to": "cancelled"},
            "then": {"kind": "notify", "channel": "desk", "title": "{item.description} is off"},
        }
    }
    place.configure(notify=notify if on else {}, web=web, signals=signals if on else {})


def block(place: Site, title: str) -> str:
    item = place.add(title)
    place.type("dispatch", item, "smith")
    place.type("start", item)
    place.type("block", item, "--notes", "no wood")
    return item


def test_a_person_hears_of_it_once_whatever_becomes_of_the_server(place: Site) -> None:
    configure(place)
    block(place, "before anybody wanted to hear")
    node = place.up()
    first = block(place, "Mend the gate")
    place.eventually(lambda: len(heard(place)) == 1 or None, "nobody heard of it")
    place.await_delivered()  # who is killed in between tells it again, with the same id
    node.kill()
    second = block(place, "while it was dead")
    node.start()
    place.eventually(lambda: len(heard(place)) == 2 or None, "it was forgotten")
    pages = [one["notices"][0]["url"] for one in heard(place)]
    assert pages == [f"https://rota.example.org/items/{item}" for item in (first, second)]
    configure(place, on=False)
    place.type("config", "reload")
    block(place, "when it was switched off")
    configure(place)
    place.type("config", "reload")
    last = block(place, "and on again")
    place.eventually(lambda: len(heard(place)) == 3 or None, "it was not switched on")
    assert heard(place)[-1]["notices"][0]["item"]["id"] == last
    assert len({one["id"] for one in heard(place)}) == 3
    place.type("cancel", place.add("Paint the fence"))
    place.eventually(lambda: len(heard(place)) == 4 or None, "a signal was not heard")
    assert heard(place)[-1]["title"] == "Signal: Paint the fence is off"
    place.await_delivered()
    assert len(heard(place)) == 4
