"""Owns the four kinds of resources: their addresses, their list, reading them and completing their names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import parse_qsl, unquote

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    InputRequiredResult,
    ListResourcesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.core.access import READ, READ_INTEL, Access
from holdfast.core.clock import Clock
from holdfast.core.errors import Invalid, NotFound
from holdfast.core.paging import Page, decode_cursor, encode_cursor
from holdfast.core.principal import Principal
from holdfast.core.resources import ARTIFACT, BRIEF, DECISIONS, MEMORY, artifact_uri, memory_uri
from holdfast.features.knowledge.service import Listed, WorkspaceKnowledge
from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.content.prompts import PROMPTS, UNBOUND
from holdfast.surfaces.mcp.transport.wire import NOT_FOUND

MARKDOWN = "text/markdown"
PAGE = 100
DEFAULT_DECISIONS = 20
MAX_DECISIONS = 200

Kind = Literal["brief", "decisions", "memory", "artifact"]
Context = ServerRequestContext[Any, Admitted]

# One artifact is read here by any key, though its tools are not: a large result of a core tool is handed over as one.
ACCESS: dict[Kind, Access] = {"brief": READ_INTEL, "decisions": READ_INTEL, "memory": READ, "artifact": READ}
_MILLIS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


_FIXED: dict[Kind, Resource] = {
    "brief": Resource(
        uri=BRIEF,
        name="brief",
        title="Project brief",
        description="The state of the project now.",
        mime_type=MARKDOWN,
    ),
    "decisions": Resource(
        uri=DECISIONS,
        name="recent-decisions",
        title="Recent decisions",
        description="Decisions, newest first. Add ?since=7d&limit=20 for a part.",
        mime_type=MARKDOWN,
    ),
}
_TEMPLATES: dict[Kind, ResourceTemplate] = {
    "memory": ResourceTemplate(uri_template=MEMORY + "{slug}", name="memory", title="A memory", mime_type=MARKDOWN),
    "artifact": ResourceTemplate(
        uri_template=ARTIFACT + "{id}", name="artifact", title="An artifact", mime_type=MARKDOWN
    ),
    "decisions": ResourceTemplate(
        uri_template=DECISIONS + "{?since,limit}",
        name="recent-decisions",
        title="Recent decisions, a part",
        mime_type=MARKDOWN,
    ),
}


class MoreResources(Protocol):
    """Resources in the SDK's own words, beside ours."""

    @property
    def resources(self) -> list[Resource]: ...

    @property
    def templates(self) -> list[ResourceTemplate]: ...

    async def read_resource(
        self, ctx: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult | InputRequiredResult | None:
        """None: not one of these."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed resource URI."""

    kind: Kind
    key: str = ""
    since_millis: int | None = None
    limit: int = DEFAULT_DECISIONS


def parse_uri(uri: str) -> Address | None:
    """The resource that a URI names; None for a URI of another kind, MCPError for a query that cannot be read."""
    base, _, query = uri.partition("?")
    if base == BRIEF:
        return Address("brief")
    if base == DECISIONS:
        return _decisions(query)
    for prefix, kind in ((MEMORY, "memory"), (ARTIFACT, "artifact")):
        key = unquote(base[len(prefix) :])
        if base.startswith(prefix) and key and "/" not in key:
            return Address("memory" if kind == "memory" else "artifact", key)
    return None


class ResourceHandlers:
    """Serves resources/list, resources/templates/list, resources/read and completion."""

    def __init__(self, knowledge: WorkspaceKnowledge, clock: Clock, more: MoreResources | None) -> None:
        self._knowledge = knowledge
        self._clock = clock
        self._more = more

    async def listed(self, admitted: Admitted, cursor: str | None) -> ListResourcesResult:
        """A page: the fixed resources, then memories, then artifacts."""
        principal, workspace_id = admitted.principal, admitted.workspace_id
        part, inner = ("", None) if cursor is None else _position(cursor)
        first = self._fixed(principal) if cursor is None else []
        if workspace_id is None:
            return ListResourcesResult(resources=first)
        if part in ("", "memory"):
            page = await self._knowledge.memories(principal, workspace_id, limit=PAGE, cursor=inner)
            found = [*first, *(_resource(memory_uri(entry.key), entry) for entry in page.items)]
            return ListResourcesResult(
                resources=found, next_cursor=_next("memory", page) or encode_cursor("artifact", "")
            )
        page = await self._knowledge.artifacts(principal, workspace_id, limit=PAGE, cursor=inner)
        found = [_resource(artifact_uri(entry.key), entry) for entry in page.items]
        return ListResourcesResult(resources=found, next_cursor=_next("artifact", page))

    def _fixed(self, principal: Principal) -> list[Resource]:
        more = self._more.resources if self._more else []
        return [*(resource for kind, resource in _FIXED.items() if _open(principal, kind)), *more]

    def templates(self, principal: Principal) -> list[ResourceTemplate]:
        """How to address a single memory or artifact, or a part of the decisions."""
        found = [template for kind, template in _TEMPLATES.items() if _open(principal, kind)]
        return found + (self._more.templates if self._more else [])

    async def read(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult | InputRequiredResult:
        """One resource, as Markdown."""
        uri = str(params.uri)
        if self._more is not None:
            other = await self._more.read_resource(ctx, params)
            if other is not None:
                return other
        admitted = ctx.request
        address = parse_uri(uri)
        if address is None or admitted is None:
            raise self._missing(ctx, uri)
        missing = ACCESS[address.kind].missing(admitted.principal)
        if missing is not None:
            raise ResourceRefused(uri, missing)
        if admitted.workspace_id is None:
            raise MCPError(code=INVALID_REQUEST, message=UNBOUND)
        try:
            text = await self._text(admitted.principal, admitted.workspace_id, address)
        except NotFound:
            raise self._missing(ctx, uri) from None
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=MARKDOWN, text=text)])

    async def _text(self, principal: Principal, workspace_id: str, address: Address) -> str:
        if address.kind == "brief":
            return await self._knowledge.brief(principal, workspace_id)
        if address.kind == "decisions":
            since = None if address.since_millis is None else self._clock.now() - address.since_millis
            return await self._knowledge.recent_decisions(principal, workspace_id, since=since, limit=address.limit)
        read = self._knowledge.memory if address.kind == "memory" else self._knowledge.artifact
        return (await read(principal, workspace_id, address.key)).text

    async def completed(self, admitted: Admitted, reference: str, argument: str, value: str) -> Sequence[str]:
        """Names that begin like the value, for a template's or a prompt's argument."""
        if admitted.workspace_id is None:
            return []
        principal, workspace_id = admitted.principal, admitted.workspace_id
        if (known := PROMPTS.get(reference)) is not None and known.access.missing(principal) is not None:
            return []
        if (reference, argument) in ((MEMORY + "{slug}", "slug"), ("onboard", "topic")):
            return await self._knowledge.slugs(principal, workspace_id, value[:200], PAGE)
        if (reference, argument) == (ARTIFACT + "{id}", "id"):
            return await self._knowledge.artifact_ids(principal, workspace_id, value[:200], PAGE)
        if (reference, argument) == (DECISIONS + "{?since,limit}", "since") and _open(principal, "decisions"):
            return [span for span in ("1d", "7d", "30d") if span.startswith(value)]
        return []

    def watchable(self, principal: Principal, uri: str) -> bool:
        """Whether this principal may hear of changes of that resource."""
        if self._more is not None and any(str(resource.uri) == uri for resource in self._more.resources):
            return True
        try:
            address = parse_uri(uri)
        except MCPError:
            return False
        return address is not None and _open(principal, address.kind)

    @staticmethod
    def _missing(ctx: Context, uri: str) -> MCPError:
        code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else NOT_FOUND
        return MCPError(code=code, message=f"Resource not found: {uri[:200]}", data={"uri": uri[:500]})


