"""Exports and imports a ledger as a file, and imports work from other tools.

`exporting` and `importing` transfer a whole ledger, record by record; `landing` stores the records
that the readers of other tools' files (`beads`, `taskmaster`, …) have found.
"""
