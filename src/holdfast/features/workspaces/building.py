"""Owns how workspaces are built, and what they answer to audit and to keys."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.tools.tool import AnyTool
from holdfast.features.audit.service import Audit
from holdfast.features.audit.visibility import Administered
from holdfast.features.identity import store as identity_store
from holdfast.features.identity.keys.api_keys import WorkspaceIds
from holdfast.features.workspaces import store
from holdfast.features.workspaces.service import ChatExists, Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def workspaces(parts: Parts) -> Workspaces:
    return Workspaces(
        parts[Database],
        parts[Audit],
        parts[Clock],
        identity_store.project_exists,
        identity_store.is_member,
        parts[ChatExists],
    )


@build
def administered(parts: Parts) -> Administered:
    return store.administered


@build
def workspace_ids(parts: Parts) -> WorkspaceIds:
    return store.ids_behind


def tools(parts: Parts) -> list[AnyTool]:
    """What agents call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.workspaces.tools import tools as workspace_tools

    return workspace_tools(parts[Workspaces])
