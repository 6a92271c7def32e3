"""Owns what prompts and resources need to know of a workspace, as the application wires it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.paging import Page
from holdfast.core.principal import Principal


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory or an artifact in a list: its slug or id, and what people call it."""

    key: str
    title: str
    description: str = ""
    changed_at: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A memory or an artifact to read, as Markdown."""

    text: str
    changed_at: int | None = None


class Knowledge(Protocol):
    """The reads behind prompts and resources; each raises NotFound for what is not there."""

    async def brief(self, principal: Principal, workspace_id: str) -> str: ...

    async def recent_decisions(
        self, principal: Principal, workspace_id: str, *, since: int | None, limit: int
    ) -> str: ...

    async def onboard(self, principal: Principal, workspace_id: str, topic: str) -> str: ...

    async def memory(self, principal: Principal, workspace_id: str, slug: str) -> Document: ...

    async def artifact(self, principal: Principal, workspace_id: str, artifact_id: str) -> Document: ...

    async def memories(
        self, principal: Principal, workspace_id: str, *, limit: int, cursor: str | None
    ) -> Page[Entry]: ...

    async def artifacts(
        self, principal: Principal, workspace_id: str, *, limit: int, cursor: str | None
    ) -> Page[Entry]: ...

    async def slugs(self, principal: Principal, workspace_id: str, prefix: str, limit: int) -> Sequence[str]: ...

    async def artifact_ids(self, principal: Principal, workspace_id: str, prefix: str, limit: int) -> Sequence[str]: ...
