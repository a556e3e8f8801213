"""`rota up` for `rota demo`: the same server, which ends when whoever started it is gone.

Its standard input is a pipe that nobody writes to. However the other end dies, also by `kill -9`,
the pipe closes with it, and no server is left behind.
"""

import os
import signal
import sys
import threading

from rota.cli import main


def _end_with_the_other_end() -> None:
    # Not by sys.stdin, whose lock would be in the way when the interpreter ends.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_other_end, daemon=True).start()
    sys.exit(main(["up", *sys.argv[1:]]))
