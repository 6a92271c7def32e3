"""Owns what a session is started with: everything looked up and checked at one moment, and frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.core.errors import FieldError, HoldfastError, NotFound
from holdfast.core.principal import Principal
from holdfast.engines.runners.base import RunnerMissing, RunnerPin, Runners
from holdfast.features.agents.definitions.checks import ungranted
from holdfast.features.agents.definitions.model import AgentDefinition, Attachment
from holdfast.features.agents.gate.base import FrozenAttachment
from holdfast.features.agents.sessions.model import AgentSession, FrozenServer, FrozenStart, NotStartable
from holdfast.features.cases.model import Case
from holdfast.features.catalog import store as catalog_store
from holdfast.features.catalog.manifest import env_problems, places_of
from holdfast.features.catalog.model import CatalogEntry
from holdfast.features.endpoints.model import EMBEDDED_MODEL
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.repositories import store as repository_store
from holdfast.features.repositories.model import Repository
from holdfast.features.secrets.references import ReferenceBroken, References, Resolved, referred
from holdfast.features.secrets.service import Secrets
from holdfast.features.workspaces.model import Workspace
from holdfast.storage.database import Tx


class Freezing:
    """Looks up what a session needs. What is missing is named by its field, before anything is started."""

    def __init__(self, endpoints: Endpoints, secrets: Secrets, runners: Runners) -> None:
        self._endpoints = endpoints
        self._secrets = secrets
        self._references = References(secrets)
        self._runners = runners

    def frozen(
        self, tx: Tx, workspace: Workspace, agent: AgentDefinition, case: Case | None, model: str | None
    ) -> FrozenStart:
        """What a session of this agent runs with from now on; NotStartable with every field that stands against it."""
        wrong: list[FieldError] = []
        servers = [each for one in agent.attachments if (each := self._server(tx, workspace, one, wrong)) is not None]
        granted = frozenset(each.name for each in agent.secrets)
        wrong += ungranted(agent.spec.env, granted)
        self._resolved(tx, workspace.id, agent.spec.env, wrong)
        runner: RunnerPin | None = None
        try:
            runner = self._runners.pin(agent.spec.runner)
            self._runners.get(agent.spec.runner, agent.spec.words, runner)
        except RunnerMissing as problem:
            wrong.append(FieldError("runner", problem.message))
        named = (case.repository if case is not None else None) or agent.spec.repository
        repository = self._repository(tx, workspace, named, wrong)
        model = model or self._model(tx, workspace, agent.spec.endpoint, wrong)
        if wrong:
            raise NotStartable(wrong)
        base = (case.base_commit if case is not None else None) or (repository.head if repository else None)
        return FrozenStart(
            spec=replace(agent.spec, repository=named),
            servers=tuple(servers),
            model=model,
            project_id=workspace.project_id,
            repository_id=None if repository is None else repository.id,
            base_commit=base,
            runner=runner,
        )

    def env(self, tx: Tx, workspace_id: str, agent: AgentDefinition | None, frozen: FrozenStart) -> Resolved:
        """The agent's own environment with what it was granted; NotStartable where that ended meanwhile."""
        wrong: list[FieldError] = []
        granted = frozenset(each.name for each in agent.secrets) if agent is not None else frozenset[str]()
        wrong += ungranted(frozen.spec.env, granted)
        env = self._resolved(tx, workspace_id, frozen.spec.env, wrong)
        if wrong:
            raise NotStartable(wrong)
        return env

    def known(self, tx: Tx, session: AgentSession) -> list[tuple[str, str]]:
        """The secrets that a session's agent was granted, by name and as they are now, where they are set at all."""
        found = []
        for value in session.frozen.spec.env.values():
            name = referred(value)
            if name is not None and self._secrets.is_set(tx, session.workspace_id, name):
                found.append((name, self._secrets.value_to_compare(tx, session.workspace_id, name)))
        return found

    def _resolved(self, tx: Tx, workspace_id: str, env: object, wrong: list[FieldError]) -> Resolved:
        assert isinstance(env, dict)
        try:
            # No places: its process has no way out but the model and the gate.
            return self._references.resolve(tx, workspace_id, env, (), field="env")
        except ReferenceBroken as problem:
            wrong += problem.fields
            return Resolved()

    def _server(
        self, tx: Tx, workspace: Workspace, attached: Attachment, wrong: list[FieldError]
    ) -> FrozenServer | None:
        at = f"attachments.{attached.name}"
        entry = catalog_store.by_id(tx, attached.server_id)
        if entry is None or entry.workspace_id != workspace.id:
            wrong.append(FieldError(at, "the server is no longer in the catalog; detach it, or register it again"))
            return None
        problems = self._entry_problems(tx, entry, attached, at)
        wrong += problems
        tools = [each for each in catalog_store.tools_of(tx, entry.id) if each.state != "gone"]
        if not tools and not problems:
            problem = f"nobody looked at its tools yet: `holdfast catalog probe {entry.name}`"
            wrong.append(FieldError(f"{at}.tools", problem))
        wrong += [
            FieldError(
                f"{at}.tools.{tool.name}",
                f"it is in quarantine until a person has looked at it: `holdfast catalog accept {entry.name} "
                f"{tool.name}`",
            )
            for tool in tools
            if tool.state == "quarantined"
        ]
        pinned = {tool.name: tool.digest for tool in tools}
        frozen = FrozenAttachment(entry.id, entry.name, entry.revision, dict(attached.env), pinned)
        return FrozenServer(frozen, entry.spec.shape, entry.installed.integrity if entry.installed else None)

    def _entry_problems(self, tx: Tx, entry: CatalogEntry, attached: Attachment, at: str) -> Sequence[FieldError]:
        if not entry.spec.enabled:
            return [FieldError(at, "the server is switched off in the catalog")]
        if entry.install == "installing":
            return [FieldError(at, "its package is still being installed; try again in a moment")]
        if entry.install == "failed":
            return [FieldError(at, f"its package could not be installed: {entry.problem}")]
        if entry.spec.shape == "remote":
            return []
        wrong = env_problems(entry.spec.manifest, attached.env, f"{at}.env")
        try:
            self._references.resolve(tx, entry.workspace_id, attached.env, places_of(entry.spec), field=f"{at}.env")
        except ReferenceBroken as problem:
            wrong += problem.fields
        return wrong

    def _repository(self, tx: Tx, workspace: Workspace, slug: str | None, wrong: list[FieldError]) -> Repository | None:
        if slug is None:
            return None
        found = repository_store.find_in(tx, workspace.id, slug) or repository_store.find(
            tx, workspace.organization_id, slug
        )
        if found is None:
            wrong.append(FieldError("repository", f"there is no repository {slug[:80]!r} any more"))
        elif not found.head:
            wrong.append(FieldError("repository", f"{slug} was not read yet: `holdfast repos status {slug}`"))
        return found

    def _model(self, tx: Tx, workspace: Workspace, endpoint: str, wrong: list[FieldError]) -> str:
        try:
            found = self._endpoints.find(tx, workspace.project_id, endpoint)
        except NotFound:
            wrong.append(FieldError("endpoint", f"the project has no endpoint {endpoint[:80]!r} any more"))
            return ""
        first = min(found.upstreams, key=lambda each: each.priority, default=None)
        return EMBEDDED_MODEL if first is None else first.model


def granted_values(env: Mapping[str, str], resolved: Mapping[str, str]) -> list[tuple[str, str]]:
    """The secrets among an environment, by name and value."""
    named = ((referred(value), resolved.get(name)) for name, value in env.items())
    return [(name, value) for name, value in named if name is not None and value is not None]


def acting(principal: Principal, workspace: Workspace, agent: AgentDefinition) -> Principal:
    """Whom an agent acts as: itself in this workspace, with nothing that who started it does not hold."""
    return Principal(
        organization_id=workspace.organization_id,
        actor=agent.id,
        proof="key",
        is_person=False,
        scopes=principal.scopes & {"inference", "read"},
        tier=principal.tier,
        project_id=workspace.project_id,
        workspace_ids=frozenset({workspace.id}),
        allow_destructive=principal.allow_destructive,
        name=agent.name,
    )


def told(problem: HoldfastError) -> dict[str, object]:
    """An error as a session keeps it."""
    error: dict[str, object] = {"code": problem.code, "message": problem.message[:2_000]}
    if problem.fields:
        error["fields"] = [{"field": each.field, "message": each.message} for each in problem.fields]
    return error
