"""What reaches the log of a server, by whichever way it was said."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest

SECRET = "rota_" + "k" * 32
SAYING = f"""
import logging
import structlog
from rota.config.logs import configure_logging

configure_logging()
configure_logging()
address = "postgresql://rota:hunter2@db/rota"
structlog.get_logger().info("ours", url=address, token="open sesame")
logging.getLogger("uvicorn.error").warning("theirs %s", address)
logging.getLogger("rota.client").info("our client's {SECRET}")
logging.getLogger("library").info("nobody asked")
try:
    raise OSError(address)
except OSError:
    logging.getLogger("library").exception("it failed")
"""


def test_all_that_is_logged_is_json_and_redacted_whoever_says_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAYING], capture_output=True, text=True, check=True
    )
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(one["level"], one["event"]) for one in told] == [
        ("info", "ours"),
        ("warning", "theirs postgresql://[hidden]@db/rota"),
        ("info", "our client's [hidden]"),
        ("error", "it failed"),
    ]
    assert "OSError: postgresql://[hidden]@db/rota" in told[-1]["exception"]
    assert not any(word in done.stderr for word in ("hunter2", SECRET, "open sesame"))


@pytest.mark.parametrize(("variables", "colourful"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_people_on_a_terminal_read_lines_and_colours_only_where_they_want_them(
    variables: dict[str, str], colourful: bool
) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    ours, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", SAYING], stderr=theirs, env={**kept, **variables}, check=True
    )
    os.close(theirs)
    told = b""
    with suppress(OSError):  # EIO: nobody is at the other end any more
        while piece := os.read(ours, 65_536):
            told += piece
    os.close(ours)
    assert b"our client's [hidden]" in told
    assert (b"\x1b[" in told) is colourful
