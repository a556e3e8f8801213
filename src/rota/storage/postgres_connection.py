"""Connects to PostgreSQL, for transactions and for wake-ups."""

from typing import Any

from psycopg.conninfo import conninfo_to_dict

from rota.storage.dialogue import Connection

# Defaults that the address may override. If the server vanishes silently (a failover, a NAT that
# dropped the connection), TCP would wait a quarter of an hour; with these, half a minute.
_UNLESS_SAID: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


# Every statement has an index. Without this, the planner chooses a full scan for a table that it
# has seen empty, and keeps that plan while the table grows: every completion then reads the whole
# dispatch log. No statement is worth JIT compilation. A pool shares its connections with others, so
# there each transaction sets this for itself.
_FOR_PLANS = """
SELECT pg_backend_pid(), set_config('enable_seqscan', 'off', pg_backend_pid() <> %(pid)s),
  set_config('jit', 'off', pg_backend_pid() <> %(pid)s)
"""


def connect(conninfo: str, name: str) -> Connection:
    said = {"application_name": name} | conninfo_to_dict(conninfo)
    connection = Connection.connect("", autocommit=True, **(_UNLESS_SAID | said))
    try:
        connection.pooled = _is_pooled(connection)
    except BaseException:
        connection.close()
        raise
    if connection.pooled:
        connection.prepare_threshold = None  # prepared statements would stay behind in the pool
    return connection


def _is_pooled(connection: Connection) -> bool:
    """A pool reports a process id of its own, and not that of the server process that answers."""
    pid = connection.info.backend_pid
    row = connection.execute(_FOR_PLANS, {"pid": pid}).fetchone()
    return row is not None and row[0] != pid
