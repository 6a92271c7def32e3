"""Owns what agents read of artifacts: each as a resource."""

from collections.abc import Sequence

from holdfast.core.access import READ
from holdfast.core.paging import MAX_LIMIT, Page
from holdfast.core.principal import Principal
from holdfast.core.resources import ARTIFACT, artifact_uri
from holdfast.features.artifacts.model import Artifact, ArtifactReading
from holdfast.features.artifacts.service import ArtifactService
from holdfast.registry.content import Content
from holdfast.registry.resources import Arguments, ListedResource, ResourceTemplate


def resources(artifacts: ArtifactService) -> list[ResourceTemplate]:
    """Artifacts by id."""

    async def read(principal: Principal, workspace_id: str, arguments: Arguments) -> Content:
        return _content(await artifacts.read(principal, workspace_id, arguments["id"]))

    async def page(principal: Principal, workspace_id: str, limit: int, cursor: str | None) -> Page[ListedResource]:
        found = await artifacts.page(principal, workspace_id, limit=limit, cursor=cursor)
        return found.map(_listed)

    async def ids(principal: Principal, workspace_id: str, begun: str) -> Sequence[str]:
        changed_last = await artifacts.page(principal, workspace_id, limit=MAX_LIMIT)
        return [each.id for each in changed_last.items if each.id.startswith(begun)]

    return [
        ResourceTemplate(
            uri_template=ARTIFACT + "{id}",
            name="artifact",
            title="An artifact",
            # Each has its own type.
            mime_type=None,
            # Read here by any key, though the tools are not: a large result of a core tool is handed over as one.
            access=READ,
            read=read,
            page=page,
            complete={"id": ids},
        )
    ]


def _content(found: ArtifactReading) -> Content:
    """The newest version; its facts alone where it is too long to hand over."""
    if found.content is not None:
        return Content(found.content, found.artifact.type)
    return Content(
        f"# {found.artifact.title}\n\nType {found.artifact.type}, version {found.version.version}, "
        f"{found.version.size_bytes} bytes: too long to read here. "
        "xerotier.artifact.read reads it in parts, from offset 0 on."
    )


def _listed(found: Artifact) -> ListedResource:
    return ListedResource(
        uri=artifact_uri(found.id),
        name=found.id,
        title=found.title,
        description=found.type,
        mime_type=found.type,
        size_bytes=found.size_bytes,
    )
