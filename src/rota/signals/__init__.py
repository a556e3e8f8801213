"""Signals: when this happens, do that, exactly once."""

from rota.signals.processor import SignalChore, SignalScheduler
from rota.signals.service import SignalDetail, Signals

__all__ = ["SignalChore", "SignalDetail", "SignalScheduler", "Signals"]
