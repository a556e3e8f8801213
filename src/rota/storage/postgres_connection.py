"""How a connection to PostgreSQL is made, for transactions and for wake-ups alike."""

from typing import Any

import psycopg
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
# whole log of dispatches. And none is worth compiling.
_FOR_PLANS = "SET enable_seqscan = off; SET jit = off"


def connect(conninfo: str, name: str) -> Connection:
    said = {"application_name": name} | conninfo_to_dict(conninfo)
    connection: Connection = psycopg.connect("", autocommit=True, **(_UNLESS_SAID | said))
    try:
        connection.execute(_FOR_PLANS)
    except BaseException:
        connection.close()
        raise
    return connection
