"""Owns what a workspace is."""

import uuid
from dataclasses import dataclass

from holdfast.core.errors import NotFound


@dataclass(frozen=True, slots=True)
class Workspace:
    """The place that memories, documents, artifacts and decisions belong to."""

    id: str
    project_id: str
    organization_id: str
    slug: str
    name: str
    created_at: int

    @property
    def uuid(self) -> str:
        """The id as a UUID, which the MCP header accepts too."""
        return str(uuid.UUID(self.id.removeprefix("ws_")))


class WorkspaceNotFound(NotFound):
    """No such workspace, or not this caller's: the answer is the same."""

    def __init__(self, workspace_id: str) -> None:
        super().__init__("workspace", workspace_id)
