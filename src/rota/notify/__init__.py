"""Notifications: tell people what needs a person."""

from rota.notify.chore import Notices
from rota.notify.sending import Courier

__all__ = ["Courier", "Notices"]
