"""What may be asked of a database for notifications."""

from typing import Protocol

from rota.model.notices import WaitingNotice


class NoticeVerbs(Protocol):
    """Part of `Transaction`."""

    # marks
    def get_mark(self, name: str) -> str | None: ...
    def lock_mark(self, name: str) -> str | None:
        """Its value, locked until this transaction ends; None if there is no such mark."""

    def begin_mark(self, name: str, value: str) -> bool:
        """False when the mark exists already; its value is kept."""

    def put_mark(self, name: str, value: str) -> None: ...
    def forget_notifications(self) -> int:
        """Delete all marks and all waiting notices; returns how many notices waited."""

    # waiting notices
    def put_notice(self, notice: WaitingNotice) -> None:
        """Does nothing when a notice with this id exists."""

    def bundle_due(self, channel: str, bundle: str) -> str | None:
        """When the first notice of a bundle is due; None if the bundle is empty."""

    def due_bundles(self, now: str) -> list[tuple[str, str]]:
        """Channel and bundle of all notices that are due."""

    def take_notices(self, channel: str, bundle: str, limit: int) -> list[WaitingNotice]:
        """Remove and return notices, oldest first; no other transaction gets the same ones."""

    def next_notice(self) -> str | None:
        """When the earliest notice is due."""
