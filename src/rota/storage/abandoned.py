"""Ends what processes have left open on PostgreSQL: transactions in whose middle they stopped."""

from collections.abc import Collection

from rota.storage.dialogue import Connection
from rota.storage.port import Abandoned

# Of servers and workers, by the name that they give their connections. A transaction in a pipeline
# counts as active; its server process waits for the client all the same. Who only reads holds up
# nobody, and may read slowly; who has changed something has an id, or holds a lock of ours.
_FIND = """
WITH silent AS MATERIALIZED (
  SELECT pid, pid || '@' || extract(epoch FROM state_change) AS mark,
         extract(epoch FROM clock_timestamp() - state_change)::float8 AS seconds
  FROM pg_stat_activity a
  WHERE datname = current_database() AND usename = session_user AND pid <> pg_backend_pid()
    AND application_name = 'rota' AND wait_event = 'ClientRead' AND xact_start IS NOT NULL
    AND state_change < clock_timestamp() - make_interval(secs => %(silent)s)
    AND (backend_xid IS NOT NULL OR EXISTS (
      SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.granted))
)
SELECT mark, pid, seconds,
       CASE WHEN mark = ANY (%(looked)s) THEN pg_terminate_backend(pid) ELSE false END
FROM silent
"""


def end_abandoned(
    connection: Connection, silent: float, looked: Collection[str]
) -> list[Abandoned]:
    """See `Store.end_abandoned`. Two looks, because the server does not tell when a statement has
    ended, but only when it began: after a long one, a process that goes on seems silent."""
    rows = connection.execute(_FIND, {"silent": silent, "looked": list(looked)})
    return [Abandoned(*row) for row in rows]
