"""Hours in which nobody wants to hear anything: wall-clock times of a place, also on the days when
its clocks are changed."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from rota.config.notify import QuietHours


def quiet_until(hours: QuietHours | None, now: datetime) -> datetime | None:
    """When the quiet that reigns now is over; None when there is none."""
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
    """Of the quiet that begins on a day."""
    over = hours.end <= hours.begin  # midnight
    begin = min(_moments(day, hours.begin, zone))
    return begin, max(_moments(day + timedelta(days=over), hours.end, zone))


def _moments(day: date, clock: time, zone: ZoneInfo) -> list[datetime]:
    """The hour that comes twice in autumn has two, and quiet lasts until the later; of one that
    spring leaves out, the later is behind the gap."""
    local = datetime.combine(day, clock, zone)
    return [local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
