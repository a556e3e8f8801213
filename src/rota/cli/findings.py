"""What a check has found, and how that is shown."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rota.cli.text import one_line
from rota.model.errors import RotaError

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    check: str
    status: str
    message: str
    fix: str | None = None  # what a person can do
    mend: Callable[[], object] | None = None  # what --fix does

    def told(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "status": self.status,
            "message": self.message,
            "fix": self.fix,
        }


def failed(check: str, error: RotaError) -> Finding:
    """Our messages say what is wrong, and after a semicolon what to do about it."""
    wrong, _, advice = error.message.partition("; ")
    return Finding(check, FAIL, wrong, advice or None)


def show(findings: Iterable[Finding]) -> None:
    for one in findings:
        print(f"{one.status:<6}  {one_line(f'{one.check}: {one.message}')}")
        if one.fix and one.status != OK:
            print(f"        {one_line(one.fix)}")
