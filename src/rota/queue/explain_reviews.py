"""What an item in review waits for, which source watches it, and when it last looked."""

from rota.model.sources import ReviewLook, SourceState
from rota.model.work import WorkItem
from rota.storage.port import Transaction


def waits_for_review(tx: Transaction, item: WorkItem) -> str:
    look = tx.review_look(item.id)
    if look is not None and look.address == item.artifact_url:
        watched = _seen(look)
    else:
        watched = _unseen(tx, item.artifact_url or "")
    return f"it waits for the review of {item.artifact_url}: {watched}"


def _seen(look: ReviewLook) -> str:
    if look.found == "open":
        return f"{look.source} last looked at {look.looked_at}, and it is open"
    return (
        f"{look.source} last looked at {look.looked_at}, and it is not there: deleted, or hidden"
        " from the token; nobody will decide it but you"
    )


def _unseen(tx: Transaction, address: str) -> str:
    source = next((one for one in tx.source_states() if _is_within(address, one)), None)
    if source is None:
        return "nobody watches this address, because no source of rota.yaml has this repository"
    if source.poll_error is not None:
        return f"{source.source} could not be read: {source.poll_error}"
    return f"{source.source} has not looked at it yet"


def _is_within(address: str, state: SourceState) -> bool:
    """`github:owner/repo` is on github.com. Other sources name their host, but not a path below
    which the tracker may serve its pages."""
    place = state.source.partition(":")[2].lower()
    where = place if place.count("/") > 1 else f"github.com/{place}"
    host, _, repo = where.partition("/")
    named, _, page = address.partition("://")[2].lower().partition("/")
    return named == host and f"/{page}".partition(f"/{repo}/pull")[1] != ""
