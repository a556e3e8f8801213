"""Quiet hours: wall-clock times in a time zone, also on days when its clocks change."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from rota.config.notify import QuietHours


def quiet_until(hours: QuietHours | None, now: datetime) -> datetime | None:
    """The end of the present quiet hours; None outside of them."""
    if hours is None:
        return None
    zone = ZoneInfo(hours.timezone)
    today = now.astimezone(zone).date()
    for day in (today - timedelta(days=1), today):
        begin, end = _span(hours, day, zone)
        if begin <= now < end:
            return end
    return None


def _span(hours: QuietHours, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Begin and end of the quiet hours that begin on a day."""
    over = hours.end <= hours.begin  # past midnight
    begin = min(_moments(day, hours.begin, zone))
    return begin, max(_moments(day + timedelta(days=over), hours.end, zone))


def _moments(day: date, clock: time, zone: ZoneInfo) -> list[datetime]:
    """An hour that occurs twice in autumn has two moments, and quiet lasts until the later one. For
    an hour that is skipped in spring, the later moment is after the gap."""
    local = datetime.combine(day, clock, zone)
    return [local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
