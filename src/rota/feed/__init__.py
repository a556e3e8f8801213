"""Passes committed events to followers: one reader of the log, however many follow."""

from rota.feed.reading import Overrun, Reading
from rota.feed.shelf import Entry
from rota.feed.source import Feed
from rota.feed.wanted import EVERYTHING, Wanted

__all__ = ["EVERYTHING", "Entry", "Feed", "Overrun", "Reading", "Wanted"]
