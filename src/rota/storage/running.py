"""The verbs about runs, limits and the outbox; the statements are in sql/runs.sql."""

from rota.storage.primitives import Primitives


class RunStatements(Primitives):
    pass
