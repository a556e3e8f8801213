"""An agent that follows its prompt: `PLAY: word argument`, one per line.

It records every start in a diary, so that tests can count them, and imports little, so that it is
quick.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

STEP = 0.01  # between two checks of a file: the test is another process


def main(diary: Path) -> None:
    prompt = sys.stdin.buffer.read().decode()
    note(diary, prompt)
    for line in prompt.splitlines():
        if line.startswith("PLAY: "):
            word, *rest = line.removeprefix("PLAY: ").split()
            WORDS[word](*rest)
    say("All done.")


def note(diary: Path, prompt: str) -> None:
    """One write, so that agents that start together do not mix their lines."""
    entry = {
        "agent": os.environ["ROTA_AGENT"],
        "run": os.environ["ROTA_RUN_ID"],
        "item": os.environ.get("ROTA_WORK_ITEM_ID"),
        "attempt": os.environ.get("ROTA_ATTEMPT"),
        "epoch": os.environ.get("ROTA_EPOCH"),
        "claim": os.environ.get("ROTA_CLAIM"),
        "branch": os.environ.get("ROTA_BRANCH"),
        "pid": os.getpid(),
        "length": len(prompt),
        "fenced": "UNTRUSTED-" in prompt,
    }
    with diary.open("ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")


def fail_until(attempt: str) -> None:
    if int(os.environ["ROTA_ATTEMPT"]) < int(attempt):
        sys.exit("The hinge is rusty.")


def fail(code: str = "1") -> None:
    sys.stderr.write("I give up.\n")
    sys.exit(int(code))


def partial() -> None:
    told = {"outcome": "partial", "summary": "Half of it.", "error": "Which key?"}
    Path(os.environ["ROTA_RESULT_FILE"]).write_text(json.dumps(told))


def wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(STEP)


def nap(seconds: str) -> None:
    time.sleep(float(seconds))


def stubborn() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def fork() -> None:
    """A child in its own session, which would outlive a careless server."""
    if os.fork() == 0:
        os.setsid()
        stubborn()
        while True:
            time.sleep(60)


def garble() -> None:
    sys.stdout.buffer.write(b"caf\xe9 \xff\xfe \x00 end\n")
    sys.stdout.buffer.flush()


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def quota(minutes: str) -> None:
    at = int(time.time()) + int(minutes) * 60
    say(f"Claude AI usage limit reached|{at}")
    sys.exit(1)


WORDS = {
    "fail_until": fail_until,
    "fail": fail,
    "partial": partial,
    "wait_for": wait_for,
    "nap": nap,
    "stubborn": stubborn,
    "fork": fork,
    "garble": garble,
    "say": say,
    "quota": quota,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
