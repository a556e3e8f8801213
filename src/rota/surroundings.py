"""The environment, where a secret may also be in a file: `NAME_FILE` names the file of NAME.

Docker, Kubernetes and systemd hand out secrets as files. The file is read each time its value is
needed, so a token that is replaced there is used from then on, without a restart.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from rota.model.errors import InvalidInput

SUFFIX = "_FILE"
MOST_BYTES = 64 * 1024  # a secret is short; whatever is longer is another kind of file


class Surroundings(Mapping[str, str]):
    """A variable that is set, and not empty, wins over its file.

    Asking for a variable whose file cannot be read is an error. In a list of all variables it is
    left out: other programs use such names too, and their files need not exist.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def __getitem__(self, name: str) -> str:
        value = self._variables.get(name)
        path = None if value else self._variables.get(name + SUFFIX)
        if path:
            return _read(name + SUFFIX, path)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        yield from self._variables
        for name in list(self._variables):
            own = name.removesuffix(SUFFIX)
            if own and own != name and own not in self._variables and _is_readable(self, own):
                yield own

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_readable(surroundings: Surroundings, name: str) -> bool:
    try:
        return name in surroundings
    except InvalidInput:
        return False


def own_command() -> str:
    """`rota` as this shell could call it: by name where it is on the path, else by its place."""
    import shlex  # noqa: PLC0415 - every command reads this module, and few need these
    import shutil  # noqa: PLC0415 - see above

    here = Path(sys.argv[0])
    return "rota" if here.name != "rota" or shutil.which("rota") else shlex.quote(str(here))


def _read(name: str, path: str) -> str:
    """Its text, without the line end that editors and `echo` add."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "that is no path"
        raise InvalidInput(f"{name} names {path}, which cannot be read: {reason}") from None
    if len(content) > MOST_BYTES:
        raise InvalidInput(
            f"{name} names {path}, which is too long for a secret ({MOST_BYTES} bytes at most)"
        )
    try:
        return content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} names {path}, which is no UTF-8 text") from None


environ = Surroundings(os.environ)
