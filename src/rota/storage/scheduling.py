"""The verbs about nodes, schedules and triggers; the statements are in sql/schedules.sql."""

from rota.storage.primitives import Primitives


class ScheduleStatements(Primitives):
    pass
