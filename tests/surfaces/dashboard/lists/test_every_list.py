"""Every list of the dashboard goes on page by page to its last row."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from html import unescape

import pytest

from holdfast.features.artifacts.model import ArtifactReference, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.cases.model import NewCase
from holdfast.features.cases.service import CaseService
from holdfast.features.catalog.model import NewEntry
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.clients.model import NewClient
from holdfast.features.clients.service import Clients
from holdfast.features.execution.model import InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.features.identity.model import NewKey
from holdfast.features.intelligence.model import NewDecision, NewMilestone
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.features.secrets.service import Secrets
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.execution.counting import pinned
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow
ROWS = 210
"""More than any page shows at once."""


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


Made = Callable[[TestServer], Awaitable[str]]
"""Fills a list, and gives the pattern that each of its rows has once."""


async def _keys(server: TestServer) -> str:
    for at in range(ROWS):
        await server.services.keys.create(server.owner, NewKey(name=f"row-{at}", project_id=server.start.project_id))
    return r"<strong>(row-\d+)</strong>"


async def _people(server: TestServer) -> str:
    for at in range(ROWS):
        await server.services.identity.create_user(server.owner, email=f"row-{at}@example.com", name=f"row-{at}")
    return r"<strong>(row-\d+)</strong>"


async def _invitations(server: TestServer) -> str:
    async with await server.browser(server.start.owner_id) as owner:
        for at in range(ROWS):
            form = {"email": f"row-{at}@example.com", "name": "", "role": "member"}
            assert (await owner.post("/settings/people", data=form)).status_code == 200
    return r"<strong>(row-\d+)@example.com</strong>"


async def _clients(server: TestServer) -> str:
    for at in range(ROWS):
        seen = NewClient(f"row-{at}", "1", "2025-06-18", "", {})
        await server.services[Clients].see(server.owner, seen)
    return r"(row-\d+)\s+<br>"


async def _memories(server: TestServer) -> str:
    for at in range(ROWS):
        new = NewMemory(f"Service {at} listens on port {at + 1000}.", title=f"row-{at}")
        await server.services[MemoryService].save(server.owner, server.start.workspace_id, new)
    return r'class="title"[^>]*>\s*(row-\d+)'


async def _artifacts(server: TestServer) -> str:
    for at in range(ROWS):
        new = NewArtifact(identifier=f"row-{at}", title=f"row-{at}", type="text/plain", content="x")
        await server.services[ArtifactService].create(server.owner, server.start.workspace_id, new)
    return r'class="title"[^>]*>\s*(row-\d+)'


async def _decisions(server: TestServer) -> str:
    for at in range(ROWS):
        decisions = server.services[IntelligenceService].decisions
        await decisions.track(server.owner, server.start.workspace_id, NewDecision(f"row-{at}", "Since."))
    return r'class="title"[^>]*>\s*(row-\d+)'


async def _milestones(server: TestServer) -> str:
    for at in range(ROWS):
        milestones = server.services[IntelligenceService].milestones
        await milestones.track(server.owner, server.start.workspace_id, NewMilestone(f"row-{at}"))
    return r"[>\s](row-\d+)<"


async def _cases(server: TestServer) -> str:
    for at in range(ROWS):
        await server.services[CaseService].add(server.owner, server.start.workspace_id, NewCase(title=f"row-{at}"))
    return r'class="title"[^>]*>(row-\d+)'


async def _secrets(server: TestServer) -> str:
    for at in range(ROWS):
        await server.services[Secrets].set(server.owner, server.start.workspace_id, f"ROW_{at}", "a value")
    return r"<code>(ROW_\d+)</code>"


async def _servers(server: TestServer) -> str:
    for at in range(ROWS):
        far = NewEntry(name=f"row-{at}", shape="remote", url="https://mcp.example.com/mcp")
        await server.services[ServerCatalog].register(server.owner, server.start.workspace_id, far)
    return r'class="title"[^>]*>(row-\d+)'


async def _grants(server: TestServer) -> str:
    async with await server.browser(server.start.owner_id) as owner:
        for at in range(ROWS):
            whom = {"subject_type": "user", "subject_id": server.start.owner_id, "scope": "persistent"}
            given = await owner.post(
                "/w/default/settings/grants", data={**whom, "what": "tool", "name": f"far.row-{at}"}
            )
            assert given.status_code == 303, given.text
    return r"<code>far\.(row-\d+)</code>"


async def _calls(server: TestServer) -> str:
    services, workspace = server.services, server.start.workspace_id
    await pinned(services, server.owner, workspace)
    for at in range(ROWS):
        request = InvocationRequest(
            principal=server.owner,
            workspace_id=workspace,
            tool_name="demo.count",
            arguments={"name": f"row-{at}"},
            source="cli",
        )
        await services[Execution].invoke(request)
    return ""


async def _approvals(server: TestServer) -> str:
    await _calls(server)
    return r'href="/approve/([^"]+)"'


async def _invocations(server: TestServer) -> str:
    await _calls(server)
    return r'href="/w/default/invocations/(inv_[^"]+)"'


async def _chats(server: TestServer) -> str:
    def work_of(at: int) -> dict[str, object]:
        return {"id": f"row-{at}", "ws": server.start.workspace_id, "at": at + 1}

    sql = (
        "INSERT INTO chat (workspace_id, id, title, endpoint, created_by, created_by_name, created_at, updated_at) "
        "VALUES (:ws, :id, :id, 'default', 'usr_x', 'X', :at, :at)"
    )
    await server.services.database.write(lambda tx: [tx.execute(sql, work_of(at)) for at in range(ROWS)] and None)
    return r'<a class="title" href="/chat/default/(row-\d+)"'


LISTS: Mapping[str, Made] = {
    "/settings/keys": _keys,
    "/settings/people": _people,
    "/settings/people?": _invitations,
    "/settings/clients": _clients,
    "/w/default/settings/members": _people,
    "/w/default/settings/secrets": _secrets,
    "/w/default/settings/mcp-servers": _servers,
    "/w/default/settings/grants": _grants,
    "/w/default/memory": _memories,
    "/w/default/artifacts": _artifacts,
    "/w/default/decisions": _decisions,
    "/w/default/timeline": _milestones,
    "/w/default/cases": _cases,
    "/w/default/cases?state=ready": _cases,
    "/w/default/invocations": _invocations,
    "/approvals": _approvals,
    "/chat": _chats,
    "/w/default/chats": _chats,
}


async def _walked(server: TestServer, path: str, row: str) -> tuple[list[str], int]:
    """Every row of a list, read on as a browser does, and how many pages that were."""
    found: list[str] = []
    async with await server.browser(server.start.owner_id) as owner:
        url: str | None = path
        pages = 0
        while url is not None:
            headers = {} if pages == 0 and not path.endswith("/chats") else {"HX-Request": "true"}
            answer = await owner.get(url, headers=headers)
            assert answer.status_code == 200, url
            found += re.findall(row, answer.text)
            pages += 1
            places = re.findall(r'<(?:p|li) class="more">\s*<a href="[^"]+" hx-get="([^"]+)"', answer.text)
            assert len(places) <= 1, places
            url = unescape(places[0]) if places else None
    return found, pages


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_goes_on_to_its_last_row(server: TestServer, path: str) -> None:
    row = await LISTS[path](server)
    found, pages = await _walked(server, path, row)
    assert (len(found), len(set(found))) == (ROWS, ROWS)
    assert pages > 1


async def test_the_versions_of_an_artifact_go_on_to_the_first(server: TestServer) -> None:
    artifacts, workspace = server.services[ArtifactService], server.start.workspace_id
    new = NewArtifact(identifier="much", title="Much", type="text/plain", content="0")
    made = await artifacts.create(server.owner, workspace, new)
    for at in range(1, ROWS):
        await artifacts.update(server.owner, workspace, ArtifactReference(made.id), str(at))
    path = f"/w/default/artifacts/{made.id}"
    found, pages = await _walked(server, path, r'class="title" href="[^"]+\?version=(\d+)"')
    assert [int(each) for each in found] == list(range(ROWS, 0, -1)) and pages > 1
    async with await server.browser(server.start.owner_id) as owner:
        # Any two can be compared, also those that are not listed yet.
        page = (await owner.get(path)).text
        assert f'<input type="number" name="to" min="1" max="{ROWS}" value="{ROWS}"' in page
        compared = await owner.get(f"{path}/compare?from=1&to={ROWS}", follow_redirects=True)
        assert f"Version 1 to {ROWS}" in compared.text
