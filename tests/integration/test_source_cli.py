"""`rota source`, `rota hook` and what the doctor says of sources, in real processes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rota.cli.hooks import hook
from rota.cli.issue import issue
from rota.cli.sources import source
from rota.testing import zygote
from rota.testing.tracker import TrackerStub
from tests.acceptance.terminal import ThisProcess, environment, running_server
from tests.integration.tracked import (
    FAILED,
    HOLD,
    MANAGED,
    PR_OPEN,
    READY,
    REPO,
    TOKEN,
    WORKING,
    Tracked,
)

PR = "https://github.com/ada/engine/pull/9"


class Inside(Tracked, ThisProcess):
    """Many commands in the time of a few."""


@pytest.fixture
def here(stub: TrackerStub, tmp_path: Path) -> Tracked:
    return Tracked(tmp_path, stub=stub)


# work


def test_an_item_is_taken_and_reported(here: Tracked) -> None:
    minor, major = here.issue("Minor"), here.issue("Major", labels=[READY, "priority:high"])
    looked = here.json("source", "next", "engine", "--agent", "smith", "--no-claim")
    assert (looked["item"]["title"], looked["claimed"], looked["token"]) == ("Major", False, None)
    assert here.log(major) == []
    taken = here.json("source", "next", f"github:{REPO}", "--agent", "smith")
    assert taken["item"]["id"] == f"github-{major}"
    assert [taken["number"]] == [one["id"] for one in here.control.look(REPO, major)["comments"]]
    here.type("heartbeat", taken["ledger_id"], "--token", taken["token"])
    full = here.run("source", "next", "engine", "--agent", "smith")
    assert (full.returncode, "already works on 1 of 1" in full.stderr) == (1, True)
    lost = here.json(
        "source", "done", "engine", f"github-{minor}", "--agent", "smith", "--outcome", "success",
        "--summary", "not mine", code=7,
    )  # fmt: skip
    assert lost["code"] == "claim_lost"
    here.type(
        "source", "done", "engine", f"github-{major}", "--agent", "smith", "--outcome", "success",
        "--summary", "Mended", "--details", "with oil", "--artifact", PR,
    )  # fmt: skip
    assert here.labels(major) == {PR_OPEN, MANAGED, "priority:high"}
    said = here.control.look(REPO, major)["comments"][-1]["body"]
    assert all(words in said for words in ("**Summary:** Mended", "with oil", PR))
    assert here.items() == {str(major): "completed"}


def test_when_nothing_is_ready_what_is_held_back_is_named_with_its_reason(here: Tracked) -> None:
    held = here.issue("Not now", labels=[READY, HOLD])
    found = here.run("source", "next", "engine", "--agent", "smith")
    assert found.returncode == 1
    assert f"#{held} Not now: the label '{HOLD}' keeps agents away" in found.stderr


def test_an_item_is_given_back_and_taken_again(here: Tracked) -> None:
    number = here.issue()
    lines = here.type("source", "next", "engine", "--agent", "smith").splitlines()
    facts = dict(line.split(maxsplit=1) for line in lines if "ledger" not in line)
    assert (facts["item"], facts["title"]) == (f"github-{number}", "Mend the mill")
    assert here.type("source", "next", "engine", "--agent", "jones", code=1) == ""
    words = ("source", "release", "engine", f"github-{number}", "--agent")
    assert here.json(*words, "jones", code=7)["code"] == "claim_lost"
    here.type(*words, "smith", "--reason", "too large", "--comment")
    assert "too large" in here.control.look(REPO, number)["comments"][-1]["body"]
    assert here.labels(number) == {READY, MANAGED}
    assert here.json("source", "next", "engine", "--agent", "jones")["claimed"]


def test_a_late_word_about_an_earlier_claim_changes_nothing(here: Tracked) -> None:
    """As of a worker that slept over its lease, while the same agent was given the item again."""
    number = here.issue()
    late = here.json("source", "next", "engine", "--agent", "smith")["claim"]
    words = ("engine", f"github-{number}", "--agent", "smith", "--claim")
    here.type("source", "release", *words, late)
    now = here.json("source", "next", "engine", "--agent", "smith")["claim"]
    assert now != late
    done = ("--outcome", "success", "--summary", "Mended")
    assert here.json("source", "done", *words, late, *done, code=7)["code"] == "claim_lost"
    assert here.json("source", "release", *words, late, code=7)["code"] == "claim_lost"
    assert here.items() == {str(number): "in_progress"}
    here.type("source", "done", *words, now, *done)
    assert here.items() == {str(number): "completed"}


def test_a_failure_is_left_to_a_person(here: Tracked) -> None:
    number = here.issue()
    here.type("source", "next", "engine", "--agent", "smith")
    here.type(
        "source", "done", "engine", f"github-{number}", "--agent", "smith", "--outcome", "failure",
        "--summary", "no", "--error", "it broke",
    )  # fmt: skip
    assert here.labels(number) == {FAILED, MANAGED}
    assert here.items() == {str(number): "failed"}


def test_what_strangers_may_have_written_is_fenced_in_a_prompt(here: Tracked) -> None:
    here.issue("Ours", body="Do as I say.")
    prompt = ("--agent", "smith", "--no-claim", "--prompt", "Work on this:")
    private = here.json("source", "next", "engine", *prompt)["prompt"]
    assert private.startswith("Work on this:\n\n## Work Item: Ours\n\nDo as I say.")
    here.control.repo("ada/open")
    here.control.issue("ada/open", "Yours", body="Do as I say.", labels=[READY])
    here.configure(repo="ada/open")
    public = here.type("source", "next", "engine", *prompt)
    assert "<<<UNTRUSTED-" in public.partition("## Work Item: Yours")[0]


def test_a_prompt_tells_what_else_is_known_of_an_item_of_the_ledger(here: Tracked) -> None:
    item = here.type("add", "Of our own", "--payload", '{"gate": 3}').strip()
    here.type("note", item, "red or blue?")
    looks = ("--agent", "smith", "--prompt", "Do:")
    for more in (("--no-claim",), ()):
        told = here.json("source", "next", "queue", *looks, *more)["prompt"]
        assert '"gate": 3' in told
        assert "red or blue?" in told.partition("Notes so far")[2]


def test_the_ledger_is_a_source_too_and_a_folder_can_be_looked_at(here: Tracked) -> None:
    (here.place / "backlog").mkdir()
    (here.place / "backlog" / "mend-the-gate.md").write_text("# Mend the gate\n")
    here.configure({"type": "markdown", "name": "backlog", "path": "backlog"})
    item = here.type("add", "Of our own").strip()
    taken = here.json("source", "next", "queue", "--agent", "smith")
    assert taken["ledger_id"] == item
    here.type("done", item, "--token", taken["token"])
    looked = here.json("source", "next", "backlog", "--agent", "smith", "--no-claim")
    assert looked["item"]["title"] == "Mend the gate"
    refused = here.json("source", "next", "backlog", "--agent", "smith", code=2)
    assert "--no-claim" in refused["message"]
    (engine, backlog) = here.json("source", "list")
    assert (engine["state"], backlog["place"]) == ("not polled yet", "backlog")


# how they stand


def test_a_poll_shows_what_waits_and_the_list_says_when(here: Tracked) -> None:
    number = here.issue()
    here.forge_claim(here.issue("Held"), "elsewhere", "lucius")
    polled = here.type("source", "poll", "engine").splitlines()
    assert [line.split("\t")[::2] for line in polled] == [["work.submitted", str(number)]]
    assert here.json("source", "poll", f"github:{REPO}") == []
    (row,) = here.json("source", "list")
    assert (row["name"], row["state"], row["poll_error"]) == ("engine", "ok", None)
    assert row["polled_at"] is not None
    here.control.revoke(here.variables[TOKEN])
    assert here.json("source", "poll", "engine", code=3)["code"] == "github_auth_error"
    assert here.json("source", "poll", "queue", code=2)["code"] == "invalid_input"


def test_a_check_tells_token_scopes_repository_and_labels(here: Tracked) -> None:
    here.issue()
    good = here.type("source", "check")
    assert [line[:2] for line in good.splitlines()] == ["ok"] * 4
    for words in ("that of ada (account 7)", "scopes are repo", "is private", "'ready': 1"):
        assert words in good
    here.control.token("ada", scopes=["gist"])
    (_, failed) = here.json("source", "check", "engine", code=1)
    assert (failed["status"], "gist and lacks `repo`" in failed["message"]) == ("fail", True)


def test_a_check_that_gets_no_answer_does_not_try_for_long(here: Tracked) -> None:
    """Somebody waits for it, and can check again."""
    here.control.fault("error_before", status=503)
    (failed,) = here.json("source", "check", "engine", code=1)
    assert "it answered 503" in failed["message"]
    assert sum(one["path"] == "/user" for one in here.control.requests()) == 2


def test_a_tracker_that_was_slow_once_can_be_quick_again(here: Tracked) -> None:
    here.type("source", "poll", "engine")
    assert "as configured" in here.type("source", "reset-settle", "engine")
    here.slow_down(0.4)
    back = "rota source reset-settle engine goes back from 0.4 s to 0.05 s"
    assert f"#1 was late; {back}" in here.type("source", "list")
    assert f"warn    source engine: #1 was late\n        {back}\n" in here.type("source", "check")
    assert f"warn    source engine: #1 was late\n        {back}\n" in here.type("doctor")
    told = here.type("source", "reset-settle", f"github:{REPO}")
    assert told == f"claims on github:{REPO} wait 0.05 s again; it was 0.4 s\n"
    (row,) = here.json("source", "list")
    assert (row["state"], row["settle_seconds"], row["note"]) == ("ok", None, None)
    assert "warn" not in here.type("source", "check")
    assert here.json("source", "reset-settle", "queue", code=2)["code"] == "invalid_input"


def test_a_source_is_checked_also_when_the_database_is_broken(here: Tracked) -> None:
    (here.place / ".rota").mkdir(exist_ok=True)
    (here.place / ".rota" / "rota.db").write_text("no database, but long enough " * 100)
    assert "that of ada (account 7)" in here.type("source", "check")


def test_the_token_of_a_source_may_be_in_a_file_and_is_read_anew_each_time(here: Tracked) -> None:
    file = here.place / "token"
    file.write_text(here.variables.pop(TOKEN) + "\n")
    here.variables[f"{TOKEN}_FILE"] = str(file)
    assert "that of ada (account 7)" in here.type("source", "check")
    file.unlink()
    (failed,) = here.json("source", "check", "engine", code=1)
    assert failed["status"] == "fail"
    assert f"{TOKEN}_FILE names {file}, which cannot be read" in failed["message"]
    refused = here.json("source", "next", "engine", "--agent", "smith", code=2)
    assert refused["code"] == "invalid_input"
    file.write_text(here.control.token("ada"))
    assert "that of ada (account 7)" in here.type("source", "check")


def test_the_doctor_looks_at_configuration_pauses_secrets_and_sources(here: Tracked) -> None:
    here.type("db", "upgrade")
    here.configure(webhook_secret_env="HOOK_SECRET")
    told = here.type("doctor")
    assert "warn    source engine: webhooks are refused: HOOK_SECRET is not set" in told
    assert "ok      source engine: ada/engine is private" in told
    here.variables |= {"HOOK_SECRET": "s", TOKEN: ""}
    (here.place / ".rota" / "paused-repos.json").write_text("{}")
    failed = {
        one["check"]: one["message"]
        for one in here.json("doctor", code=1)
        if one["status"] == "fail"
    }
    assert f"set the environment variable {TOKEN}" in failed["source engine"]
    assert "cannot tell which" in failed["paused repositories"]
    (here.place / "rota.yaml").write_text("sources: [{type: github, repo: engine}]")
    assert "rota.yaml:1:" in here.type("doctor", code=1)


def test_what_only_agents_name_is_a_source_like_any_other(here: Tracked) -> None:
    """In a file of another name, too."""
    number = here.issue()
    engine = json.loads((here.place / "rota.yaml").read_text())["sources"][0]
    del engine["name"]
    (here.place / "backlog").mkdir()
    folder = {"type": "markdown", "path": "backlog"}
    schedule = {"type": "chat", "work_source": {**folder, "path": "gone"}}
    agents = [
        {"name": "smith", "work_source": engine, "schedules": {"talk": schedule}},
        {"name": "jones", "work_source": {**engine, "lease_seconds": 60}},
        {"name": "ann", "work_source": folder},
        {"name": "bob", "work_source": {"type": "queue"}},
    ]
    (here.place / "rota.yaml").write_text(json.dumps({"agents": agents}))
    repository = f"github:{REPO}"
    names = [one["name"] for one in here.json("source", "list")]
    assert names == [repository, "markdown", "ann/markdown"]
    assert here.json("config", "check")["sources"] == 3
    told = here.type("source", "check", code=1)
    assert f"ok      source {repository}: the token is that of ada" in told
    assert "fail    source markdown: the folder" in told
    assert "ok      source ann/markdown: it can be read; nothing is available" in told
    assert here.type("source", "check", "ann/markdown") in told
    assert all(line in here.type("doctor", code=1) for line in told.splitlines())
    assert [one["issue"] for one in here.json("source", "poll", repository)] == [str(number)]
    here.type("issue", "sweep")
    here.type("issue", "whois", "ada")

    (here.place / "g.yaml").write_text(json.dumps({"agents": agents[3:]}))
    options = ("--config", "g.yaml")
    assert here.run("source", "list", *options).stderr == (
        "no sources: g.yaml names none beside the queue\n"
    )
    for words in (("source", "check"), ("issue", "sweep")):
        assert "g.yaml" in here.json(*words, *options, code=2)["message"]

    broken = {"sources": [engine], "agents": [{"name": "smith", "modle": "x"}]}
    (here.place / "g.yaml").write_text(json.dumps(broken))
    listed = here.run("source", "list", *options)
    assert listed.stdout.startswith(repository)
    assert "the agents of g.yaml cannot be read" in listed.stderr


def test_files_of_a_folder_that_cannot_be_understood_are_told(
    stub: TrackerStub, tmp_path: Path
) -> None:
    here = Inside(tmp_path, stub=stub)
    here.configure({"type": "markdown", "name": "backlog", "path": "backlog"})
    (tmp_path / "backlog").mkdir()
    (tmp_path / "backlog" / "good.md").write_text("# Good\n")
    assert here.type("source", "check", "backlog") == "ok      source backlog: it can be read\n"
    (tmp_path / "backlog" / "bad.md").write_text("---\npriority: soon\n---\n# Bad\n")
    told = here.type("source", "check", code=1)
    assert "ok      source backlog: it can be read\nfail    source backlog: bad.md: " in told
    assert "correct the file" in told
    doctor = here.run("doctor")
    assert (doctor.returncode, "fail    source backlog: bad.md: " in doctor.stdout) == (1, True)
    for number in range(30):
        (tmp_path / "backlog" / f"bad-{number}.md").write_text("---\npriority: soon\n---\n")
    told = here.type("source", "check", code=1)
    assert "and 11 files more are not offered" in told


def test_types_are_those_that_are_installed(here: Tracked) -> None:
    types = here.type("source", "types").split()
    assert {"github", "gitea", "forgejo", "queue", "markdown", "memory"} <= set(types)


def test_a_server_reads_the_configuration_that_it_is_told(here: Tracked) -> None:
    number = here.issue()
    (here.place / "rota.yaml").rename(here.place / "fleet.yaml")
    with running_server(here.place, "--config", "fleet.yaml", **here.variables):
        for _ in range(100):
            listed = here.json("list")
            if listed:
                break
    assert [item["source_ref"] for item in listed] == [str(number)]
    done = here.run("up", "--config", "missing.yaml", "--port", "0")
    assert (done.returncode, "no configuration file missing.yaml" in done.stderr) == (2, True)


def test_every_command_about_work_from_outside_answers_in_json(
    stub: TrackerStub, tmp_path: Path
) -> None:
    here = Inside(tmp_path, stub=stub)
    first, second = here.issue(), here.issue()
    Pusher(here)
    shapes = {
        "source list": list,
        "source types": list,
        "source check": list,
        "source poll engine": list,
        "source reset-settle engine": dict,
        f"issue status engine#{first}": dict,
        f"issue dedup-check engine#{first}": dict,
        f"issue hold engine#{first}": dict,
        f"issue unhold engine#{first}": dict,
        f"issue approve engine#{first}": dict,
        f"issue claim engine#{first}": dict,
        f"issue release engine#{first}": dict,
        f"issue pause {REPO}": dict,
        "issue paused": list,
        f"issue resume {REPO}": dict,
        "issue whois ada": dict,
        "issue sweep": list,
        "source next engine --agent smith": dict,
        f"source release engine github-{first} --agent smith": dict,
        f"issue claim engine#{second} --agent smith": dict,
        f"source done engine github-{second} --agent smith --outcome success --summary x"
        f" --artifact {PR}": dict,
        f"issue reopen engine#{second}": dict,
        "hook install tree": dict,
        "hook status tree": dict,
        "hook uninstall tree": dict,
        "hook pre-push origin https://git.example.org/x/y": dict,
    }
    for line, shape in shapes.items():
        document = json.loads(here.type(*line.split(), "--json"))
        assert list(document) == ["schema_version", "data", "meta"], line
        assert isinstance(document["data"], shape), line
    here.forge_claim(first, "elsewhere", "lucius", created_at="2026-05-01T19:42:33Z")
    assert len(here.json("issue", "stale")) == 1
    shown = {" ".join(line.split()[:2]) for line in shapes} | {"issue stale"}
    groups = {"issue": issue, "source": source, "hook": hook}
    theirs = {f"{name} {one}" for name, group in groups.items() for one in group.commands}
    assert shown == theirs - {"hook agent"}  # of a coding agent: see test_setup.py


# wrong input


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("next nowhere --agent a", 2, "there is no source called 'nowhere'; configured are engine"),
        ("next gitlab:a/b --agent a", 2, "no work source of type 'gitlab'"),
        ("next github:engines --agent a", 2, "write OWNER/REPO"),
        ("next github:a/b/c --agent a", 2, "does not name a repository"),
        ("next gitea:a/b --agent a", 2, "add it to 'sources'"),
        ("next engine --agent Not-A-Name", 2, "is not a name"),
        ("done engine 42 --agent a --outcome success --summary s", 2, "write github-42"),
        ("done engine github-0 --agent a --outcome success --summary s", 2, "is no id"),
        ("done engine github-1 --agent a --outcome fine --summary s", 2, "--outcome"),
        ("release engine github-x --agent a", 2, "is no id"),
        ("check nowhere", 2, "there is no source called"),
    ],
)
def test_names_that_mean_nothing(here: Tracked, words: str, code: int, said: str) -> None:
    here.issue()
    done = here.run("source", *words.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert here.log(1) == []


def test_a_claim_that_the_tracker_refuses_leaves_nothing_behind(here: Tracked) -> None:
    here.control.repo("ada/open")
    number = here.control.issue("ada/open", "Public", labels=[READY])
    here.configure(repo="ada/open")
    here.control.token("ada", scopes=["gist"])
    error = here.json("source", "next", "engine", "--agent", "smith", code=4)
    assert error["details"]["missing_scopes"] == ["repo"]
    here.control.token("ada", kind="fine_grained", lacks=["issues"])
    denied = here.json("source", "next", "engine", "--agent", "smith", code=4)
    assert "lacks the permission" in denied["message"]
    assert here.control.look("ada/open", number)["comments"] == []
    assert set(here.items().values()) == {"queued"}
    assert here.json("source", "next", "engine", "--agent", "smith", "--no-claim")


# the hook


class Pusher:
    """A work tree of ada's, with a remote at the stub and the hook in it."""

    def __init__(self, here: Tracked) -> None:
        self.here = here
        self.tree = here.place / "tree"
        self.tree.mkdir()
        self.url = f"{here.stub.url}/{REPO}.git"
        self.environ = {
            **{k: v for k, v in environment(**here.variables).items() if not k.startswith("GIT_")},
            "HOME": str(here.place),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        for name in ("GITHUB_TOKEN", "GH_TOKEN", "GITHUB_API_URL"):
            self.environ.pop(name, None)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "ada@example.org")
        self.git("config", "user.name", "Ada")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.tree,
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def push(self, message: str, branch: str = "main", url: str | None = None) -> tuple[int, str]:
        """As git runs the hook that was installed."""
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        line = f"refs/heads/{branch} {self.git('rev-parse', 'HEAD')} refs/heads/{branch} {'0' * 40}"
        done = subprocess.run(
            [self.tree / ".git" / "hooks" / "pre-push", "origin", url or self.url],
            cwd=self.tree,
            env=self.environ,
            input=f"{line}\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == ""
        return done.returncode, done.stderr


@pytest.fixture
def pusher(here: Tracked) -> Pusher:
    """Its hook calls the `rota` that installed it: here one that is forked."""
    made = Pusher(here)
    done = zygote.run(
        ["hook", "install", "tree", "--config", str(here.place / "rota.yaml"), "--json"],
        env=environment(**here.variables),
        cwd=here.place,
        program=zygote.the_zygote().scripts() / "rota",
    )
    status = json.loads(done.stdout)["data"]
    assert (status["state"], status["chained"]) == ("installed", False)
    return made


def test_a_push_is_refused_while_somebody_else_works_on_what_it_closes(
    here: Tracked, pusher: Pusher
) -> None:
    busy, free, mine = here.issue(), here.issue(), here.issue()
    here.control.token("bob")
    here.forge_claim(busy, "elsewhere", "lucius")
    code, said = pusher.push(f"Mend it\n\nCloses #{busy}")
    assert code == 1
    assert f"{REPO}#{busy}: 'lucius' holds it" in said
    assert "git push --no-verify" in said
    pusher.git("commit", "--quiet", "--amend", "--allow-empty", "--message", "Mend it")
    here.control.label(REPO, free, add=[HOLD])  # a hold is for agents, not for people
    assert pusher.push(f"Fixes: {REPO}#{free}") == (0, "")
    here.type("issue", "claim", f"engine#{mine}")
    assert pusher.push(f"fix #{mine}") == (0, "")
    assert not (pusher.tree / ".rota").exists()


def test_git_itself_pushes_nothing_of_what_the_hook_refuses(here: Tracked, pusher: Pusher) -> None:
    """By SSH, as to a tracker: worktrees, tags, deletions, and several references at once."""
    bare, ssh = here.place / "bare.git", here.place / "ssh"
    pusher.git("init", "--quiet", "--bare", str(bare))
    ssh.write_text(f'#!/bin/sh\nfor last; do :; done\nexec "${{last%% *}}" {bare}\n')
    ssh.chmod(0o755)
    pusher.environ |= {"GIT_SSH": str(ssh), "GIT_SSH_VARIANT": "simple"}
    pusher.git("remote", "add", "origin", f"git@127.0.0.1:{REPO}.git")
    pusher.git("commit", "--quiet", "--allow-empty", "--message", "Begin")
    pusher.git("push", "--quiet", "origin", "main", "main:old")
    busy, mine = here.issue(), here.issue()
    here.control.token("bob")
    here.forge_claim(busy, "elsewhere", "lucius")
    claim = here.json("issue", "claim", f"engine#{mine}", "--agent", "smith")["claim"]
    pusher.git("worktree", "add", "--quiet", "-b", "other", "../beside")
    tree = ("-C", "../beside")
    pusher.git(*tree, "commit", "--quiet", "--allow-empty", "--message", f"Closes #{busy}")
    pusher.git("tag", "--annotate", "v1", "other", "--message", "One")
    before = pusher.git("ls-remote", "origin")
    pusher.git("commit", "--quiet", "--allow-empty", "--message", f"Closes #{mine}")
    for words in (
        (*tree, "push", "origin", "other"),
        ("push", "origin", "v1"),
        ("push", "origin", ":old", f"main:agent/{mine}/{claim}", "other"),
        ("push", "origin", "main"),
    ):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            pusher.git(*words)
        assert "rota: this push is refused" in refused.value.stderr
        assert pusher.git("ls-remote", "origin") == before
    pusher.git("push", "--quiet", "origin", ":old", f"main:agent/{mine}/{claim}")
    names = {line.split("\t")[1] for line in pusher.git("ls-remote", "origin").splitlines()}
    assert names - {"HEAD"} == {"refs/heads/main", f"refs/heads/agent/{mine}/{claim}"}
    pusher.git("push", "--quiet", "--no-verify", "origin", "v1")


def test_somebody_elses_claim_is_seen_also_behind_his_hold(here: Tracked) -> None:
    pusher = Pusher(here)
    here.type("hook", "install", "tree", "--config", str(here.place / "rota.yaml"))
    number = here.issue()
    here.configure(trusted=[here.control.user("bob")])
    here.variables[TOKEN] = here.control.token("bob")
    here.type("issue", "claim", f"engine#{number}")
    assert HOLD in here.labels(number)
    assert pusher.push(f"closes #{number}")[0] == 1


def test_an_agent_pushes_the_branch_of_its_own_claim(here: Tracked, pusher: Pusher) -> None:
    number = here.issue()
    claim = here.json("issue", "claim", f"engine#{number}", "--agent", "smith")["claim"]
    assert WORKING in here.labels(number)
    assert pusher.push(f"closes #{number}", f"agent/{number}/{claim}") == (0, "")
    assert pusher.push(f"closes #{number}", f"agent/{number}/{claim + 1}")[0] == 1
    here.type("issue", "release", f"engine#{number}", "--agent", "smith", "--pr", PR)
    code, said = pusher.push(f"closes #{number}")
    assert (code, f"it was finished: {PR}" in said) == (1, True)


def test_what_cannot_be_checked_is_said(here: Tracked, pusher: Pusher) -> None:
    number = here.issue()
    code, said = pusher.push(f"closes #{number}", url="https://git.example.org/x/y.git")
    assert (code, "no configured source knows git.example.org/x/y" in said) == (0, True)
    pusher.environ[TOKEN] = "wrong"
    code, said = pusher.push(f"closes #{number}")
    assert (code, "cannot be checked" in said) == (1, True)
    pusher.environ["LABEL_STATE_SKIP_DEDUP_CHECK"] = "1"
    assert pusher.push(f"closes #{number}")[0] == 0


def test_the_hook_is_taken_away_and_what_was_before_is_back(here: Tracked) -> None:
    pusher = Pusher(here)
    hook = pusher.tree / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho before >&2\n")
    hook.chmod(0o755)
    assert "foreign" in here.type("hook", "status", "tree", code=1)
    assert "runs first" in here.type("hook", "install", "tree")
    assert here.json("hook", "status", "tree")["state"] == "installed"
    here.type("hook", "uninstall", "tree")
    assert hook.read_text().endswith("echo before >&2\n")
    outside = here.run("hook", "install", str(here.place), "--json")
    assert (outside.returncode, json.loads(outside.stdout)["error"]["code"]) == (2, "invalid_input")


def test_a_push_is_judged_in_json_too(here: Tracked, pusher: Pusher) -> None:
    number = here.issue()
    here.forge_claim(number, "elsewhere", "lucius")
    pusher.push(f"closes #{number}")
    line = f"refs/heads/main {pusher.git('rev-parse', 'HEAD')} refs/heads/main {'0' * 40}\n"
    here.place = pusher.tree
    done: Any = here.run(
        "hook", "pre-push", "origin", pusher.url, "--json",
        "--config", "../rota.yaml", stdin=line,
    )  # fmt: skip
    judged = json.loads(done.stdout)["data"]
    assert (done.returncode, judged["allowed"], len(judged["refusals"])) == (1, False, 1)
