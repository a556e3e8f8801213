"""Clients in forked processes.

A fork copies a client with its open connections, but without its threads. Two processes that write
to one connection read each other's answers, and without threads nobody keeps the leases.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    def begin_anew(self) -> None:
        """Drop what belongs to the parent process. A lock may have been held by a thread that does
        not exist here."""


_known: "WeakSet[Forked]" = WeakSet()


def renewed_in_children(one: Forked) -> None:
    """Call its `begin_anew` in every process that is forked while it exists."""
    _known.add(one)


def _begin_anew() -> None:
    for one in list(_known):
        one.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)
