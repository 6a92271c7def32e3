"""Owns the rules of agents: who defines them, what a definition needs to exist, and what is recorded of changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid, NotFound
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.features.agents.definitions import store
from holdfast.features.agents.definitions.checks import definition_problems, tidied, ungranted
from holdfast.features.agents.definitions.model import (
    AgentBusy,
    AgentDefinition,
    AgentExists,
    AgentNotFound,
    NewAgent,
    SecretGrant,
)
from holdfast.features.agents.sessions import store as session_store
from holdfast.features.audit.service import Audit
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.repositories import store as repository_store
from holdfast.features.secrets.references import referred
from holdfast.features.secrets.service import Secrets
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

TOPIC = "agent"


class AgentDefinitions:
    """The agents of each workspace. Its people define them; each change is a version of its own."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        endpoints: Endpoints,
        secrets: Secrets,
        events: EventBus,
        clock: Clock,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._endpoints = endpoints
        self._secrets = secrets
        self._events = events
        self._clock = clock

    async def list(self, principal: Principal, workspace_id: str) -> Sequence[AgentDefinition]:
        """The workspace's agents, by slug."""

        def work(tx: Tx) -> Sequence[AgentDefinition]:
            return store.all_in(tx, self._workspaces.check(tx, principal, workspace_id).id)

        return await self._database.read(work)

    async def get(self, principal: Principal, workspace_id: str | None, agent_id: str) -> AgentDefinition:
        """One agent: by its id, or in a workspace also by its slug."""
        return await self._database.read(lambda tx: self.find(tx, principal, workspace_id, agent_id))

    def find(self, tx: Tx, principal: Principal, workspace_id: str | None, agent_id: str) -> AgentDefinition:
        """The same, within a transaction."""
        if workspace_id is not None:
            found = store.find(tx, self._workspaces.check(tx, principal, workspace_id).id, agent_id)
        else:
            found = store.by_id(tx, agent_id)
            if found is not None:
                self._check_seen(tx, principal, found)
        if found is None:
            raise AgentNotFound(agent_id)
        return found

    async def versions(self, principal: Principal, workspace_id: str, agent_id: str) -> Sequence[Mapping[str, Any]]:
        """What it was, the newest first: at most 500."""

        def work(tx: Tx) -> Sequence[Mapping[str, Any]]:
            return store.versions(tx, self.find(tx, principal, workspace_id, agent_id).id)

        return await self._database.read(work)

    async def create(self, principal: Principal, workspace_id: str, new: NewAgent) -> AgentDefinition:
        """Define an agent; Invalid names every field that is wrong."""

        def work(tx: Tx) -> AgentDefinition:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            wanted = self._checked(tx, workspace, new, granted=frozenset())
            now = self._clock.now()
            made = AgentDefinition(
                id=new_id("agt"),
                workspace_id=workspace.id,
                slug=wanted.slug or "",
                version=1,
                spec=wanted,
                created_at=now,
                updated_at=now,
                updated_by=principal.actor,
            )
            if not store.insert(tx, made):
                raise AgentExists(made.slug)
            self.record(tx, principal, "agent.created", made, {"fields": sorted(_said(wanted))})
            return made

        return await self._database.write(work)

    async def change(self, principal: Principal, workspace_id: str, agent_id: str, new: NewAgent) -> AgentDefinition:
        """Say anew what an agent is; sessions that run go on as they began."""

        def work(tx: Tx) -> AgentDefinition:
            found = self.find(tx, principal, workspace_id, agent_id)
            workspace = self._workspaces.check(tx, principal, found.workspace_id)
            granted = frozenset(each.name for each in found.secrets)
            wanted = self._checked(tx, workspace, replace(new, slug=new.slug or found.slug), granted=granted)
            other = store.find(tx, found.workspace_id, wanted.slug or "")
            if other is not None and other.id != found.id:
                raise AgentExists(other.slug)
            before, after = _said(found.spec), _said(wanted)
            changed = sorted(name for name in after if after[name] != before.get(name))
            return self.advance(
                tx, principal, "agent.updated", replace(found, slug=wanted.slug or "", spec=wanted), {"fields": changed}
            )

        return await self._database.write(work)

    async def remove(self, principal: Principal, workspace_id: str, agent_id: str) -> None:
        """Forget an agent; what its sessions did is kept."""

        def work(tx: Tx) -> None:
            found = self.find(tx, principal, workspace_id, agent_id)
            if session_store.unfinished_of(tx, found.id):
                raise AgentBusy(f"The agent {found.slug} has sessions that run; stop them first.")
            store.delete(tx, found.id)
            self.record(tx, principal, "agent.removed", found, {})

        await self._database.write(work)

    async def grant_secret(self, principal: Principal, agent_id: str, name: str) -> AgentDefinition:
        """Let an agent's own process have a secret's value: an admin's decision, for the agent can then tell it."""

        def work(tx: Tx) -> AgentDefinition:
            found = self._administered(tx, principal, agent_id)
            # No places: the agent's process reaches none by itself.
            self._secrets.use(tx, principal, found.workspace_id, name, (), field="name")
            grant = SecretGrant(name, self._clock.now(), principal.actor)
            if store.grant_secret(tx, found.id, grant):
                self.record(tx, principal, "agent.secret.granted", found, {"name": name})
            return self.find(tx, principal, None, found.id)

        return await self._database.write(work)

    async def take_secret(self, principal: Principal, agent_id: str, name: str) -> AgentDefinition:
        """End that; from its next session on it does not start while its environment still refers to it."""

        def work(tx: Tx) -> AgentDefinition:
            found = self._administered(tx, principal, agent_id)
            if not store.take_secret(tx, found.id, name):
                raise NotFound("granted secret", name[:80])
            self.record(tx, principal, "agent.secret.taken", found, {"name": name})
            return self.find(tx, principal, None, found.id)

        return await self._database.write(work)

    def advance(
        self, tx: Tx, principal: Principal, action: str | None, new: AgentDefinition, detail: Mapping[str, object]
    ) -> AgentDefinition:
        """Keep the next version of an agent and tell about it; without an action somebody else records it."""
        kept = replace(new, version=new.version + 1, updated_at=self._clock.now(), updated_by=principal.actor)
        if not store.update(tx, kept):
            raise Conflict("Somebody changed the agent in between; read it again.", code="version_conflict")
        if action is not None:
            self.record(tx, principal, action, kept, detail)
        return kept

    def record(
        self, tx: Tx, principal: Principal, action: str, agent: AgentDefinition, detail: Mapping[str, object]
    ) -> None:
        """Tell the audit log and whoever follows."""
        self._audit.record(
            tx,
            principal,
            action,
            resource="agent",
            resource_id=agent.id,
            workspace_id=agent.workspace_id,
            detail={"slug": agent.slug, "version": agent.version, **detail},
        )
        payload = {"id": agent.id, "slug": agent.slug, "version": agent.version}
        self._events.publish(tx, f"{TOPIC}.{action.rpartition('.')[2]}", payload, workspace_id=agent.workspace_id)

    def _check_seen(self, tx: Tx, principal: Principal, agent: AgentDefinition) -> None:
        try:
            self._workspaces.check(tx, principal, agent.workspace_id)
        except NotFound:
            # Somebody else's answers like one that is not there.
            raise AgentNotFound(agent.id) from None

    def is_admin(self, tx: Tx, principal: Principal, workspace_id: str) -> bool:
        """Whether they administer the workspace."""
        try:
            self._workspaces.administered(tx, principal, workspace_id)
        except Forbidden:
            return False
        return True

    def _administered(self, tx: Tx, principal: Principal, agent_id: str) -> AgentDefinition:
        found = self.find(tx, principal, None, agent_id)
        self._workspaces.administered(tx, principal, found.workspace_id)
        return found

    def _checked(self, tx: Tx, workspace: Workspace, new: NewAgent, *, granted: frozenset[str]) -> NewAgent:
        wanted = tidied(new)
        wrong = definition_problems(wanted)
        if not any(each.field.startswith("env.") for each in wrong):
            wrong += ungranted(wanted.env, granted)
            wrong += [
                FieldError(f"env.{name}", f"the secret {secret} has no value; set it with `holdfast secrets set`")
                for name, value in wanted.env.items()
                if (secret := referred(value)) is not None
                and secret in granted
                and not self._secrets.is_set(tx, workspace.id, secret)
            ]
        try:
            self._endpoints.find(tx, workspace.project_id, wanted.endpoint)
        except NotFound:
            problem = f"the project has no endpoint {wanted.endpoint[:80]!r}: `holdfast endpoints list`"
            wrong.append(FieldError("endpoint", problem))
        if wanted.repository is not None and repository_store.find_in(tx, workspace.id, wanted.repository) is None:
            problem = f"the workspace has no repository {wanted.repository[:80]!r}: `holdfast repos list`"
            wrong.append(FieldError("repository", problem))
        if wrong:
            raise Invalid("The agent cannot be defined like this.", fields=wrong)
        return wanted


def _said(spec: NewAgent) -> dict[str, object]:
    """The fields of a definition, each variable of its environment for itself; values are never told."""
    plain = {name: getattr(spec, name) for name in NewAgent.__dataclass_fields__ if name != "env"}
    return {**plain, **{f"env.{name}": value for name, value in spec.env.items()}}
