"""Filters, order and cursors for sources that hold all of their items."""

from collections.abc import Iterable

from rota.model.clock import to_text
from rota.model.cursors import pack, unpack
from rota.model.errors import BadCursor, InvalidInput
from rota.sources.port import FetchOptions, FetchResult, WorkItem

Key = tuple[int, str, int, str]


def page(items: Iterable[WorkItem], options: FetchOptions) -> FetchResult:
    """The requested part of `items`, best first."""
    check_limit(options.limit)
    wanted = sorted((one for one in items if fits(one, options)), key=_key)
    after = None if options.cursor is None else _position(options.cursor)
    rest = [one for one in wanted if after is None or _key(one) > after]
    shown = rest[: options.limit]
    more = len(rest) > len(shown)
    return FetchResult(tuple(shown), pack(_key(shown[-1])) if more else None, len(wanted))


def fits(item: WorkItem, options: FetchOptions) -> bool:
    return set(options.labels) <= set(item.labels) and (
        not options.priority or item.priority in options.priority
    )


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise InvalidInput(f"limit: {limit} is out of range; use 1 or more", field="limit")


def _key(item: WorkItem) -> Key:
    # By length first: of two items of one moment, …-2 comes before …-10.
    return int(item.priority), to_text(item.created_at), len(item.id), item.id


def _position(cursor: str) -> Key:
    match unpack(cursor):
        case [int() as priority, str() as created_at, int() as length, str() as item_id]:
            return priority, created_at, length, item_id
    raise bad_cursor()


def bad_cursor() -> BadCursor:
    return BadCursor(
        "cursor: not one of ours; take it from `next_cursor` of the page before", field="cursor"
    )
