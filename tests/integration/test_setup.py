"""`rota setup`: what it writes for each coding agent, and that it can be taken back to the byte."""

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.errors import Refused, StorageUnavailable
from rota.setup import writing
from rota.setup.blocks import Block
from rota.setup.json_files import JsonFile
from rota.setup.plan import Setup
from rota.setup.tools import TOOLS, Place
from tests.acceptance.terminal import Terminal, ThisProcess

NAMES = list(TOOLS)
Tree = dict[str, bytes | None]

# What a person may have in these files, in the ways in which people write them.
FOREIGN = {
    "project/CLAUDE.md": b"# Mine\r\n\r\nWith a line end of Windows.\r\n",
    "project/AGENTS.md": b"No line end",
    "project/GEMINI.md": b"",
    "project/.mcp.json": b'{"mcpServers": {"other": {"command": "x", "args": []}}, "b": [1,  2]}',
    "project/.claude/settings.json": (
        b'{\n    "permissions": {"allow": ["Bash(ls:*)"]},\n    "hooks": {\n'
        b'        "Stop": [{"hooks": [{"type": "command", "command": "echo hi"}]}],\n'
        b'        "PostToolUse": [ ]\n    },\n    "z": 1.50\n}'
    ),
    "project/.gemini/settings.json": b'{\n\t"theme": "\\u00e4",\n\t"mcpServers": {\n\t}\n}\n',
    "project/.cursor/mcp.json": b"{ }\n",
    "project/.cursor/rules/other.mdc": b"mine\n",
    "home/.codex/config.toml": b'model = "o"\n\n[mcp_servers.other]\ncommand = "x"',
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name in ("project", "home"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def here(site: Path) -> Terminal:
    return ThisProcess(site / "project", {"HOME": str(site / "home")})


@pytest.fixture
def furnished(site: Path) -> Path:
    for name, content in FOREIGN.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (site / "project/.claude/settings.json").chmod(0o600)
    return site


def tree(site: Path) -> Tree:
    return {
        str(path.relative_to(site)): None if path.is_dir() else path.read_bytes()
        for path in site.rglob("*")
    }


def written(site: Path, name: str) -> Any:
    return json.loads((site / "project" / name).read_text())


@pytest.mark.parametrize("tool", NAMES)
def test_what_is_set_up_in_an_empty_place_is_gone_when_it_is_removed(
    here: Terminal, site: Path, tool: str
) -> None:
    before = tree(site)
    here.type("setup", tool)
    once = tree(site)
    assert once.keys() > before.keys()
    assert once["project/.rota/.gitignore"] == b"*\n"
    here.type("setup", tool)
    assert tree(site) == once, "twice is once"
    here.type("setup", tool, "--remove")
    assert tree(site) == before
    here.type("setup", tool, "--remove")
    assert tree(site) == before


@pytest.mark.parametrize("tool", NAMES)
def test_files_of_others_keep_all_they_hold_and_are_the_same_to_the_byte_afterwards(
    here: Terminal, furnished: Path, tool: str
) -> None:
    before = tree(furnished)
    shown = here.type("setup", tool, "--agent", "smith", "--dry-run")
    assert "+++" in shown
    assert tree(furnished) == before, "a rehearsal changes nothing"
    here.type("setup", tool, "--agent", "smith")
    once = tree(furnished)
    for name, content in before.items():
        assert content is None or _holds(once[name], content), name
    here.type("setup", tool, "--agent", "smith")
    assert tree(furnished) == once
    here.type("setup", tool, "--remove")
    assert tree(furnished) == before
    assert (furnished / "project/.claude/settings.json").stat().st_mode & 0o777 == 0o600


def test_the_receipt_is_its_owners_alone(here: Terminal, site: Path) -> None:
    """It names files in the home directory, and what was in them."""
    receipt = site / "project/.rota/setup.json"
    for tool in NAMES:
        here.type("setup", tool)
        assert receipt.stat().st_mode & 0o777 == 0o600
        receipt.chmod(0o644)  # by a copy or a careless hand; it is written anew for each tool


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_who_reads_files_that_are_made_for_a_tool_is_up_to_the_umask(
    here: Terminal, site: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        here.type("setup", "claude")
        assert os.umask(umask) == umask, "it is as it was"
    finally:
        os.umask(before)
    assert (site / "project/.mcp.json").stat().st_mode & 0o777 == mode


def _holds(now: bytes | None, before: bytes) -> bool:
    """Every letter of before, in its order; blanks inside of brackets may have grown."""
    letters = iter(b"".join((now or b"").split()))
    return all(letter in letters for letter in b"".join(before.split()))


def test_each_tool_finds_its_mcp_server_where_it_looks_for_it(
    here: Terminal, furnished: Path
) -> None:
    for tool in NAMES:
        here.type("setup", tool, "--agent", "smith", "--url", "http://127.0.0.1:8080")
    words = ["--url", "http://127.0.0.1:8080", "mcp", "--agent", "smith"]
    for name in (".mcp.json", ".gemini/settings.json", ".cursor/mcp.json"):
        assert written(furnished, name)["mcpServers"]["rota"]["args"][-5:] == words
    assert written(furnished, ".mcp.json")["mcpServers"]["other"] == {"command": "x", "args": []}
    codex = tomllib.loads((furnished / "home/.codex/config.toml").read_text())
    assert codex["mcp_servers"]["rota"]["args"][-5:] == words
    assert codex["model"] == "o"
    hooks = written(furnished, ".claude/settings.json")["hooks"]
    assert [len(hooks[event]) for event in ("SessionStart", "PostToolUse", "Stop")] == [1, 1, 2]
    for folder in (".claude", ".agents", ".gemini", ".cursor"):
        skill = (furnished / "project" / folder / "skills/rota/SKILL.md").read_text()
        assert skill.startswith("---\nname: rota\ndescription: ")


@pytest.mark.parametrize(
    ("tool", "instructions", "skill"),
    [
        ("claude", "CLAUDE.md", ".claude/skills/rota/SKILL.md"),
        ("generic", "AGENTS.md", ".agents/skills/rota/SKILL.md"),
    ],
)
def test_where_rota_is_not_on_the_path_an_agent_is_told_what_works(
    here: Terminal, site: Path, tool: str, instructions: str, skill: str
) -> None:
    here.variables["PATH"] = str(site)
    here.type("setup", tool, "--url", "http://127.0.0.1:9")
    called = f"{sys.executable} -m rota --url http://127.0.0.1:9"
    assert f"`{called} claim --agent {tool}`" in (site / "project" / instructions).read_text()
    told = f"For `rota` write `{called}` here."
    assert told in (site / "project" / skill).read_text()
    assert told in here.type("prime", "--url", "http://127.0.0.1:9")


def test_an_agent_without_an_mcp_server_is_told_commands_and_no_tools(
    here: Terminal, site: Path
) -> None:
    here.type("setup", "generic", "--agent", "smith")
    told = (site / "project/AGENTS.md").read_text()
    assert "rota claim --agent smith" in told
    assert re.findall("work_[a-z]+|MCP", told) == []


def test_codex_is_looked_for_where_codex_home_says(here: Terminal, site: Path) -> None:
    here.variables["CODEX_HOME"] = str(site / "elsewhere")
    here.type("setup", "codex")
    found = tomllib.loads((site / "elsewhere/config.toml").read_text())["mcp_servers"]["rota"]
    ledger = str(site / "project/.rota")
    assert found["args"][-5:] == ["--state-dir", ledger, "mcp", "--agent", "codex"]
    assert not (site / "home/.codex").exists()
    here.type("setup", "codex", "--remove")
    assert not (site / "elsewhere").exists()


def test_a_user_without_home_and_name_can_be_set_up_but_for_codex(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> Any:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.delenv("HOME", raising=False)
    here = ThisProcess(site / "project", {})
    here.type("setup", "claude")
    assert "set CODEX_HOME or HOME" in here.json("setup", "codex", code=2)["message"]
    assert "set HOME" in here.json("list", "--db", "~/rota.db", code=2)["message"]


def test_a_file_that_two_tools_share_stays_until_both_are_removed(
    here: Terminal, site: Path
) -> None:
    before = tree(site)
    for tool in ("codex", "generic"):
        here.type("setup", tool, "--agent", "smith")
    here.type("setup", "codex", "--remove")
    assert "rota:begin" in (site / "project/AGENTS.md").read_text()
    here.type("setup", "generic", "--remove")
    assert tree(site) == before


def test_a_file_that_was_ours_once_is_its_makers_now(here: Terminal, site: Path) -> None:
    """The receipt, which the other tool keeps, no longer says that we created it."""
    for words in (("gemini",), ("claude",), ("claude", "--remove")):
        here.type("setup", *words)
    theirs = site / "project/.mcp.json"
    theirs.write_text("{}\n")
    here.type("setup", "claude")
    here.type("setup", "claude", "--remove")
    assert theirs.read_text() == "{}\n"


def test_what_a_person_changed_meanwhile_is_kept(here: Terminal, furnished: Path) -> None:
    project = furnished / "project"
    here.type("setup", "claude")
    notes, servers, skill = (
        project / "CLAUDE.md", project / ".mcp.json", project / ".claude/skills/rota/SKILL.md",
    )  # fmt: skip
    notes.write_bytes(notes.read_bytes() + b"Written later.\r\n")
    grown = servers.read_text().replace('"b": [1,  2]', '"b": [1,  2], "c": {"d": null}')
    servers.write_text(grown)
    hooks_file = project / ".claude/settings.json"
    hooks = json.loads(hooks_file.read_text())
    hooks["hooks"]["SessionStart"][0]["hooks"].append({"type": "command", "command": "mine"})
    hooks_file.write_text(json.dumps(hooks, indent=4))
    skill.write_text(skill.read_text() + "And mine.\n")
    here.type("setup", "claude")
    assert "And mine." in skill.read_text(), "a second call does not take it away either"
    here.type("setup", "claude", "--remove")
    assert notes.read_bytes() == FOREIGN["project/CLAUDE.md"] + b"Written later.\r\n"
    assert servers.read_bytes() == FOREIGN["project/.mcp.json"].replace(
        b'"b": [1,  2]', b'"b": [1,  2], "c": {"d": null}'
    )
    left = json.loads(hooks_file.read_text())["hooks"]
    assert left["SessionStart"] == [{"hooks": [{"type": "command", "command": "mine"}]}]
    assert len(left["Stop"]) == 1
    assert "And mine." in skill.read_text()


def test_a_changed_agent_is_changed_in_place_and_what_was_added_to_our_entry_stays(
    here: Terminal, furnished: Path
) -> None:
    here.type("setup", "claude", "--agent", "smith")
    servers = furnished / "project/.mcp.json"
    entry = json.loads(servers.read_text())
    entry["mcpServers"]["rota"]["env"] = {"ROTA_TOKEN": "${ROTA_TOKEN}"}
    servers.write_text(json.dumps(entry))
    here.type("setup", "claude", "--agent", "jones")
    rota = written(furnished, ".mcp.json")["mcpServers"]["rota"]
    assert (rota["args"][-1], rota["env"]) == ("jones", {"ROTA_TOKEN": "${ROTA_TOKEN}"})
    assert (furnished / "project/CLAUDE.md").read_text().count("rota:begin") == 1
    assert "smith" not in (furnished / "project/.claude/settings.json").read_text()


BROKEN = [
    ("claude", "project/.mcp.json", b'{"mcpServers": {', "not JSON"),
    ("claude", "project/.mcp.json", b"[]", "not an object"),
    ("claude", "project/.mcp.json", b'{"a": 1, "a": 2}', "twice"),
    ("claude", "project/.mcp.json", b'{"mcpServers": []}', "not an object"),
    ("claude", "project/.mcp.json", b'{"mcpServers": {"rota": {"command": "x"}}}', "not ours"),
    ("claude", "project/.mcp.json", b"", "not JSON"),
    ("claude", "project/.mcp.json", b"\xff{}", "UTF-8"),
    ("claude", "project/.claude/settings.json", b'{"hooks": {"Stop": {}}}', "not a list"),
    ("claude", "project/.claude/skills/rota/SKILL.md", b"somebody's", "not ours"),
    ("claude", "project/CLAUDE.md", b"<!-- rota:begin v1 lead=0 -->\n", "do not make one block"),
    ("gemini", "project/.gemini/settings.json", b'{\n // mine\n}', "not JSON"),
    ("cursor", "project/.cursor/mcp.json", b"[" * 100_000, "deeply"),
    ("codex", "home/.codex/config.toml", b"model = ", "TOML"),
    ("codex", "home/.codex/config.toml", b"[mcp_servers.rota]\n", "server called rota"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "name", "content", "said"), BROKEN)
def test_a_file_that_cannot_be_merged_into_is_refused_and_nothing_at_all_is_changed(
    here: Terminal, site: Path, *, tool: str, name: str, content: bytes, said: str
) -> None:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    before = tree(site)
    done = here.run("setup", tool)
    assert done.returncode in (2, 7), done.stderr
    assert said in done.stderr
    assert path.name in done.stderr
    assert tree(site) == before


def test_what_cannot_be_read_is_not_taken_for_missing(here: Terminal, site: Path) -> None:
    (site / "project/CLAUDE.md").mkdir()
    before = tree(site)
    done = here.run("setup", "claude")
    assert done.returncode == 7
    assert "CLAUDE.md: Is a directory (nothing was changed)" in done.stderr
    assert tree(site) == before


def test_what_cannot_be_written_or_deleted_is_said(site: Path) -> None:
    nowhere = site / "link"
    nowhere.symlink_to("/proc/nothing/can/be/made/here")
    with pytest.raises(StorageUnavailable, match=r"cannot write .*link: "):
        writing.write(nowhere, "lost")
    with pytest.raises(StorageUnavailable, match=r"cannot delete .*project: "):
        writing.delete(site / "project")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"files": 1, "tools": {}, "made": []}'])
def test_a_receipt_that_cannot_be_read_is_not_taken_for_none(
    here: Terminal, site: Path, content: str
) -> None:
    here.type("setup", "claude")
    (site / "project/.rota/setup.json").write_text(content)
    before = tree(site)
    for words in ((), ("--remove",)):
        done = here.run("setup", "claude", *words)
        assert done.returncode == 2
        assert "setup.json cannot be read" in done.stderr
        assert tree(site) == before


def test_removing_what_was_never_set_up_changes_nothing(here: Terminal, furnished: Path) -> None:
    (furnished / "project/.mcp.json").write_bytes(b'{"mcpServers": {}}')
    before = tree(furnished)
    for tool in NAMES:
        here.type("setup", tool, "--remove")
    assert tree(furnished) == before


class Cut(BaseException):
    """The machine is switched off."""


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("count", range(6))
def test_a_crash_between_two_files_is_repaired_by_the_next_call(
    here: Terminal, furnished: Path, monkeypatch: pytest.MonkeyPatch, *, count: int, remove: bool
) -> None:
    before = tree(furnished)
    here.type("setup", "claude")
    whole = tree(furnished)
    if not remove:
        here.type("setup", "claude", "--remove")
    left = iter(range(count))

    def fuse(real: Any) -> Any:
        def deed(*words: Any, **how: Any) -> None:
            if next(left, None) is None:
                raise Cut
            real(*words, **how)

        return deed

    with monkeypatch.context() as patch:
        for name in ("write", "delete"):
            patch.setattr(writing, name, fuse(getattr(writing, name)))
        words = ("setup", "claude", *(["--remove"] if remove else []))
        try:
            here.type(*words)
        except Cut:
            assert count < 5
    here.type("setup", "claude")
    assert tree(furnished) == whole
    here.type("setup", "claude", "--remove")
    assert tree(furnished) == before


def test_a_lost_receipt_costs_nothing_where_files_say_it_themselves(
    here: Terminal, site: Path
) -> None:
    before = tree(site)
    here.type("setup", "claude")
    shutil.rmtree(site / "project/.rota")
    here.type("setup", "claude", "--remove")
    files = {name: content for name, content in tree(site).items() if content is not None}
    assert files == {name: content for name, content in before.items() if content is not None}


def test_what_somebody_writes_while_we_think_is_not_overwritten(furnished: Path) -> None:
    project = furnished / "project"
    place = Place(project, project / ".rota", furnished / "codex", "smith", ["rota"])
    work = Setup("claude", TOOLS["claude"](place), place.state_dir)
    changes = work.planned()
    (project / ".mcp.json").write_text('{"quick": 1}')
    with pytest.raises(Refused, match="changed by somebody else"):
        work.apply(changes)
    assert (project / ".mcp.json").read_text() == '{"quick": 1}'


def test_a_link_is_written_through(here: Terminal, site: Path) -> None:
    (site / "project/AGENTS.md").write_text("Shared.\n")
    (site / "project/CLAUDE.md").symlink_to("AGENTS.md")
    here.type("setup", "claude")
    assert (site / "project/CLAUDE.md").is_symlink()
    assert "rota:begin" in (site / "project/AGENTS.md").read_text()
    here.type("setup", "claude", "--remove")
    assert (site / "project/AGENTS.md").read_text() == "Shared.\n"


@pytest.mark.parametrize("target", ["AGENTS.md", "docs/AGENTS.md"])
def test_a_link_that_leads_nowhere_is_the_same_link_when_we_are_gone(
    here: Terminal, site: Path, target: str
) -> None:
    link = site / "project/CLAUDE.md"
    link.symlink_to(target)
    here.type("setup", "claude")
    assert "rota:begin" in (site / "project" / target).read_text()
    here.type("setup", "claude", "--remove")
    assert [one.name for one in (site / "project").iterdir()] == ["CLAUDE.md"]
    assert str(link.readlink()) == target


def test_a_file_that_two_tools_share_by_a_link_stays_until_both_are_removed(
    here: Terminal, site: Path
) -> None:
    shared = site / "project/AGENTS.md"
    shared.write_text("Shared.\n")
    (site / "project/CLAUDE.md").symlink_to("AGENTS.md")
    for tool in ("claude", "generic"):
        here.type("setup", tool)
    here.type("setup", "claude", "--remove")
    assert "rota:begin" in shared.read_text()
    here.type("setup", "generic", "--remove")
    assert shared.read_text() == "Shared.\n"


def test_nothing_is_written_where_a_link_of_the_repository_leads_on_the_way(
    here: Terminal, site: Path
) -> None:
    """By its name it could be where a new text is put together."""
    victim = site / "victim"
    victim.write_text("mine\n")
    for name in (".CLAUDE.md.rota-partial", ".CLAUDE.md.partial", ".CLAUDE.md.tmp"):
        (site / "project" / name).symlink_to(victim)
    (site / "project/CLAUDE.md").write_text("evil\n")
    here.type("setup", "claude")
    assert victim.read_text() == "mine\n"
    assert not (site / "project/CLAUDE.md").is_symlink()


def test_another_directory_and_answers_for_programs(here: Terminal, site: Path) -> None:
    (site / "other").mkdir()
    rows = here.json("setup", "generic", "--dir", "../other")
    assert [row["deed"] for row in rows] == ["created", "created"]
    assert (site / "other/AGENTS.md").exists()
    assert not (site / "project/.rota").exists()
    refused = here.json("setup", "generic", "--agent", "../x", code=2)
    assert refused["code"] == "invalid_input"


# whatever a person's file looks like

PLACE = Place(Path("/p"), Path("/p/.rota"), Path("/c"), "smith", ["rota"])
PARTS = [one for one in TOOLS["claude"](PLACE) if isinstance(one, JsonFile)]

_keys = st.sampled_from(["mcpServers", "hooks", "Stop", "PostToolUse", "other", 'a"\\{[,'])
_words = st.text('a"\\{}[],: é\n', max_size=6).filter(lambda text: "{}" not in text)
_leaves = st.none() | st.booleans() | st.integers() | _words
_documents = st.dictionaries(
    _keys,
    st.recursive(
        _leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    document = draw(_documents)
    document.setdefault("hooks", {})
    for name, kind in (("mcpServers", dict), ("hooks", dict)):
        if name in document and not isinstance(document[name], kind):
            del document[name]
    hooks = document.get("hooks", {})
    for event in ("Stop", "PostToolUse", "SessionStart"):
        if not isinstance(hooks.get(event, []), list):
            del hooks[event]
    indent = draw(st.sampled_from([None, 1, 2, 4, "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
    text = json.dumps(document, indent=indent, separators=separators)
    blank = draw(st.sampled_from(["{}", "{ }", "{\n}"]))
    text = text.replace("{}", blank)
    return draw(st.sampled_from(["", "\n"])) + text.replace("\n", draw(_line_ends)) + "\n"


_line_ends = st.sampled_from(["\n", "\r\n"])


def _foreign(document: Any) -> Any:
    """Without containers that only we could want."""
    return {name: value for name, value in document.items() if name not in ("hooks", "mcpServers")}


@settings(max_examples=100, deadline=None)
@given(_texts(), st.sampled_from(PARTS))
def test_any_json_is_the_same_to_the_byte_when_we_are_gone(text: str, part: JsonFile) -> None:
    put, facts = part.put(text, None)
    assert _foreign(json.loads(put)) == _foreign(json.loads(text))
    assert part.put(put, facts)[0] == put, "twice is once"
    assert part.take(put, json.loads(json.dumps(facts))) == text


@settings(max_examples=100, deadline=None)
@given(st.text("a\n\r# <!-", max_size=12), st.text("b\n", max_size=4))
def test_any_text_is_the_same_to_the_byte_when_the_block_is_gone(text: str, later: str) -> None:
    block = Block(Path("/p/CLAUDE.md"), "ours\n\nmore")
    put, facts = block.put(text, None)
    assert block.put(put, facts)[0] == put
    assert block.take(put, facts) == text
    grown = block.take(put + later, facts)
    assert grown is not None
    assert grown.startswith(text)
    assert grown.endswith(later)
