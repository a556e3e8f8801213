"""Errors as answers that a model can act on: what happened, and what to do next."""

from typing import Any

from rota.client.errors import PASSING, ConnectionFailed
from rota.model.errors import RotaError

_NEXT = {
    "claim_lost": (
        "Stop working on this item: it is not yours any more and another may have it. Do not"
        " retry. Call work_claim for other work."
    ),
    "claimed": (
        "Another claim holds this item. If it is yours, pass the token that work_claim gave you;"
        " else call work_claim for other work."
    ),
    "no_free_slot": (
        "You hold as many items as you may: finish one with work_complete or give one back with"
        " work_return first."
    ),
    "in_review_limit": "Your work has to be reviewed before you take more: end your turn.",
    "transition_refused": "Call work_show to see where the item stands.",
    "not_found": "Check the id with work_list.",
    "forbidden": "You may not do this; tell your operator if it is needed.",
    "unauthenticated": "Tell your operator: the server wants a token (ROTA_TOKEN).",
}
_CORRECT = "Correct the arguments and call again."
_PASSING = "Whether it was done is not known: look with work_show, then call again."
_AWAY = "Nothing was done. Try again a little later; if it stays so, tell your operator."
_ELSE = "Tell your operator if this stays so."


def refusal(error: RotaError) -> dict[str, Any]:
    code = str(error.details.get("code", error.code))
    told: dict[str, Any] = {"code": code, "message": error.message, "next": _next(error, code)}
    for name in ("allowed", "errors"):
        if error.details.get(name):
            told[name] = error.details[name]
    return told


def _next(error: RotaError, code: str) -> str:
    if "next" in error.details:
        return str(error.details["next"])
    if isinstance(error, ConnectionFailed) and not error.sent:
        return _AWAY
    if isinstance(error, PASSING):
        return _PASSING
    usual = _CORRECT if error.details.get("http_status", 422) in (400, 413, 422) else _ELSE
    return _NEXT.get(error.code) or _NEXT.get(code) or usual


def in_words(told: dict[str, Any]) -> str:
    return f"{told['code']}: {told['message']}\nNext: {told['next']}"
