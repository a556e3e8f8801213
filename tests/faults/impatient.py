"""`python -m tests.faults.impatient …` is `rota …` that waits only a moment for a lock."""

import sys

from rota.cli import main
from rota.storage import sqlite

if __name__ == "__main__":
    sqlite.BUSY_SECONDS = 0.3
    sys.exit(main())
