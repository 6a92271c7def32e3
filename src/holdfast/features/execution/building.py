"""Owns how governed execution is built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Gateway
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.web import WebAccess
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.address import PublicAddress
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStarts
from holdfast.features.execution.approvals.announcing import Announcements
from holdfast.features.execution.approvals.service import ANNOUNCE, Approvals
from holdfast.features.execution.calling import Calls
from holdfast.features.execution.enrolled import EnrolledCatalog
from holdfast.features.execution.expiry import ApprovalExpiry
from holdfast.features.execution.policies.deciding import Deciding
from holdfast.features.execution.policies.grants import AgentIds, Grants
from holdfast.features.execution.runs.ending import Endings
from holdfast.features.execution.runs.immediate import ImmediateCalls
from holdfast.features.execution.runs.running import Runs
from holdfast.features.execution.service import KIND, Execution
from holdfast.features.execution.settings import ExecutionSettings
from holdfast.features.identity.keys import store as key_store
from holdfast.features.secrets.service import Secrets
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database, Tx

build = Building()


@build
def grants(parts: Parts) -> Grants:
    return Grants(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        # Found at the first grant: agents are built on top of execution.
        lambda tx, workspace_id, name: parts[AgentIds](tx, workspace_id, name),
        parts[EventBus],
        parts[Clock],
    )


@build
def deciding(parts: Parts) -> Deciding:
    return Deciding(parts[Grants], _owner)


@build
def endings(parts: Parts) -> Endings:
    return Endings(parts[Audit], parts[JobEngine], parts[EventBus], parts[Clock])


@build
def approvals(parts: Parts) -> Approvals:
    return Approvals(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[ToolPins],
        parts[Grants],
        parts[Endings],
        parts[JobEngine],
        parts[EventBus],
        parts[Clock],
        seconds=parts[Settings].approval_seconds,
        url=lambda: parts[PublicAddress].url,
    )


@build
def announcements(parts: Parts) -> Announcements:
    return Announcements(parts[Database], parts[Approvals], parts[Secrets], parts[WebAccess].guard)


@build
def expiry(parts: Parts) -> ApprovalExpiry:
    return ApprovalExpiry(
        parts[Database], parts[Approvals], parts[Clock], once_seconds=parts[Settings].exec_once_seconds
    )


@build
def execution(parts: Parts) -> Execution:
    return Execution(
        parts[Database],
        parts[Workspaces],
        parts[ToolPins],
        parts[Deciding],
        parts[Approvals],
        parts[Endings],
        parts[JobEngine],
        parts[EventBus],
        parts[Clock],
        once_seconds=parts[Settings].exec_once_seconds,
    )


@build
def settings(parts: Parts) -> ExecutionSettings:
    return ExecutionSettings(parts[Database], parts[Audit], parts[Workspaces], parts[Secrets], parts[Clock])


@build
def runs(parts: Parts) -> Runs:
    return Runs(
        parts[Database],
        parts[ToolPins],
        parts[ServerStarts],
        parts[ServerConnections],
        parts[Deciding],
        parts[Endings],
        parts[ArtifactService],
        parts[EventBus],
        parts[Clock],
        call_seconds=parts[Settings].exec_call_seconds,
    )


@build
def immediate(parts: Parts) -> ImmediateCalls:
    return ImmediateCalls(
        parts[Database],
        parts[Execution],
        parts[ToolPins],
        parts[ServerStarts],
        parts[ServerConnections],
        parts[Runs],
        parts[JobEngine],
    )


@build
def calls(parts: Parts) -> Calls:
    return Calls(parts[Database], parts[Execution], parts[ImmediateCalls], parts[Approvals])


@build
def enrolled(parts: Parts) -> EnrolledCatalog:
    return EnrolledCatalog(parts[Database], parts[ToolPins], parts[Calls])


def handle_jobs(parts: Parts) -> None:
    """Run what was invoked."""
    runs = parts[Runs]
    at_once = parts[Settings].exec_at_once
    parts[JobEngine].handle(KIND, runs.run, concurrency=at_once, reserved=max(1, at_once // 8), ended=runs.ended)
    parts[JobEngine].handle(ANNOUNCE, parts[Announcements].run)


def tools(parts: Parts) -> list[AnyTool]:
    """What models call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.execution.tools import tools as execution_tools

    return execution_tools(parts[Execution], parts[Calls], parts[Gateway])


def _owner(tx: Tx, principal: Principal) -> str | None:
    if principal.is_person:
        return principal.actor
    return key_store.person_behind(tx, principal.organization_id, principal.actor)
