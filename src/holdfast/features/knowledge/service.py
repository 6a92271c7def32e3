"""Owns what a workspace knows, written as Markdown for agents to read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.intelligence.model import Decision, DecisionFilter
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.service import MemoryService

ONBOARD_TOKENS = 3_000


@dataclass(frozen=True, slots=True)
class Listed:
    """A memory or an artifact in a list: its slug or id, and what people call it."""

    key: str
    title: str
    description: str = ""
    changed_at: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Readable:
    """A memory or an artifact to read, as Markdown."""

    text: str
    changed_at: int | None = None


class WorkspaceKnowledge:
    """What prompts and resources show, read through the services."""

    def __init__(self, memory: MemoryService, artifacts: ArtifactService, intelligence: IntelligenceService) -> None:
        self._memory = memory
        self._artifacts = artifacts
        self._intelligence = intelligence

    async def brief(self, principal: Principal, workspace_id: str) -> str:
        """The state of the project."""
        return (await self._intelligence.brief(principal, workspace_id)).markdown

    async def recent_decisions(self, principal: Principal, workspace_id: str, *, since: int | None, limit: int) -> str:
        """Decisions, newest first."""
        wanted = DecisionFilter(since=since)
        page = await self._intelligence.decisions.page(principal, workspace_id, wanted, limit=limit)
        return "\n".join(_decision_line(decision) for decision in page.items) or "No decisions on record yet."

    async def onboard(self, principal: Principal, workspace_id: str, topic: str) -> str:
        """What the workspace knows about a topic, with its sources."""
        about = topic[:1000]
        found = await self._intelligence.analyze(principal, workspace_id, topic=about, budget_tokens=ONBOARD_TOKENS)
        brief = await self._intelligence.brief(principal, workspace_id, focus=about)
        return f"# What we know about {topic[:200]}\n\n{found.markdown}\n\n{brief.markdown}"

    async def memory(self, principal: Principal, workspace_id: str, slug: str) -> Readable:
        """One memory."""
        found = await self._memory.get(principal, workspace_id, slug)
        state = "" if found.status == "current" else f"**{found.status}** {found.status_note}\n\n"
        tags = f"\nTags: {', '.join(found.tags)}" if found.tags else ""
        source = f"\nSource: {found.source}" if found.source else ""
        head = f"# {found.title}\n\n{state}{found.content}\n\n"
        author = found.author_name or found.author
        facts = f"Category: {found.category}. By {author}, {_day(found.true_from)}.{tags}{source}"
        return Readable(head + facts, found.updated_at)

    async def artifact(self, principal: Principal, workspace_id: str, artifact_id: str) -> Readable:
        """One artifact, newest version; its facts alone where it is too long to hand over."""
        found = await self._artifacts.read(principal, workspace_id, artifact_id)
        if found.content is not None:
            return Readable(found.content, found.artifact.updated_at)
        text = (
            f"# {found.artifact.title}\n\nType {found.artifact.type}, version {found.version.version}, "
            f"{found.version.size_bytes} bytes: too long to read here."
        )
        return Readable(text, found.artifact.updated_at)

    async def memories(
        self, principal: Principal, workspace_id: str, *, limit: int, cursor: str | None
    ) -> Page[Listed]:
        """Current memories, the last learned first."""
        page = await self._memory.list(principal, workspace_id, limit=limit, cursor=cursor)
        return page.map(
            lambda row: Listed(row.slug, row.title, row.category, row.updated_at, len(row.content.encode()))
        )

    async def artifacts(
        self, principal: Principal, workspace_id: str, *, limit: int, cursor: str | None
    ) -> Page[Listed]:
        """Artifacts, the last changed first."""
        page = await self._artifacts.page(principal, workspace_id, limit=limit, cursor=cursor)
        return page.map(lambda row: Listed(row.id, row.title, row.type, row.updated_at, row.size_bytes))

    async def slugs(self, principal: Principal, workspace_id: str, prefix: str, limit: int) -> Sequence[str]:
        """Slugs that begin so."""
        return await self._memory.slugs(principal, workspace_id, prefix, limit)

    async def artifact_ids(self, principal: Principal, workspace_id: str, prefix: str, limit: int) -> Sequence[str]:
        """Ids that begin so, of the artifacts changed last."""
        page = await self._artifacts.page(principal, workspace_id, limit=200)
        return [row.id for row in page.items if row.id.startswith(prefix)][:limit]


def _decision_line(decision: Decision) -> str:
    why = " ".join(decision.rationale.split())
    reason = f": {why}" if why else ""
    return f"- {_day(decision.decided_at)} **{decision.title}** ({decision.status}, {decision.id}){reason}"


def _day(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).date().isoformat()