class ResourceRefused(MCPError):
    """The resource exists, but not for this credential."""

    def __init__(self, uri: str, missing: str) -> None:
        super().__init__(code=INVALID_PARAMS, message=f"The resource {uri[:200]} is not for this credential. {missing}")


def _open(principal: Principal, kind: Kind) -> bool:
    return ACCESS[kind].missing(principal) is None


def _resource(uri: str, entry: Listed) -> Resource:
    return Resource(
        uri=uri,
        name=entry.key,
        title=entry.title or None,
        description=entry.description or None,
        mime_type=MARKDOWN,
        size=entry.bytes,
    )


def _next(part: str, page: Page[Listed]) -> str | None:
    return None if page.next_cursor is None else encode_cursor(part, page.next_cursor)


def _position(cursor: str) -> tuple[str, str | None]:
    try:
        part, inner = decode_cursor(cursor, str, str)
    except Invalid as error:
        raise MCPError(code=INVALID_PARAMS, message=error.message) from None
    if part not in ("memory", "artifact"):
        raise MCPError(code=INVALID_PARAMS, message="The cursor could not be read.")
    return str(part), str(inner) or None


def _decisions(query: str) -> Address:
    since: int | None = None
    limit = DEFAULT_DECISIONS
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "since" and value:
            match = re.fullmatch(r"(\d{1,5})([smhdw])", value)
            if match is None:
                raise MCPError(code=INVALID_PARAMS, message="since is a duration such as 7d, 12h or 30m.")
            since = int(match.group(1)) * _MILLIS[match.group(2)]
        elif name == "limit" and value:
            if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MAX_DECISIONS:
                raise MCPError(code=INVALID_PARAMS, message=f"limit is a number from 1 to {MAX_DECISIONS}.")
            limit = int(value)
    return Address("decisions", since_millis=since, limit=limit)
