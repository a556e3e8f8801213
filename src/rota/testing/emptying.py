"""Empties a ledger on PostgreSQL: ten times quicker than a new database."""

import psycopg

_TABLES = (
    "signal_lineage",
    "work_item_tasks",
    "work_signal_firings",
    "signal_keys",
    "work_signals",
    "outbox",
    "notices",
    "notify_marks",
    "declarations",
    "reviews",
    "agent_limits",
    "runs",
    "triggers",
    "schedules",
    "nodes",
    "rosters",
    "api_tokens",
    "idempotency_keys",
    "events",
    "fleet",
    "source_states",
    "deliveries",
    "approvals",
    "source_claims",
    "claims",
    "dispatch_log",
    "work_item_links",
    "work_item_labels",
    "ready_labels",
    "work_items",
    "agents",
    "projects",
)


def empty(url: str) -> None:
    """For tests only. It also empties the append-only tables, which takes a superuser.

    DELETE is seven times quicker than TRUNCATE while the tables are small.
    """
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")
        for table in _TABLES:
            connection.execute(f"DELETE FROM {table}".encode())  # noqa: S608 - names of our own
        connection.execute("ALTER TABLE events ALTER COLUMN seq RESTART")
