"""Owns `/`: what needs the person, where the workspace stands, and this week's tokens; `/keys` says what keys do."""

import asyncio
from dataclasses import dataclass
from urllib.parse import quote

from holdfast.core.access import Access
from holdfast.core.clock import Clock
from holdfast.core.errors import Forbidden
from holdfast.core.principal import SCOPES
from holdfast.core.settings import Settings
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.jobs.service import JobService
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.features.usage.service import Usage
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

ANYBODY = Access("self", SCOPES)
_SOON_MILLIS = 14 * 24 * 60 * 60 * 1000
_MOST = 5
pages = Pages(NavRow("Home", "/", "home", "top", 0, ANYBODY))


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that waits for a person, and where to see to it."""

    kind: str
    icon: str
    title: str
    detail: str
    url: str


@pages.get("/", ANYBODY)
async def home(
    view: PageView,
    intelligence: IntelligenceService,
    jobs: JobService,
    keys: Keys,
    contradictions: Contradictions,
    usage: Usage,
    settings: Settings,
    clock: Clock,
) -> Reply:
    budget = await usage.budget(view.principal, settings.weekly_token_limit)
    if view.workspace is None:
        return view.page("home/home.html", "", needs=[], brief=None, budget=budget)
    brief, disputed, failed, expiring = await asyncio.gather(
        intelligence.brief(view.principal, view.workspace.id),
        _disputed(view, contradictions),
        _failed(view, jobs),
        _expiring(view, keys, clock.now()),
    )
    return view.page("home/home.html", "", needs=[*disputed, *failed, *expiring], brief=brief, budget=budget)


@pages.get("/keys", ANYBODY)
async def keyboard(view: PageView) -> Reply:
    return view.page("home/keys.html", "Keys")


async def _disputed(view: PageView, contradictions: Contradictions) -> list[Need]:
    found = (await contradictions.list(view.principal, view.ws.id, limit=_MOST)).items
    url = f"/w/{quote(view.ws.slug, safe='')}/memory/contradictions"
    return [Need("contradiction", "memory", each.memory.title, each.other.title, url) for each in found]


async def _failed(view: PageView, jobs: JobService) -> list[Need]:
    page = await jobs.list(view.principal, view.ws.id, state="failed", limit=_MOST)
    return [Need("job", "alert", each.kind, each.error or "", "") for each in page.items]


async def _expiring(view: PageView, keys: Keys, now: int) -> list[Need]:
    try:
        found = (await keys.list(view.principal, limit=200)).items
    except Forbidden:
        return []
    soon = [key for key in found if key.revoked_at is None and key.expires_at and key.expires_at - now < _SOON_MILLIS]
    return [Need("key", "key", key.name, key.prefix, "/settings/keys") for key in soon[:_MOST]]
