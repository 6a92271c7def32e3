"""Owns `/settings/usage`: this week's tokens against the budget, four weeks as a chart, and who and what used them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.core.access import Access
from holdfast.core.clock import Clock
from holdfast.core.errors import Forbidden, NotFound
from holdfast.core.principal import SCOPES
from holdfast.core.settings import Settings
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.service import Identity
from holdfast.features.usage.model import DAY_MILLIS, Grouping, UsageFilter, UsageRow, day_of, week_of
from holdfast.features.usage.service import Usage
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_PATH = "/settings/usage"
_OWN = Access("self", SCOPES)
_DAYS = 28
_HEIGHT = 120
_WIDTH = 20
_MOST = 12
pages = Pages(NavRow("Usage", _PATH, "usage", "settings", 60, _OWN))


@dataclass(frozen=True, slots=True)
class Bar:
    """A day's tokens, and where its bar stands in the chart."""

    day: int
    tokens_in: float
    tokens_out: float
    x: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class UsageShare:
    """What one model, way or person used this week."""

    name: str
    calls: float
    model_calls: float
    tokens: float
    cost: float


@pages.get(_PATH, _OWN)
async def usage_page(
    view: PageView, usage: Usage, identity: Identity, keys: Keys, settings: Settings, clock: Clock
) -> Reply:
    now = clock.now()
    since = day_of(now) - (_DAYS - 1) * DAY_MILLIS
    by_day = await usage.report(view.principal, UsageFilter(since=since), ["day"])
    shares: dict[Grouping, list[UsageShare]] = {}
    groups: tuple[Grouping, ...] = ("model", "source", "actor")
    for group in groups:
        rows = await usage.report(view.principal, UsageFilter(since=week_of(now)), [group])
        shares[group] = _shares(rows, group)
    shares["actor"] = [await _named(view, each, identity, keys) for each in shares["actor"]]
    return view.page(
        "settings/usage.html",
        "Usage",
        budget=await usage.budget(view.principal, settings.weekly_token_limit),
        bars=_bars(by_day, since),
        width=_DAYS * _WIDTH,
        height=_HEIGHT,
        shares=shares,
    )


def _bars(rows: Sequence[UsageRow], since: int) -> list[Bar]:
    """Every day, also those on which nothing was used."""
    told: dict[tuple[int, str], float] = {(row.day or 0, row.kind): row.amount for row in rows}
    days = [since + at * DAY_MILLIS for at in range(_DAYS)]
    used = [(told.get((day, "tokens_in"), 0), told.get((day, "tokens_out"), 0)) for day in days]
    most = max((sum(each) for each in used), default=0) or 1
    bars = []
    for at, (day, (came, went)) in enumerate(zip(days, used, strict=True)):
        height = round((came + went) / most * _HEIGHT, 1)
        bars.append(Bar(day, came, went, at * _WIDTH, round(_HEIGHT - height, 1), height))
    return bars


def _shares(rows: Sequence[UsageRow], group: Grouping) -> list[UsageShare]:
    sums: dict[str, dict[str, float]] = {}
    for row in rows:
        name = getattr(row, group) or ""
        of_it = sums.setdefault(name, {})
        of_it[row.kind] = of_it.get(row.kind, 0) + row.amount
    found = [
        UsageShare(
            name,
            kinds.get("requests", 0) + kinds.get("tool_calls", 0),
            kinds.get("model_calls", 0),
            kinds.get("tokens_in", 0) + kinds.get("tokens_out", 0),
            kinds.get("cost", 0),
        )
        for name, kinds in sums.items()
        if name
    ]
    return sorted(found, key=lambda each: (-each.tokens, -each.calls, each.name))[:_MOST]


async def _named(view: PageView, share: UsageShare, identity: Identity, keys: Keys) -> UsageShare:
    """A share by the name of whoever used it, as far as the reader may know it; whoever is gone keeps the id."""
    if share.name == view.principal.actor:
        return replace(share, name=view.session.name)
    try:
        if share.name.startswith("usr_"):
            return replace(share, name=(await identity.user(view.principal, share.name)).name)
        if share.name.startswith("key_"):
            return replace(share, name=(await keys.get(view.principal, share.name)).name)
    except (Forbidden, NotFound):
        return share
    return share
