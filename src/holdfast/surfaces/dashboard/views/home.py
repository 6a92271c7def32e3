"""Owns `/`: what needs the person, where the workspace stands, and this week's tokens; `/keys` says what keys do."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from holdfast.core.access import Access
from holdfast.core.clock import Clock
from holdfast.core.errors import Forbidden, Invalid
from holdfast.core.principal import SCOPES
from holdfast.core.settings import Settings
from holdfast.engines.jobs import Job
from holdfast.engines.mcp_client.base import LoginNeeded
from holdfast.features.agents.sessions.model import SessionFilter
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.cases.queue.waiting import WaitingCases
from holdfast.features.catalog.model import EntryNotFound
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerStarts
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.features.chat.service import ChatService
from holdfast.features.clients.service import Clients
from holdfast.features.execution.approvals.service import Approvals
from holdfast.features.execution.service import Execution
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.intelligence.model import Brief
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.jobs.service import JobService
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.features.usage.service import Usage
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

ANYBODY = Access("self", SCOPES)
_DAY_MILLIS = 24 * 60 * 60 * 1000
_SOON_MILLIS = 14 * _DAY_MILLIS
_RECENT_MILLIS = 7 * _DAY_MILLIS
_MOST = 5
_LOOKED_AT = 200
_WORK: Mapping[str, tuple[str, str]] = {"document": ("document", "documents"), "repository": ("repository", "repos")}
"""By the noun of a job's kind: the icon, and the page where its trouble is seen to."""
_SHOWN: Mapping[str, str] = {
    "memory": "memory/{id}",
    "decision": "decisions/{id}",
    "milestone": "timeline",
    "case": "cases/{id}",
}
"""The page of each type that a brief names."""
pages = Pages(NavRow("Home", "/", "home", "top", 0, ANYBODY))


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that waits for a person, and where to see to it."""

    kind: str
    icon: str
    title: str
    detail: str
    url: str
    at: int | None = None


@pages.get("/settings", ANYBODY)
async def settings(view: PageView) -> Reply:
    """What somebody writes into the address leads to the first page of its kind."""
    return view.go("/settings/profile")


@pages.get("/w/{ws}", ANYBODY)
async def workspace(view: PageView) -> Reply:
    return view.go(f"/w/{quote(view.ws.slug, safe='')}/memory")


@pages.get("/", ANYBODY)
async def home(
    view: PageView,
    intelligence: IntelligenceService,
    jobs: JobService,
    keys: Keys,
    chats: ChatService,
    cases: WaitingCases,
    sessions: AgentSessions,
    contradictions: Contradictions,
    usage: Usage,
    approvals: Approvals,
    pins: ToolPins,
    execution: Execution,
    starts: ServerStarts,
    logins: RemoteLogins,
    clients: Clients,
    settings: Settings,
    clock: Clock,
) -> Reply:
    budget = await usage.budget(view.principal, settings.weekly_token_limit)
    if view.workspace is None:
        return view.page("home/home.html", "", needs=[], brief=None, links={}, budget=budget, unconnected=False)
    needs = await asyncio.gather(
        _asked(view, chats),
        _cases(view, cases),
        _sessions(view, sessions, clock.now()),
        _disputed(view, contradictions),
        _failed(view, jobs, clock.now()),
        _expiring(view, keys, clock.now()),
        _undecided(view, approvals),
        _quarantined(view, pins),
        _signed_out(view, execution, starts, logins, clock.now()),
    )
    brief = await intelligence.brief(view.principal, view.workspace.id)
    return view.page(
        "home/home.html",
        "",
        needs=[need for each in needs for need in each],
        brief=brief,
        links=_links(view, brief),
        budget=budget,
        unconnected=not await clients.list(view.principal, limit=1),
    )


@pages.get("/keys", ANYBODY)
async def keyboard(view: PageView) -> Reply:
    return view.page("home/keys.html", "Keys")


def _links(view: PageView, brief: Brief) -> dict[str, str]:
    """Where what the brief names is shown, by id; what has no page of its own is named alone."""
    return {
        item.id: f"{_base(view)}/{_SHOWN[item.type]}".format(id=quote(item.id, safe=""))
        for items in brief.sections.values()
        for item in items
        if item.type in _SHOWN
    }


async def _asked(view: PageView, chats: ChatService) -> list[Need]:
    """What models wait to be told before they go on."""
    found = await chats.waiting(view.principal, view.ws.id, limit=_MOST)
    base = f"/chat/{quote(view.ws.slug, safe='')}"
    return [
        Need(
            "question",
            "question",
            str(each.question.get("question", ""))[:300],
            chat,
            f"{base}/{quote(each.chat_id, safe='')}",
            each.asked_at,
        )
        for each, chat in found
    ]


async def _cases(view: PageView, cases: WaitingCases) -> list[Need]:
    """Work that is the person's and wants them now."""
    found = await cases.of(view.principal, view.ws.id, _MOST)
    base = f"{_base(view)}/cases"
    return [
        Need(each.wait, "check", each.case.title, each.detail[:300], f"{base}/{quote(each.case.id, safe='')}", each.at)
        for each in found
    ]


