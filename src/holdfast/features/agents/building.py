"""Owns how agents are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.events.bus import EventBus
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.runners.base import Runners
from holdfast.engines.runtime.base import Runtime
from holdfast.features.agents.definitions import store as definition_store
from holdfast.features.agents.definitions.attachments import AgentAttachments
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.gate.building import session_gates
from holdfast.features.agents.gate.gates import Gates
from holdfast.features.agents.runs.casework import Casework
from holdfast.features.agents.runs.finishing import Finishing
from holdfast.features.agents.runs.live import LiveSessions
from holdfast.features.agents.runs.models import ModelDoor, SessionModels
from holdfast.features.agents.runs.running import SessionRuns
from holdfast.features.agents.runs.tidying import TIDY, tidier
from holdfast.features.agents.runs.worktrees import Worktrees
from holdfast.features.agents.sessions.actions import AgentActions
from holdfast.features.agents.sessions.base import KIND, SessionBase
from holdfast.features.agents.sessions.freezing import Freezing
from holdfast.features.agents.sessions.service import ATTEMPTS, AgentSessions
from holdfast.features.agents.sessions.telling import SessionTelling
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.cases.service import CaseService
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.execution.policies.grants import AgentIds, Grants
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.secrets.references import References
from holdfast.features.secrets.service import Secrets
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database, Tx

build = Building()


@build
def definitions(parts: Parts) -> AgentDefinitions:
    return AgentDefinitions(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[Endpoints],
        parts[Secrets],
        parts[EventBus],
        parts[Clock],
    )


@build
def attachments(parts: Parts) -> AgentAttachments:
    return AgentAttachments(parts[Database], parts[AgentDefinitions], References(parts[Secrets]), parts[Secrets])


@build
def agent_ids(parts: Parts) -> AgentIds:
    def named(tx: Tx, workspace_id: str, name: str) -> str | None:
        found = definition_store.find(tx, workspace_id, name)
        return None if found is None else found.id

    return named


@build
def telling(parts: Parts) -> SessionTelling:
    return SessionTelling(parts[Database], parts[EventBus], parts[Clock])


@build
def base(parts: Parts) -> SessionBase:
    return SessionBase(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[SessionTelling],
        parts[JobEngine],
        parts[EventBus],
        parts[Clock],
    )


@build
def freezing(parts: Parts) -> Freezing:
    return Freezing(parts[Endpoints], parts[Secrets], parts[Runners])


@build
def sessions(parts: Parts) -> AgentSessions:
    return AgentSessions(
        parts[SessionBase], parts[AgentDefinitions], parts[Freezing], parts[CaseService], parts[Grants]
    )


@build
def live(parts: Parts) -> LiveSessions:
    return LiveSessions()


@build
def actions(parts: Parts) -> AgentActions:
    settings = parts[Settings]
    return AgentActions(
        parts[SessionBase],
        parts[AgentSessions],
        parts[Grants],
        parts[LiveSessions],
        parts[EventBus],
        most_depth=settings.agent_spawn_depth,
        most_sessions=settings.agent_spawn_most,
    )


@build
def gates(parts: Parts) -> Gates:
    return session_gates(parts, lambda: parts[AgentActions])


@build
def models(parts: Parts) -> SessionModels:
    return SessionModels(parts[Database], parts[Keys], parts[Usage], parts[ModelDoor], parts[Clock])


@build
def worktrees(parts: Parts) -> Worktrees:
    return Worktrees(parts[GitEngine], parts[Runtime])


@build
def casework(parts: Parts) -> Casework:
    return Casework(parts[CaseService], parts[Worktrees])


@build
def finishing(parts: Parts) -> Finishing:
    return Finishing(
        parts[SessionBase], parts[AgentSessions], parts[Worktrees], parts[ArtifactService], parts[Casework]
    )


@build
def runs(parts: Parts) -> SessionRuns:
    settings = parts[Settings]
    return SessionRuns(
        parts[SessionBase],
        parts[Freezing],
        parts[Runtime],
        parts[Runners],
        parts[Gates],
        parts[SessionModels],
        parts[Worktrees],
        parts[Finishing],
        parts[LiveSessions],
        parts[EventBus],
        parts[Clock],
        directory=settings.data_dir.expanduser() / "sessions",
        quiet_seconds=settings.agent_quiet_seconds,
    )


def handle_jobs(parts: Parts) -> None:
    """Run sessions, and take away what old ones left."""
    settings = parts[Settings]
    at_once = settings.agents_at_once
    runs = parts[SessionRuns]
    parts[JobEngine].handle(
        KIND,
        runs.run,
        concurrency=at_once,
        reserved=max(1, at_once // 8) if at_once > 1 else 0,
        max_attempts=ATTEMPTS,
        ended=runs.ended,
    )
    tidy = tidier(parts[Database], parts[Clock], settings.data_dir.expanduser() / "sessions")
    parts[JobEngine].handle(TIDY, tidy, concurrency=1, every_seconds=3600)


def tools(parts: Parts) -> list[AnyTool]:
    """What models call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.agents.tools import tools as agent_tools

    return agent_tools(parts[AgentSessions], parts[AgentDefinitions], parts[CaseService])
