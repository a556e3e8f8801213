"""What is wrong with a `rota.yaml` is said with its place, before anything is touched."""

from subprocess import CompletedProcess

import pytest

from tests.acceptance.fleet_site import Site
from tests.acceptance.terminal import Terminal

AGENT = """\
agents:
  - name: smith
    runtime: {type: command, command: [cat]}
    work_source: {type: queue}
    schedules:
      often: {type: interval, interval: 5m}
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{here}: &{here} [*{before}, *{before}, *{before}, *{before}, *{before}, *{before}]\n"
    for before, here in zip("abcdefgh", "bcdefghi", strict=True)
)

# What stands in the file, where the mistake is, and what somebody would look for in the message.
MISTAKES = {
    "interval": (AGENT.replace("5m", "5 minutes"), "6:31", "s/m/h/d|seconds"),
    "zero": (AGENT.replace("5m", "0s"), "6:31", "Zero interval|positive"),
    "cron": (
        AGENT.replace("interval, interval: 5m", "cron, cron: '61 * * * *'"),
        "6:27",
        "61|minute",
    ),
    "zone": (
        AGENT.replace(
            "interval, interval: 5m", "cron, cron: '@daily', timezone: Europe/Atlantis"
        ),
        "6:43",
        "Europe/Atlantis",
    ),
    "key": (AGENT.replace("schedules:", "shedules:"), "5:5", "schedules"),
    "type": (AGENT.replace("interval, ", "intervall, "), "6:15", "interval"),
    "twice": (AGENT + AGENT.removeprefix("agents:\n"), "7:", "smith|twice|already"),
    "path": (AGENT.replace("name: smith", "name: ../smith"), "2:5", "../smith|letters"),
    "command": (AGENT.replace(", command: [cat]", ""), "3:5", "command: [./agent.sh]"),
    "runtime": (AGENT.replace("type: command", "type: chatgpt"), "3:15", "claude"),
    "variable": (AGENT.replace("[cat]", "[cat, '${NOBODY_SET_THIS}']"), "3:", "NOBODY_SET_THIS"),
    "number": (
        AGENT + "    instances: {max_concurrent: 0}\n", "7:17", "max_concurrent|greater|at least",
    ),
    "repo": (
        AGENT.replace("{type: queue}", "{type: github, repo: engine}"), "4:33", "owner/repo",
    ),
    "missing file": ("agents:\n  - path: agents/none.yaml\n", "2:5", "none.yaml"),
    "itself": ("fleets:\n  - path: rota.yaml\n", "2:5", "rota.yaml|itself|circle|cycle"),
    "bomb": (BOMB, "", "alias|anchor|large|nest|many"),
    "no yaml": ("agents: [\n", "", "rota.yaml"),
    "a list": ("- one\n- two\n", "1:1", "key: value"),
    "prompt": (
        AGENT + f"    default_prompt: {'x' * 1_000_000}\n", "", "larger|characters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(place: Site, name: str) -> None:
    (place.place / "rota.yaml").write_text(MISTAKES[name][0])
    told = place.run("config", "check")
    assert told.returncode == 1
    assert_told(told, name)


@pytest.mark.parametrize("name", ["interval", "twice", "variable", "bomb", "no yaml"])
def test_a_server_does_not_start_on_a_mistake_and_touches_nothing(place: Site, name: str) -> None:
    (place.place / "rota.yaml").write_text(MISTAKES[name][0])
    told = Terminal(place.place).run("up", "--port", "0")
    assert told.returncode == 2
    assert_told(told, name)
    assert sorted(one.name for one in place.place.iterdir()) == ["rota.yaml"]


def assert_told(told: CompletedProcess[str], name: str) -> None:
    _, where, words = MISTAKES[name]
    said = told.stdout + told.stderr
    assert f"rota.yaml:{where}" in said
    assert any(word in said for word in words.split("|")), said
    assert "Traceback" not in said
    assert len(said) < 3000


def test_fleets_that_name_each_other_are_told(place: Site) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (place.place / name).mkdir()
        (place.place / name / "rota.yaml").write_text(f"fleets:\n  - path: ../{other}/rota.yaml\n")
    (place.place / "rota.yaml").write_text("fleets:\n  - path: a/rota.yaml\n")
    told = place.run("config", "check")
    assert told.returncode == 1
    assert "b/rota.yaml:2:5" in told.stdout + told.stderr


def test_all_mistakes_are_told_at_once(place: Site) -> None:
    text = AGENT.replace("5m", "soon").replace("name: smith", "name: a/b")
    (place.place / "rota.yaml").write_text(text)
    told = place.run("config", "check")
    said = told.stdout + told.stderr
    assert ("rota.yaml:2:5" in said, "rota.yaml:6:31" in said) == (True, True)
    refused = place.run("up", "--port", "0").stderr.splitlines()
    assert [line.partition(" ")[2][:13] for line in refused] == ["rota.yaml:2:5", "rota.yaml:6:3"]


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", b"# nothing yet\n"])
def test_an_empty_file_is_a_fleet_without_agents(place: Site, content: bytes) -> None:
    (place.place / "rota.yaml").write_bytes(content)
    assert place.run("config", "check").returncode == 0
    node = place.up()
    said = "none yet: rota.yaml names no agent\n"  # `rota init` would refuse to overwrite it
    place.eventually(lambda: said in node.log, "it is not said")


def test_bytes_that_are_no_text_are_refused(place: Site) -> None:
    (place.place / "rota.yaml").write_bytes(b"agents:\n  - name: caf\xe9\n")
    told = place.run("config", "check")
    assert told.returncode == 1
    assert "UTF-8" in told.stdout + told.stderr


def test_a_file_that_was_named_must_be_there(place: Site) -> None:
    told = place.run("up", "--config", "other.yaml", "--port", "0")
    assert told.returncode == 2
    assert "other.yaml" in told.stderr
    assert list(place.place.iterdir()) == []


# unknown names


def test_nobody_is_woken_who_is_not_there(place: Site) -> None:
    place.configure(place.agent())
    node = place.up()
    for name in ("jones/often", "smith/never", "../etc/passwd", "smith"):
        told = place.run("schedule", "trigger", name)
        assert told.returncode in (1, 2), name
        assert told.stderr
    said = {"text": "hello", "message_id": "m1"}
    for path in ("jones/often", "smith/never", "..%2f..%2fetc/passwd"):
        assert node.ask("POST", f"/schedules/{path}/trigger")[0] == 404
        assert node.ask("POST", f"/hooks/{path}")[0] in (401, 404)
        assert node.ask("POST", f"/chat/{path}", said)[0] == 404
    assert node.ask("POST", "/chat/smith/often", said)[0] == 409
    assert place.starts() == []


def test_runs_that_are_not_there_are_refused(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    for name in ("nothing", "../../etc/passwd", "0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f"):
        for verb in ("show", "log", "cancel"):
            told = place.run("run", verb, name)
            assert told.returncode == 1, (verb, name, told.stderr)
            assert told.stdout == ""
            assert "Traceback" not in told.stderr
