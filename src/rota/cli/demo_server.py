"""`rota up` for `rota demo`: the same server, which ends when the demo's process is gone.

Its standard input is a pipe that nobody writes to. However the demo ends, also by `kill -9`, the
pipe closes, so no server is left behind.
"""

import os
import signal
import sys
import threading

from rota.cli import main


def _end_with_the_other_end() -> None:
    # Not by sys.stdin, whose lock would block the interpreter's exit.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_other_end, daemon=True).start()
    sys.exit(main(["up", *sys.argv[1:]]))
