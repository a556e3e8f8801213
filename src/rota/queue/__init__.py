"""The ledger's services: every change of an item, and every way to read it."""

from rota.queue.ledger import Ledger
from rota.queue.service import WorkQueue

__all__ = ["Ledger", "WorkQueue"]
