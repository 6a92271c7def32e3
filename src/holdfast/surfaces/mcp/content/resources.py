"""Owns resources on the wire: their list and templates, and what reading one gives."""

import base64
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, ListResourcesResult, ReadResourceResult

from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.registry.content import Content
from holdfast.registry.resources import EVERYWHERE, ListedResource, Resources, ResourceTemplate
from holdfast.surfaces.mcp.admission import Admitted

PAGE = 100
UNBOUND = "Workspace not bound. Call xerotier.session.init or set X-Xerotier-Workspace header."


class ResourceHandlers:
    """Serves resources/list, resources/templates/list and resources/read from what the features declare."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def listed(self, admitted: Admitted, cursor: str | None) -> ListResourcesResult:
        """A page of what there is in the bound workspace."""
        page = await self._resources.page(admitted.principal, admitted.workspace_id, limit=PAGE, cursor=cursor)
        return ListResourcesResult(resources=[_described(each) for each in page.items], next_cursor=page.next_cursor)

    def templates(self, principal: Principal) -> list[types.ResourceTemplate]:
        """How to address a single thing, or a part of one."""
        return [_template(each) for each in self._resources.templates(principal)]

    async def read(self, admitted: Admitted, uri: str) -> ReadResourceResult:
        """One resource: NotFound, ResourceRefused, or Invalid for a query that cannot be read."""
        found = self._resources.find(admitted.principal, uri)
        if admitted.workspace_id is None and not self._resources.everywhere:
            raise MCPError(code=INVALID_REQUEST, message=UNBOUND)
        place = admitted.workspace_id or EVERYWHERE
        return ReadResourceResult(contents=[contents(uri, await found.read(admitted.principal, place))])

    def watchable(self, principal: Principal, uri: str) -> bool:
        """Whether this principal may hear of changes of that resource."""
        try:
            self._resources.find(principal, uri)
        except HoldfastError:
            return False
        return True


def contents(uri: str, content: Content) -> types.TextResourceContents | types.BlobResourceContents:
    """A piece of text or bytes at its address."""
    if isinstance(content.data, str):
        return types.TextResourceContents(uri=uri, mime_type=content.mime_type, text=content.data)
    blob = base64.b64encode(content.data).decode()
    return types.BlobResourceContents(uri=uri, mime_type=content.mime_type, blob=blob)


def _described(each: ListedResource) -> types.Resource:
    optional: dict[str, Any] = {"title": each.title or None, "description": each.description or None}
    return types.Resource(uri=each.uri, name=each.name, mime_type=each.mime_type, size=each.size_bytes, **optional)


def _template(each: ResourceTemplate) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        uri_template=each.uri_template,
        name=each.name,
        title=each.title,
        description=each.description or None,
        mime_type=each.mime_type,
    )
