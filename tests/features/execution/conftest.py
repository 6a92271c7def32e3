"""Owns what tests of governed execution share: services with a server inside, on each store, and people."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.core.principal import SCOPES, Principal, Role
from holdfast.core.settings import Settings
from holdfast.features.catalog.model import Policy, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution.approvals.service import Approvals
from holdfast.features.execution.model import Invocation, InvocationRequest
from holdfast.features.execution.runs.immediate import ImmediateCall, ImmediateCalls
from holdfast.features.execution.service import AskedInvocation, Execution
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import local_principal
from holdfast.features.identity.standing import principal_of
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.fakes.mcp.inside import InsideServer, InsideServers
from tests.support.clock import MovableClock
from tests.support.execution.counting import enrolled
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, background, build_services, first_start

ROLES: tuple[Role, ...] = ("admin", "member")


@dataclass
class Plant:
    """Services with the counting server enrolled as `demo`."""

    services: Services
    server: InsideServer
    clock: MovableClock
    owner: Principal
    workspace: str
    project: str
    key: Principal
    admin: Principal
    """A signed-in person who may approve."""
    member: Principal
    """A signed-in person who may not."""

    @property
    def execution(self) -> Execution:
        return self.services[Execution]

    @property
    def approvals(self) -> Approvals:
        return self.services[Approvals]

    def request(self, tool: str, /, **more: Any) -> InvocationRequest:
        given = more.pop("arguments", {})
        more = {"principal": self.key, "source": "mcp", "session_id": "one", **more}
        return InvocationRequest(workspace_id=self.workspace, tool_name=tool, arguments=given, **more)

    async def invoke(self, tool: str, /, **more: Any) -> AskedInvocation:
        return await self.execution.invoke(self.request(tool, **more))

    async def ask(self, tool: str, /, **more: Any) -> ImmediateCall:
        """The same as callers do it: at once where the server runs already."""
        return await self.services[ImmediateCalls].ask(self.request(tool, **more))

    async def ended(self, invocation: Invocation) -> Invocation:
        return await self.execution.wait(
            self.owner, self.workspace, invocation.id, seconds=30, until=lambda now: now.finished
        )

    async def policy(self, tool: str, policy: Policy, **more: Any) -> None:
        await self.services[ToolPins].set(self.owner, self.workspace, "demo", tool, ToolChange(policy=policy, **more))

    async def new_key(self, **more: Any) -> Principal:
        new = NewKey(name="agent", project_id=self.project, scopes=frozenset(SCOPES), **more)
        return principal_of((await self.services.keys.create(self.owner, new)).key)


@pytest.fixture
async def plant(database: Database, clock: MovableClock) -> AsyncIterator[Plant]:
    inside = InsideServers()
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    services = build_services(settings, database, clock, WordEmbedder(), instead=inside.instead())
    async with background(services):
        start = await first_start(services)
        owner = local_principal(start.organization_id)
        people = [
            await services.identity.create_user(owner, email=f"{role}@example.com", name=role, role=role)
            for role in ROLES
        ]
        admin, member = (
            Principal(start.organization_id, person.id, "session", True, frozenset(SCOPES), role=role, name=role)
            for person, role in zip(people, ROLES, strict=True)
        )
        await enrolled(services, owner, start.workspace_id)
        plant = Plant(services, inside.server, clock, owner, start.workspace_id, start.project_id, owner, admin, member)
        plant.key = await plant.new_key()
        yield plant
