"""Statements whose text depends on filters: lists and claim candidates.

Each branch reads one index in its own order and stops at the limit; the outer
sort merges at most a handful of such branches. Without branches, a list over
several statuses would sort the whole table.
"""

from functools import lru_cache

from rota.model.clock import first_id
from rota.model.events import EventFilter
from rota.model.status import TERMINAL, Status
from rota.model.work import ItemFilter
from rota.storage.statements import load_fragments

# Ids are in the order of creation, so every sort order and index uses them for age.
_ORDER = "ORDER BY priority, id"
# Nothing keeps the item from being taken. An item with a source is taken through its source, and
# never by a plain claim.
_FREE = "hold_reason IS NULL AND open_blockers = 0 AND deferred = 0 AND source IS NULL"
# The same for a list, which also shows what is due and has not been swept yet.
_READY = _FREE.replace("deferred = 0", "(deferred = 0 OR available_at <= :ready_at)")
_NAMED = f"assigned_agent = :agent AND completed_at IS NULL AND slot IS NULL AND {_FREE}"


def _labels(count: int) -> str:
    return "".join(
        f" AND EXISTS (SELECT 1 FROM work_item_labels l WHERE l.work_item_id = work_items.id"
        f" AND l.label = :label_{index})"
        for index in range(count)
    )


def _still_labelled(dialect: str, count: int) -> str:
    """On PostgreSQL a row may have changed until it is locked. Then it is judged anew, but what
    other tables say is still taken from before. So the row is asked for its labels, too."""
    if dialect != "postgres":
        return ""
    return "".join(f" AND CAST(labels AS jsonb) ? :label_{index}" for index in range(count))


@lru_cache(maxsize=256)
def candidates(
    dialect: str, *, named: bool, types: int, labels: int, project: bool
) -> tuple[str, ...]:
    """The statements that find what a claim may take, each in the order of taking.

    With `named`: items dispatched to the agent or queued in its name. 'dispatched'
    sorts before 'queued' and is taken first, so one index range holds both in
    order. Otherwise: items that name no agent. Each type gets a statement of its
    own, because each reads one index from its beginning; the caller merges. With
    labels, one statement reads the ready items that have the rarest of them.

    If the limit is a parameter, PostgreSQL makes a new plan for every value, which costs
    five times as much as the reading. It does not look inside a limit that is a subquery.
    """
    most = "(SELECT CAST(:want AS int))" if dialect == "postgres" else ":want"
    if labels and not named:
        return (f"{_with_labels(dialect, types, labels, project)} LIMIT {most}",)
    whose = (
        f"status IN ('dispatched', 'queued') AND {_NAMED}"
        if named
        else load_fragments(dialect)["ready"]
    )
    narrow = _project(project) + _labels(labels) + _still_labelled(dialect, labels)
    kinds = [f" AND type = :type_{index}" for index in range(types)] or [""]
    return tuple(
        f"SELECT {item_columns()} FROM work_items WHERE {whose}{kind}{narrow}"
        f" ORDER BY status, priority, id LIMIT {most}{_LOCKED[dialect]}"
        for kind in kinds
    )


_LOCKED = {"postgres": " FOR UPDATE SKIP LOCKED", "sqlite": ""}


def _with_labels(dialect: str, types: int, labels: int, project: bool) -> str:
    """The labels come first, and then each item is looked up by its id. SQLite keeps that order in
    a CROSS JOIN. PostgreSQL needs a LATERAL with a limit: without statistics it would rather sort
    the whole queue. There the item is also asked whether it is still ready, and `status || ''`
    leads the planner away from the indexes of ready items, which do not begin with the id."""
    kinds = ", ".join(f":type_{index}" for index in range(types))
    narrow = (
        (f" AND type IN ({kinds})" if types else "")
        + _project(project)
        + (_labels(labels) if labels > 1 else "")
        + _still_labelled(dialect, labels)
    )
    if dialect == "postgres":
        ready = load_fragments(dialect)["ready"].replace("status =", "status || '' =", 1)
        item = (
            f"LATERAL (SELECT * FROM work_items WHERE id = r.work_item_id AND {ready}{narrow}"
            f" LIMIT 1{_LOCKED[dialect]}) AS item WHERE true"
        )
    else:
        item = f"work_items WHERE id = r.work_item_id{narrow}"
    return (
        f"SELECT {item_columns()} FROM ready_labels r CROSS JOIN {item}"
        f" AND r.label = {_rarest(labels)} ORDER BY r.item_priority, r.work_item_id"
    )


