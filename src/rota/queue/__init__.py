"""The ledger's services: all changes and reads of items."""

from rota.queue.ledger import Ledger
from rota.queue.service import WorkQueue

__all__ = ["Ledger", "WorkQueue"]
