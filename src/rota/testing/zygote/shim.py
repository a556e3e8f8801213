"""`rota` for a shell: asks the zygote for a process, passes signals on, and ends as it ends.

This file is copied, with SOCKET, ENTRY and PROGRAM above it, as a program of its own, and run
without site. It imports only built-in modules, so that it costs a hundredth of a second.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import posix
import sys

SOCKET: str = globals().get("SOCKET", "")
ENTRY: str = globals().get("ENTRY", "")
PROGRAM: bytes = globals().get("PROGRAM", b"")
SIGNALS = (
    _signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGUSR1,
    _signal.SIGUSR2,
)  # fmt: skip


def main() -> None:
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(SOCKET)
    words = [PROGRAM, *(word.encode("utf-8", "surrogateescape") for word in sys.argv[1:])]
    body = marshal.dumps((ENTRY, words, dict(posix.environ), posix.getcwdb()))
    message = len(body).to_bytes(4, "big") + body
    stdio = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, stdio)]
    rest = message[connection.sendmsg([message], rights) :]
    if rest:  # even sending nothing fails if the other side has already answered and gone
        connection.sendall(rest)
    pid = number(connection)
    for one in SIGNALS:
        # Ignored signals stay ignored, as they would for the program itself.
        if _signal.getsignal(one) != _signal.SIG_IGN:
            _signal.signal(one, lambda got, _: posix.kill(pid, got))
    status = number(connection)
    if posix.WIFSIGNALED(status):
        by = posix.WTERMSIG(status)
        if by != _signal.SIGKILL:
            _signal.signal(by, _signal.SIG_DFL)
        posix.kill(posix.getpid(), by)
    posix._exit(posix.WEXITSTATUS(status))


def number(connection: _socket.socket) -> int:
    data = b""
    while len(data) < 4:
        chunk = connection.recv(4 - len(data))
        if not chunk:
            posix.write(2, b"rota: the zygote of the tests has ended\n")
            posix._exit(70)
        data += chunk
    return int.from_bytes(data, "big", signed=True)


if __name__ == "__main__":
    main()