async def _sessions(view: PageView, sessions: AgentSessions, now: int) -> list[Need]:
    """What agents wait for from people, and sessions that failed in the last week."""
    asked = await sessions.waiting(view.principal, view.ws.id, limit=_MOST)
    failed = await sessions.list(view.principal, view.ws.id, SessionFilter(state="failed"), limit=_MOST, cursor=None)
    base = f"{_base(view)}/sessions"
    return [
        *(
            Need(
                "right" if each.question.kind == "grant" else "question",
                "agent",
                each.question.question[:300],
                each.session.agent_slug,
                f"{base}/{each.session.id}",
                each.question.created_at,
            )
            for each in asked
        ),
        *(
            Need(
                "session",
                "agent",
                f"{each.agent_slug}: {each.prompt[:100]}",
                str((each.error or {}).get("message", ""))[:300],
                f"{base}/{each.id}",
                each.ended_at,
            )
            for each in failed.items
            if each.parent_id is None and now - (each.ended_at or 0) < _RECENT_MILLIS
        ),
    ]


async def _undecided(view: PageView, approvals: Approvals) -> list[Need]:
    """Calls that run only if this person, or another who may, says so."""
    found = (await approvals.list(view.principal, view.ws.id, state="pending", limit=_MOST, compared=False)).items
    return [
        Need(
            "approval",
            "tool",
            each.invocation.tool_name,
            each.invocation.requested_name or each.invocation.requested_by,
            f"/approve/{quote(each.approval.token, safe='')}",
            each.approval.created_at,
        )
        for each in found
        if each.may_decide
    ]


async def _quarantined(view: PageView, pins: ToolPins) -> list[Need]:
    """Tools that were changed by their server, for those who can accept them."""
    found = await pins.waiting(view.principal, view.ws.id, limit=_MOST) if view.administers else ()
    base = f"{_base(view)}/settings/mcp-servers"
    return [
        Need("quarantine", "tool", each.xem_name, ", ".join(each.flags)[:300], f"{base}/{quote(each.server, safe='')}")
        for each in found
    ]


async def _signed_out(
    view: PageView, execution: Execution, starts: ServerStarts, logins: RemoteLogins, now: int
) -> list[Need]:
    """Remote servers at which a call for this person failed in the last week, since their login there is gone."""
    failed = (await execution.list(view.principal, view.ws.id, status="failed", limit=_LOOKED_AT)).items
    refused = {
        call.server_id: call
        for call in reversed(failed)
        if call.error and call.error.get("code") == LoginNeeded.code and now - call.created_at < _RECENT_MILLIS
    }
    needs: list[Need] = []
    for server_id, call in refused.items():
        if await starts.acts_for(call.principal) != view.principal.actor:
            continue
        try:
            connected = view.principal.actor in await logins.connected(view.principal, server_id)
        except (EntryNotFound, Invalid):
            # Removed since, or made another kind of server.
            continue
        if not connected:
            url = f"/connect/{quote(server_id, safe='')}"
            needs.append(Need("login", "link", call.tool_name.partition(".")[0], call.tool_name, url, call.ended_at))
    return needs[:_MOST]


async def _disputed(view: PageView, contradictions: Contradictions) -> list[Need]:
    found = (await contradictions.list(view.principal, view.ws.id, limit=_MOST)).items
    url = f"{_base(view)}/memory/contradictions"
    return [Need("contradiction", "memory", each.memory.title, each.other.title, url, each.found_at) for each in found]


async def _failed(view: PageView, jobs: JobService, now: int) -> list[Need]:
    """What failed in the last week and was not tried again since."""
    failed = (await jobs.list(view.principal, view.ws.id, state="failed", limit=_LOOKED_AT)).items
    if not failed:
        return []
    newest: dict[tuple[str, str], str] = {}
    for job in (await jobs.list(view.principal, view.ws.id, limit=_LOOKED_AT)).items:
        newest.setdefault((job.kind, job.key or job.id), job.id)
    lasting = [job for job in failed if newest.get((job.kind, job.key or job.id), job.id) == job.id]
    return [_work(view, job) for job in lasting if now - job.created_at < _RECENT_MILLIS][:_MOST]


def _work(view: PageView, job: Job) -> Need:
    icon, page = _WORK.get(job.kind.partition(".")[0], ("alert", ""))
    url = f"{_base(view)}/{page}" if page else ""
    if "document_id" in job.payload:
        url += f"/{job.payload['document_id']}"
    return Need("job", icon, job.message or job.kind, job.error or "", url, job.finished_at)


async def _expiring(view: PageView, keys: Keys, now: int) -> list[Need]:
    """Keys that end within two weeks, for those who may make others; not those that have long ended."""
    try:
        soon = await keys.ending(view.principal, since=now - _RECENT_MILLIS, until=now + _SOON_MILLIS, limit=_MOST)
    except Forbidden:
        return []
    return [Need("key", "key", key.name, f"{key.prefix}…", "/settings/keys", key.expires_at) for key in soon]


def _base(view: PageView) -> str:
    return f"/w/{quote(view.ws.slug, safe='')}"
