"""Connects to PostgreSQL, for transactions and for wake-ups."""

from datetime import UTC, datetime
from typing import Any

from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict

from rota.model.clock import DistantClock, elapsed
from rota.model.errors import StorageUnavailable
from rota.storage.dialogue import LOCK_WAIT, Connection

# Defaults that the address may override. If the server vanishes silently (a failover, a NAT that
# dropped the connection), TCP would wait a quarter of an hour; with these, half a minute.
_UNLESS_SAID: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
# Not left to the environment: in another encoding some texts could not be sent.
_ALWAYS: dict[str, Any] = {"client_encoding": "utf8"}

# As a number, because the time zone of a session may be one that Python does not know.
NOW = "extract(epoch FROM clock_timestamp())::float8"

# Every statement has an index. Without this, the planner chooses a full scan for a table that it
# has seen empty, and keeps that plan while the table grows: every completion then reads the whole
# dispatch log. No statement is worth JIT compilation. A pool shares its connections with others, so
# there each transaction sets this for itself.
_SETTINGS = f"""
SELECT pg_backend_pid(), {NOW}, set_config('enable_seqscan', 'off', pg_backend_pid() <> %(pid)s),
  set_config('jit', 'off', pg_backend_pid() <> %(pid)s),
  set_config('lock_timeout', {LOCK_WAIT}, pg_backend_pid() <> %(pid)s)
"""


def connect(conninfo: str, name: str, clock: DistantClock | None = None) -> Connection:
    """`clock` is told the server's time."""
    said = {"application_name": name} | conninfo_to_dict(conninfo)
    connection = Connection.connect("", autocommit=True, **(_UNLESS_SAID | said | _ALWAYS))
    try:
        _demand_unicode(connection)
        connection.pooled = _is_pooled(connection, clock or DistantClock())
        connection.isolation_level = IsolationLevel.READ_COMMITTED  # as in `dialogue`
    except BaseException:
        connection.close()
        raise
    if connection.pooled:
        connection.prepare_threshold = None  # prepared statements would stay behind in the pool
    return connection


def _demand_unicode(connection: Connection) -> None:
    """A database in another encoding cannot hold every text. One in SQL_ASCII, which is what a
    cluster made without a locale has, would even give texts back as bytes."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in {"UTF8", None}:  # the client library is told when it connects
        raise StorageUnavailable(
            f"the database {connection.info.dbname} is encoded in {encoding}, which cannot hold"
            f" every text; make one in UTF8: createdb {connection.info.dbname} --encoding=UTF8"
            " --template=template0"
        )


def _is_pooled(connection: Connection, clock: DistantClock) -> bool:
    """A pool reports a process id of its own, and not that of the server process that answers."""
    pid, asked_at = connection.info.backend_pid, elapsed()
    row = connection.execute(_SETTINGS, {"pid": pid}).fetchone()
    if row is None:
        raise AssertionError("such a SELECT gives a row")
    clock.hear(datetime.fromtimestamp(row[1], UTC), asked_at, elapsed())
    return bool(row[0] != pid)
