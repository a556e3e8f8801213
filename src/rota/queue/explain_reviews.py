"""What an item in review waits for, which source watches it, and when it last looked."""

from rota.model.sources import ReviewLook, SourceState
from rota.model.work import WorkItem
from rota.queue.reasons import Reason, Way
from rota.storage.port import Transaction


def in_review(tx: Transaction, item: WorkItem) -> Reason:
    look = tx.review_look(item.id)
    if look is not None and look.address == item.artifact_url:
        watched, decides = _seen(look)
    else:
        watched, decides = _unseen(tx, item.artifact_url or "")
    return Reason(
        "in_review",
        f"it waits for the review of {item.artifact_url}: {watched}",
        (
            *((Way("merge it or close it there"),) if decides else ()),
            Way("accept it", f"rota done {item.id}"),
            Way("have it done again", f"rota reopen {item.id}"),
        ),
    )


def _seen(look: ReviewLook) -> tuple[str, bool]:
    """And whether a decision there is noticed here."""
    if look.found == "open":
        return f"{look.source} last looked at {look.looked_at}, and it is open", True
    return (
        f"{look.source} last looked at {look.looked_at}, and it is not there: deleted, or hidden"
        " from the token; nobody will decide it but you"
    ), False


def _unseen(tx: Transaction, address: str) -> tuple[str, bool]:
    source = next((one for one in tx.source_states() if _is_within(address, one)), None)
    if source is None:
        why = "no source of rota.yaml has this repository"
        return f"nobody watches this address, because {why}", False
    if source.poll_error is not None:
        return f"{source.source} could not be read: {source.poll_error}", True
    return f"{source.source} has not looked at it yet", True


def _is_within(address: str, state: SourceState) -> bool:
    """`github:owner/repo` is on github.com. Other sources name their host, but not a path below
    which the tracker may serve its pages."""
    place = state.source.partition(":")[2].lower()
    where = place if place.count("/") > 1 else f"github.com/{place}"
    host, _, repo = where.partition("/")
    named, _, page = address.partition("://")[2].lower().partition("/")
    return named == host and f"/{page}".partition(f"/{repo}/pull")[1] != ""
