"""What may be asked of a database for notifications."""

from typing import Protocol

from rota.model.notices import WaitingNotice


class NoticeVerbs(Protocol):
    """Part of `Transaction`."""

    # marks
    def get_mark(self, name: str) -> str | None: ...
    def lock_mark(self, name: str) -> str | None:
        """Its value; nobody else changes it before this transaction ends. None: there is none."""

    def begin_mark(self, name: str, value: str) -> bool:
        """False when there is one already; that stays."""

    def put_mark(self, name: str, value: str) -> None: ...
    def forget_notifications(self) -> int:
        """All marks and all that waits; how much waited."""

    # what waits
    def put_notice(self, notice: WaitingNotice) -> None:
        """Once: one with the same id stays as it is."""

    def bundle_due(self, channel: str, bundle: str) -> str | None:
        """When the first of a bundle is due; None while it is empty."""

    def due_bundles(self, now: str) -> list[tuple[str, str]]:
        """Channel and bundle of whatever is due."""

    def take_notices(self, channel: str, bundle: str, limit: int) -> list[WaitingNotice]:
        """Out of the table, the oldest first; whoever takes at the same time gets others."""

    def next_notice(self) -> str | None:
        """When the earliest is due."""
