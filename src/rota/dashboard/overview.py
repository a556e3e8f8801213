"""The overview: how much was done, how long it took, what failed and what it cost."""

from rota.api.answers import Answer
from rota.api.bodies import Strict
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.api.statistics import WindowName
from rota.dashboard.overview_panels import panels
from rota.dashboard.rendering import page, zone_of
from rota.dashboard.scales import Unit, spelled
from rota.model.access import READ
from rota.model.statistics import Statistics, Window, read_window

IN_WORDS = {
    Window.DAY: "the last 24 hours",
    Window.WEEK: "the last 7 days",
    Window.MONTH: "the last 30 days",
}


class OverviewQuery(Strict, frozen=True):
    window: WindowName = Window.DAY.value


@endpoint("GET", "/ui/overview", scope=READ, tag="dashboard", hidden=True)
async def overview(call: Call, query: OverviewQuery) -> Answer:
    """How much was done, how long it took, what failed and what it cost."""
    window = read_window(query.window)
    found = await call.ledger.figures.over(window, zone_of(call).key)
    return await page(
        call, "overview.html", "overview", found=found, windows=IN_WORDS, window=window,
        in_words=IN_WORDS[window], panels=panels(found, IN_WORDS[window]),
        lead_time=_lead_time(found), cost=spelled(found.spent.cost_usd, Unit.DOLLARS),
        tokens=spelled(found.spent.tokens, Unit.COUNT),
    )  # fmt: skip


def _lead_time(found: Statistics) -> tuple[str, str] | None:
    """The median, and the 90th percentile."""
    if found.lead_time.p50 is None or found.lead_time.p90 is None:
        return None
    p50, p90 = found.lead_time.p50, found.lead_time.p90
    return spelled(p50, Unit.SECONDS), spelled(p90, Unit.SECONDS)


ENDPOINTS = (overview,)
