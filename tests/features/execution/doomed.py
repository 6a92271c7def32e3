"""A process that calls tools until it is killed: `python -m tests.features.execution.doomed STORE ADDRESS FOLDER`.

Each run of the tool leaves a line in `runs`, each acknowledged invocation one in `acknowledged`.
"""

import asyncio
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.principal import SCOPES, Principal
from holdfast.core.settings import Settings
from holdfast.engines.mcp_client.base import CallResult, TellProgress
from holdfast.features.execution.approvals.service import ApprovalDecision, Approvals
from holdfast.features.execution.model import InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.fakes.mcp.inside import InsideServer, InsideServers
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, background, build_services
from tests.support.stores.doomed import open_store


class NotingServer(InsideServer):
    """Leaves a line for each run before and after a moment of work."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: TellProgress | None = None
    ) -> CallResult:
        append(self._folder / "runs", str(arguments.get("name", "")))
        await asyncio.sleep(random.random() * 0.03)
        return CallResult(({"type": "text", "text": "done"},), None, False)


def append(file: Path, line: str) -> None:
    with file.open("a") as lines:
        lines.write(line + "\n")


def services_on(database: Database, folder: Path) -> Services:
    """The product's services with a server that notes its runs."""
    inside = InsideServers()
    inside.server = NotingServer(folder)
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    return build_services(settings, database, SystemClock(), WordEmbedder(), instead=inside.instead())


async def caller(services: Services, folder: Path, organization: str, workspace: str, person: str, name: str) -> None:
    """Ask for calls without end: those that run at once, and those that a person lets run a moment later."""
    owner = local_principal(organization)
    admin = Principal(organization, person, "session", True, frozenset(SCOPES), role="owner", name="Ada")
    number = 0
    while True:
        number += 1
        tool = "demo.count" if number % 2 else "demo.slow"
        request = InvocationRequest(
            principal=owner,
            workspace_id=workspace,
            tool_name=tool,
            arguments={"name": f"{name}-{number}"},
            source="cli",
        )
        asked = (await services[Execution].invoke(request)).invocation
        append(folder / "acknowledged", asked.id)
        if asked.approval is not None:
            await asyncio.sleep(0.01)
            await services[Approvals].decide(admin, asked.approval.id, ApprovalDecision(True), "api")
        await asyncio.sleep(0.01)


async def main() -> None:
    store, address, where, organization, workspace, person, name = sys.argv[1:]
    folder = Path(where)
    services = services_on(open_store(store, address), folder)
    async with background(services), asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(caller(services, folder, organization, workspace, person, f"{name}-{number}"))


if __name__ == "__main__":
    asyncio.run(main())
