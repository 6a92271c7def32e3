"""Owns how the MCP endpoint is put together: its view of a workspace's knowledge, and what it is told of."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Gateway
from holdfast.engines.events.model import Event
from holdfast.features.identity import store as identity_store
from holdfast.features.intelligence.model import Decision, DecisionFilter
from holdfast.services import Services
from holdfast.surfaces.http.admission import LimitedGate
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.mcp.content.knowledge import Document, Entry
from holdfast.surfaces.mcp.content.resources import BRIEF, DECISIONS, artifact_uri, memory_uri
from holdfast.surfaces.mcp.server import Annex
from holdfast.surfaces.mcp.surface import McpSettings, McpSurface
from holdfast.surfaces.mcp.transport.live import RESOURCES_CHANGED, Change

TOPICS = ("memory.changed", "artifact.*", "decision.*", "milestone.*", "relation.*")
ONBOARD_TOKENS = 3_000


def build_mcp(
    settings: Settings,
    services: Services,
    authenticator: Authenticator,
    gateway: Gateway,
    *,
    clock: Clock | None = None,
    annex: Annex | None = None,
    recheck_seconds: float = 5.0,
) -> McpSurface:
    """The endpoint for agents."""

    async def project_exists(principal: Principal, project_id: str) -> bool:
        return await services.database.glance(
            lambda tx: identity_store.project_exists(tx, principal.organization_id, project_id)
        )

    return McpSurface(
        gate=LimitedGate(authenticator, services.limiter, settings.mcp_calls_per_minute, "mcp"),
        workspaces=services.workspaces,
        project_exists=project_exists,
        gateway=gateway,
        knowledge=WorkspaceKnowledge(services),
        clients=services.clients,
        clock=clock or SystemClock(),
        changes=lambda: changes(services),
        settings=McpSettings(
            enabled=settings.mcp_enabled,
            transport="legacy" if settings.mcp_transport == "legacy" else "streamable",
            allowed_origins=(*settings.allowed_origins, *([settings.public_url] if settings.public_url else [])),
            recheck_seconds=recheck_seconds,
            with_tracing=settings.otlp_endpoint is not None,
        ),
        annex=annex,
    )


async def changes(services: Services) -> AsyncIterator[Change]:
    """What the event bus tells, as the resources that it concerns."""
    async with services.events.subscribe(TOPICS, capacity=4096) as events:
        async for event in events:
            change = change_of(event)
            if change is not None:
                yield change


def change_of(event: Event) -> Change | None:
    """The resources that read otherwise after an event."""
    if event.workspace_id is None:
        return None
    kind, _, action = event.topic.partition(".")
    if kind == "memory":
        uris = (memory_uri(str(event.payload["slug"])), BRIEF)
        return Change(event.workspace_id, uris, () if event.payload.get("action") == "edit" else RESOURCES_CHANGED)
    if kind == "artifact":
        uris = (artifact_uri(str(event.payload["artifact_id"])), BRIEF)
        return Change(event.workspace_id, uris, RESOURCES_CHANGED if action in ("create", "delete") else ())
    return Change(event.workspace_id, (DECISIONS, BRIEF) if kind == "decision" else (BRIEF,))


class WorkspaceKnowledge:
    """What prompts and resources show, read through the services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def brief(self, principal: Principal, workspace_id: str) -> str:
        """The state of the project."""
        return (await self._services.intelligence.brief(principal, workspace_id)).markdown

    async def recent_decisions(self, principal: Principal, workspace_id: str, *, since: int | None, limit: int) -> str:
        """Decisions, newest first."""
        wanted = DecisionFilter(since=since)
        page = await self._services.intelligence.decisions.page(principal, workspace_id, wanted, limit=limit)
        return "\n".join(_decision_line(decision) for decision in page.items) or "No decisions on record yet."

    async def onboard(self, principal: Principal, workspace_id: str, topic: str) -> str:
        """What the workspace knows about a topic, with its sources."""
        intelligence = self._services.intelligence
        found = await intelligence.analyze(principal, workspace_id, topic=topic[:1000], budget_tokens=ONBOARD_TOKENS)
        brief = await intelligence.brief(principal, workspace_id, focus=topic[:1000])
        return f"# What we know about {topic[:200]}\n\n{found.markdown}\n\n{brief.markdown}"

    async def memory(self, principal: Principal, workspace_id: str, slug: str) -> Document:
        """One memory."""
        found = await self._services.memory.get(principal, workspace_id, slug)
        state = "" if found.status == "current" else f"**{found.status}** {found.status_note}\n\n"
        tags = f"\nTags: {', '.join(found.tags)}" if found.tags else ""
        source = f"\nSource: {found.source}" if found.source else ""
        head = f"# {found.title}\n\n{state}{found.content}\n\n"
        author = found.author_name or found.author
        facts = f"Category: {found.category}. By {author}, {_day(found.true_from)}.{tags}{source}"
        return Document(head + facts, found.updated_at)

    async def artifact(self, principal: Principal, workspace_id: str, artifact_id: str) -> Document:
        """One artifact, newest version; its facts alone where it is too long to hand over."""
        found = await self._services.artifacts.read(principal, workspace_id, artifact_id)
        if found.content is not None:
            return Document(found.content, found.artifact.updated_at)
        text = (
            f"# {found.artifact.title}\n\nType {found.artifact.type}, version {found.version.version}, "
            f"{found.version.size_bytes} bytes: too long to read here."
        )
        return Document(text, found.artifact.updated_at)

    async def memories(self, principal: Principal, workspace_id: str, *, limit: int, cursor: str | None) -> Page[Entry]:
        """Current memories, the last learned first."""
        page = await self._services.memory.list(principal, workspace_id, limit=limit, cursor=cursor)
        return page.map(lambda row: Entry(row.slug, row.title, row.category, row.updated_at, len(row.content.encode())))

    async def artifacts(
        self, principal: Principal, workspace_id: str, *, limit: int, cursor: str | None
    ) -> Page[Entry]:
        """Artifacts, the last changed first."""
        page = await self._services.artifacts.page(principal, workspace_id, limit=limit, cursor=cursor)
        return page.map(lambda row: Entry(row.id, row.title, row.type, row.updated_at, row.size_bytes))

    async def slugs(self, principal: Principal, workspace_id: str, prefix: str, limit: int) -> Sequence[str]:
        """Slugs that begin so."""
        return await self._services.memory.slugs(principal, workspace_id, prefix, limit)

    async def artifact_ids(self, principal: Principal, workspace_id: str, prefix: str, limit: int) -> Sequence[str]:
        """Ids that begin so, of the artifacts changed last."""
        page = await self._services.artifacts.page(principal, workspace_id, limit=200)
        return [row.id for row in page.items if row.id.startswith(prefix)][:limit]


def _decision_line(decision: Decision) -> str:
    why = " ".join(decision.rationale.split())
    reason = f": {why}" if why else ""
    return f"- {_day(decision.decided_at)} **{decision.title}** ({decision.status}, {decision.id}){reason}"


def _day(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).date().isoformat()
