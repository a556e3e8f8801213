"""How a connection to PostgreSQL is made, for transactions and for wake-ups alike."""

from typing import Any

from psycopg.conninfo import conninfo_to_dict

from rota.storage.dialogue import Connection

# What the address does not say otherwise. A server that vanishes without a word (a failover, a
# forgetful NAT) would be waited for a quarter of an hour; so it is given up after half a minute.
_UNLESS_SAID: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


# Every statement of ours has an index that answers it. A table that the planner has seen empty it
# reads as a whole, and it keeps that plan while the table grows: then every completion reads the
# whole log of dispatches. And none is worth compiling. A pool's connections are not ours alone:
# there it is said in each transaction.
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
        connection.prepare_threshold = None  # what is prepared would stay behind in the pool
    return connection


def _is_pooled(connection: Connection) -> bool:
    """Whoever stands between gives out a number of his own, and not that of the process which
    answers now."""
    pid = connection.info.backend_pid
    row = connection.execute(_FOR_PLANS, {"pid": pid}).fetchone()
    return row is not None and row[0] != pid