def _rarest(labels: int) -> str:
    """Few items have all labels if few have one of them. Counted up to twenty."""
    if labels == 1:
        return ":label_0"
    counts = (
        f"SELECT CAST(:label_{index} AS text) AS label, (SELECT count(*) FROM (SELECT 1"
        f" FROM ready_labels WHERE label = :label_{index} ORDER BY item_priority, work_item_id"
        f" LIMIT 20) AS some_{index}) AS found"
        for index in range(labels)
    )
    return f"(SELECT label FROM ({' UNION ALL '.join(counts)}) AS each_one ORDER BY found LIMIT 1)"


def _project(project: bool) -> str:
    return " AND project_id = :project_id" if project else ""


@lru_cache(maxsize=256)
def line(*, types: int, labels: int, project: bool) -> str:
    """Counts the items that one agent would take before an item, up to a limit: items that name
    the agent and items that name none, both within its filters."""
    before = "(priority, id) < (:priority, :id)"
    places = (
        f"{load_fragments('sqlite')['ready']} AND {before}",
        f"status = 'queued' AND {_NAMED} AND {before}",
        f"status = 'dispatched' AND {_NAMED}",
    )
    narrow = _project(project) + _labels(labels)
    kinds = [f" AND type = :type_{index}" for index in range(types)] or [""]
    parts = (
        f"SELECT 1 FROM work_items WHERE {place}{kind}{narrow}"
        for place in places
        for kind in kinds
    )
    return f"SELECT count(*) FROM ({' UNION ALL '.join(parts)} LIMIT :most) AS ahead"


def _conditions(wanted: ItemFilter) -> tuple[list[str], dict[str, object]]:
    """The filters that hold for every branch of a list."""
    parameters: dict[str, object] = {"limit": wanted.limit}
    terms: list[str] = []
    simple = {
        "assigned_agent = :agent": ("agent", wanted.agent),
        "project_id = :project_id": ("project_id", wanted.project_id),
        "type = :type": ("type", wanted.type),
        "created_at > :created_after": ("created_after", wanted.created_after),
        "completed_at > :completed_after": ("completed_after", wanted.completed_after),
        "updated_at > :updated_after": ("updated_after", wanted.updated_after),
    }
    for term, (name, value) in simple.items():
        if value is not None:
            terms.append(term)
            parameters[name] = value
    if wanted.created_after is not None:
        # An id's time is never before its item's, so the scan may begin at the first id of it.
        terms.append("id >= :first_id")
        parameters["first_id"] = first_id(wanted.created_after)
    if wanted.ready_at is not None:
        terms.append(_READY)
        parameters["ready_at"] = wanted.ready_at
    if wanted.id_prefix is not None:
        terms.append("id >= :id_prefix AND id < :id_behind")
        parameters["id_prefix"] = wanted.id_prefix
        parameters["id_behind"] = wanted.id_prefix + "g"  # sorts after every hexadecimal digit
    if wanted.label is not None:
        terms.append(_labels(1).removeprefix(" AND "))
        parameters["label_0"] = wanted.label
    if wanted.text is not None:
        terms.append(
            "(lower(description) LIKE :text ESCAPE '\\' OR lower(coalesce(body, '')) LIKE :text"
            " ESCAPE '\\')"
        )
        parameters["text"] = f"%{_escape(_lower(wanted.text))}%"
    return terms, parameters


def _lower(text: str) -> str:
    """As both databases do it: only ASCII letters have a lower case."""
    return text.encode().lower().decode()


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def listing(wanted: ItemFilter) -> tuple[str, dict[str, object]]:
    terms, parameters = _conditions(wanted)
    if wanted.after is not None:
        priority, item_id = wanted.after
        parameters["at_id"] = item_id
        if wanted.by_age:
            terms.append("id > :at_id")
        else:
            parameters["at_priority"] = priority
            terms.append("(priority, id) > (:at_priority, :at_id)")
    if wanted.by_age:
        return _by_age(wanted, terms, parameters), parameters
    if wanted.by_end:
        return _by_end(wanted, terms, parameters), parameters
    return _by_priority(wanted, terms, parameters), parameters


