"""How hard SQLite works."""

from typing import Any

import apsw


def steps(connection: apsw.Connection, statement: str, values: dict[str, Any]) -> int:
    """How many instructions of SQLite's machine it takes. What it changes is rolled back."""
    counted = 0

    def profile(event: dict[str, Any]) -> None:
        nonlocal counted
        counted += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    connection.execute("SAVEPOINT looking")
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
    connection.execute(statement, values).fetchall()
    connection.trace_v2(0)
    connection.execute("ROLLBACK TO looking")
    connection.execute("RELEASE looking")
    return counted
