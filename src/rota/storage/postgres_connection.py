"""How a connection to PostgreSQL is made, for transactions and for wake-ups alike."""

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from rota.storage.postgres_transaction import Connection

# What the address does not say otherwise. A server that vanishes without a word (a failover, a
# forgetful NAT) would be waited for a quarter of an hour; so it is given up after half a minute.
_UNLESS_SAID: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


def connect(conninfo: str, name: str) -> Connection:
    said = {"application_name": name} | conninfo_to_dict(conninfo)
    return psycopg.connect("", autocommit=True, **(_UNLESS_SAID | said))
