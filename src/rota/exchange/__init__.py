"""A ledger as a file, and work from other tools into the ledger.

`exporting` and `importing` carry a whole ledger, record by record; `landing` stores what the
readers of other tools' files (`beads`, `taskmaster`, …) have understood.
"""