def _by_age(wanted: ItemFilter, terms: list[str], parameters: dict[str, object]) -> str:
    if wanted.statuses:
        names = [f"status_{index}" for index in range(len(wanted.statuses))]
        parameters |= dict(zip(names, wanted.statuses, strict=True))
        terms = [f"status IN ({', '.join(':' + name for name in names)})", *terms]
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    return f"SELECT {item_columns()} FROM work_items{where} ORDER BY id LIMIT :limit"


def _by_end(wanted: ItemFilter, terms: list[str], parameters: dict[str, object]) -> str:
    (parameters["status"],) = wanted.statuses
    terms = ["status = :status", "completed_at IS NOT NULL", *terms]
    if wanted.before is not None:
        parameters["at_end"], parameters["at_id"] = wanted.before
        terms += ["completed_at <= :at_end", "(completed_at, id) < (:at_end, :at_id)"]
    return (
        f"SELECT {item_columns()} FROM work_items WHERE {' AND '.join(terms)}"
        " ORDER BY completed_at DESC, id DESC LIMIT :limit"
    )


def tally(wanted: ItemFilter) -> tuple[str, dict[str, object]]:
    """Counts the items of each status, up to the limit: an exact number beyond it is of no use."""
    terms, parameters = _conditions(wanted)
    counts = []
    for index, status in enumerate(wanted.statuses):
        parts = [
            f"SELECT 1 FROM work_items WHERE {' AND '.join([place, *terms])}"
            for place in _places(status, wanted, parameters)
        ]
        counts.append(
            f"SELECT {index}, (SELECT count(*) FROM ({' UNION ALL '.join(parts)}"
            f" LIMIT :limit) AS c{index})"
        )
    return " UNION ALL ".join(counts), parameters


def _by_priority(wanted: ItemFilter, terms: list[str], parameters: dict[str, object]) -> str:
    places = [
        place
        for status in wanted.statuses or tuple(Status)
        for place in _places(status, wanted, parameters)
    ]
    branches = [
        f"SELECT * FROM (SELECT {item_columns()} FROM work_items"
        f" WHERE {' AND '.join([place, *terms])} {_ORDER} LIMIT :limit) AS b{index}"
        for index, place in enumerate(places)
    ]
    return f"SELECT * FROM ({' UNION ALL '.join(branches)}) AS found {_ORDER} LIMIT :limit"


def _places(status: Status, wanted: ItemFilter, parameters: dict[str, object]) -> list[str]:
    """Conditions that together cover the items of a status. Each repeats the WHERE clause of the
    partial index that has them in order (migration 0010); every item is in one of four."""
    name = f"status_{status}"
    if wanted.project_id is not None:
        # Projects have two indexes, by source or none: a claim within a project reads the first.
        parameters[name] = str(status)
        return [f"status = :{name} AND source IS {half}" for half in ("NULL", "NOT NULL")]
    if status is Status.IN_PROGRESS:
        return ["status = 'in_progress'"]
    if status is Status.QUEUED and wanted.agent is None:
        words = load_fragments("sqlite")
        return [words["ready"], words["waiting"]]
    parameters[name] = str(status)
    if wanted.agent is not None and status not in TERMINAL:
        # The index by agent leaves out finished items; the planner must see that condition.
        return [f"status = :{name} AND completed_at IS NULL AND slot IS NULL"]
    return [f"status = :{name} AND slot IS NULL AND status <> 'queued'"]


def item_columns() -> str:
    return load_fragments("sqlite")["item"]


def narrowed(statement: str, wanted: EventFilter) -> tuple[str, dict[str, object]]:
    """An event statement with filters in the place of its `/*filters*/` marker."""
    terms = ""
    parameters: dict[str, object] = {}
    if wanted.work_item_id is not None:
        terms += " AND work_item_id = :work_item_id"
        parameters["work_item_id"] = wanted.work_item_id
    if wanted.types:
        names = [f"type_{index}" for index in range(len(wanted.types))]
        terms += f" AND type IN ({', '.join(':' + name for name in names)})"
        parameters |= dict(zip(names, wanted.types, strict=True))
    return statement.replace("/*filters*/", terms), parameters
