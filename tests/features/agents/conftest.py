"""Owns what tests of the gate share: services with a real server enrolled, sockets in a directory, and clients."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp.client.client import Client

from holdfast.core.principal import SCOPES, Principal
from holdfast.core.settings import Settings
from holdfast.features.agents.definitions.model import NewAgent
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.gate.base import FrozenAttachment, GatedSession, OpenGate
from holdfast.features.agents.gate.building import session_gates
from holdfast.features.agents.gate.gates import Gates
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.fakes.mcp.inside import InsideServer, InsideServers
from tests.support.agents.gated import SessionsInMemory, attached, gated
from tests.support.clock import MovableClock
from tests.support.execution.counting import enrolled
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, background, build_services, first_start

_T = TypeVar("_T")


@dataclass
class GateHouse:
    """Services, a gate over them, and what stands in for sessions."""

    services: Services
    gates: Gates
    sessions: SessionsInMemory
    owner: Principal
    person: Principal
    """A signed-in person who may grant."""
    workspace: str
    agent_id: str
    directory: Path
    server: InsideServer | None = None
    worktree: Path = field(init=False)

    def __post_init__(self) -> None:
        self.worktree = self.directory / "work"
        self.worktree.mkdir()

    async def attached(self, name: str = "demo", **env: str) -> FrozenAttachment:
        return await attached(self.services, self.owner, self.workspace, name, **env)

    def session(self, *attachments: FrozenAttachment, **more: Any) -> GatedSession:
        more = {"agent_id": self.agent_id, **more}
        return gated(self.owner, self.workspace, self.worktree, *attachments, **more)

    def place(self, session: GatedSession) -> Path:
        return self.directory / session.id

    def socket(self, session: GatedSession, name: str) -> Path:
        return self.place(session) / "mcp" / f"{name}.sock"

    @asynccontextmanager
    async def open(self, session: GatedSession) -> AsyncIterator[OpenGate]:
        async with self.gates.open(session, self.place(session)) as opened:
            yield opened


class Agent:
    """An agent with nothing but its client."""

    def __init__(self, house: GateHouse, session: GatedSession, client: Client) -> None:
        self.house = house
        self.session = session
        self.client = client

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What a tool gave."""
        result = await self.client.call_tool(tool, {key.rstrip("_"): value for key, value in arguments.items()})
        assert not result.is_error, result.content
        assert result.structured_content is not None
        return dict(result.structured_content)

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """Why a tool gave nothing."""
        result = await self.client.call_tool(tool, {key.rstrip("_"): value for key, value in arguments.items()})
        assert result.is_error
        return "\n".join(str(getattr(block, "text", "")) for block in result.content)

    def told(self, kind: str) -> list[Any]:
        """What the session told of one kind."""
        return [data for id, each, data in self.house.sessions.events if (id, each) == (self.session.id, kind)]

    async def answered(self, call: Awaitable[_T], answer: Any) -> _T:
        """What a call gives once a person answers the question that it asks."""
        task = asyncio.ensure_future(call)
        question = await self.house.sessions.question()
        assert not task.done()
        self.house.sessions.answer(question["request_id"], answer)
        return await task


async def gate_house(
    stack: AsyncExitStack, database: Database, clock: MovableClock, directory: Path, **instead: Any
) -> GateHouse:
    """A gate house on a database."""
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY, **instead.pop("settings", {}))
    services = build_services(settings, database, clock, WordEmbedder(), **instead)
    await stack.enter_async_context(background(services))
    start = await first_start(services)
    owner = local_principal(start.organization_id)
    user = await services.identity.create_user(owner, email="admin@example.com", name="Ada", role="admin")
    person = Principal(start.organization_id, user.id, "session", True, frozenset(SCOPES), role="admin", name="Ada")
    sessions = SessionsInMemory()
    gates = session_gates(services, lambda: sessions)
    agent = await services[AgentDefinitions].create(owner, start.workspace_id, NewAgent(name="Tester"))
    return GateHouse(services, gates, sessions, owner, person, start.workspace_id, agent.id, directory)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, because a client names a socket by its whole path."""
    made = Path(tempfile.mkdtemp(prefix="hf-gate-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
async def house(database: Database, clock: MovableClock, directory: Path) -> AsyncIterator[GateHouse]:
    """With the counting server inside this process, enrolled as `demo`."""
    inside = InsideServers()
    async with AsyncExitStack() as stack:
        made = await gate_house(stack, database, clock, directory, instead=inside.instead())
        await enrolled(made.services, made.owner, made.workspace)
        made.server = inside.server
        yield made
