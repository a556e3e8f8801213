"""The agent: one function. It knows nothing of Rota, so it can be tested without it."""

from decimal import Decimal


def add_up(call):
    """A line of the invoice is what was bought, and its price."""
    lines = [line.rsplit(maxsplit=1) for line in call.item["description"].splitlines()]
    print(f"{len(lines)} lines in {call.item['title']}")  # goes to the log of the run
    unpriced = [what for what, price in lines if price == "?"]
    if unpriced:
        return {"outcome": "partial", "summary": f"What does it cost: {', '.join(unpriced)}?"}
    return f"{sum(Decimal(price) for _, price in lines)} to pay"
