"""Proves that a workspace can be followed live: whose events come, for how long, and where a broken stream goes on."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.model import NewKey
from holdfast.storage.database import Database, Tx
from holdfast.surfaces.http import operations as http_operations
from holdfast.surfaces.rest import events
from tests.conftest import OpenDatabase
from tests.support.code.git import GitRepo
from tests.support.following import following
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(database: Database, tmp_path: Path) -> AsyncIterator[TestServer]:
    """A server on each store, whose operator lets repositories of one directory be added."""
    async with serving(database, data_dir=tmp_path / "data", repository_paths=(str(tmp_path / "code"),)) as running:
        yield running


async def happen(server: TestServer, *topics: str, workspace_id: str | None = None, **facts: Any) -> None:
    """Publish events in one transaction."""
    within = workspace_id or server.start.workspace_id

    def work(tx: Tx) -> None:
        for topic in topics:
            server.services.events.publish(tx, topic, facts, workspace_id=within)

    await server.services.database.write(work)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def open_streams(server: TestServer) -> int:
    # What a server follows by itself, it follows everywhere.
    return sum(each._workspace_ids is not None for each in server.services.events._subscriptions)


@pytest.mark.contract("KS-2")
async def test_the_reading_of_a_repository_is_followed(server: TestServer, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "code" / "shop")
    repo.commit("Begin the shop", {"README.md": "# Shop\n\nSells giraffes.\n"})
    workspace = server.start.workspace_id
    async with server.client() as client, following(client, workspace, "repository.*,job.succeeded") as stream:
        added = await client.post(f"/api/workspaces/{workspace}/repositories", json={"location": str(repo.path)})
        assert added.status_code == 201, added.text
        seen = await stream.until("job.succeeded")
    topics = [event["topic"] for event in seen]
    assert {"repository.add", "repository.queued", "repository.syncing", "repository.synced"} <= set(topics)
    assert topics.index("repository.queued") < topics.index("repository.syncing") < topics.index("repository.synced")
    assert {topic.partition(".")[0] for topic in topics} == {"repository", "job"}
    synced = seen[topics.index("repository.synced")]
    assert (synced["payload"]["slug"], synced["payload"]["head"]) == ("shop", repo.head)
    assert seen[-1]["payload"]["id"] == added.json()["job_id"] and synced["at"].endswith("Z")


async def test_only_the_workspaces_own_events_come(server: TestServer) -> None:
    sibling = await server.services.workspaces.create(server.owner, server.start.project_id, "Sibling")
    other = await server.another_tenant()
    async with server.client() as client, following(client, server.start.workspace_id) as stream:
        for workspace_id in (sibling.id, other.workspace_id):
            await happen(server, "memory.changed", workspace_id=workspace_id)
        # What is no event of a workspace's contents stays inside, whatever is asked for.
        await happen(server, "internal.secret")
        await happen(server, "memory.changed", id="mem_1")
        assert (await stream.next())["payload"] == {"id": "mem_1"}


@pytest.mark.parametrize(
    "topics", ["", "job", "*", "job.*,", "secrets.*", "job.**", "Job.queued", "job.que\nued", "job.*,nobody.x"]
)
async def test_topics_that_can_never_come_are_refused(sqlite_server: TestServer, topics: str) -> None:
    path = f"/api/workspaces/{sqlite_server.start.workspace_id}/events"
    async with sqlite_server.client() as client:
        answer = await client.get(path, params={"topics": topics})
    assert answer.status_code == 422 and answer.json()["error"]["fields"][0]["field"] == "topics"


async def test_who_may_not_read_may_not_follow(sqlite_server: TestServer) -> None:
    manager = await sqlite_server.mint("management", name="manager")
    path = f"/api/workspaces/{sqlite_server.start.workspace_id}/events"
    async with sqlite_server.client(manager.secret) as client, sqlite_server.client() as own:
        assert (await client.get(path)).status_code == 403
        wrong = await own.get(path, headers={"Last-Event-ID": "yesterday"})
        document = (await own.get("/api/openapi.json")).json()
    assert wrong.status_code == 422 and wrong.json()["error"]["fields"][0]["field"] == "Last-Event-ID"
    described = document["paths"]["/api/workspaces/{workspace_id}/events"]["get"]
    assert described["responses"]["200"]["content"] == {"text/event-stream": {}}
    assert [each["name"] for each in described["parameters"]] == ["workspace_id", "topics"]


async def test_a_broken_stream_goes_on_where_it_was(server: TestServer) -> None:
    workspace = server.start.workspace_id
    async with server.client() as client:
        async with following(client, workspace, "memory.*") as stream:
            await happen(server, "memory.changed", n=1)
            assert (await stream.next())["payload"] == {"n": 1}
            place = stream.last_id
        await happen(server, "memory.changed", "document.ready", n=2)
        await happen(server, "memory.changed", n=3)
        async with following(client, workspace, "memory.*", after=place) as stream:
            assert [(await stream.next())["payload"]["n"] for _ in range(2)] == [2, 3]
            await happen(server, "memory.changed", n=4)
            assert (await stream.next())["payload"] == {"n": 4}
        async with following(client, workspace, "memory.*", after="999999999") as stream:
            assert (await stream.next())["topic"] == "stream.gap"
            await happen(server, "memory.changed", n=5)
            assert (await stream.next())["payload"] == {"n": 5}


async def test_a_stream_that_heard_nothing_goes_on_from_its_beginning(sqlite_server: TestServer) -> None:
    server, workspace = sqlite_server, sqlite_server.start.workspace_id
    await happen(server, "memory.changed", n=1)
    async with server.client() as client:
        async with following(client, workspace) as quiet:
            await quiet.begin()
        await happen(server, "memory.changed", n=2)
        async with following(client, workspace, after=quiet.last_id) as stream:
            assert (await stream.next())["payload"] == {"n": 2}


async def test_what_happens_on_one_server_is_followed_on_another(
    database: Database, open_database: OpenDatabase
) -> None:
    second = open_database()
    try:
        async with serving(database) as here, serving(second) as there:
            await asyncio.gather(here.services.events.ready(), there.services.events.ready())
            workspace = here.start.workspace_id
            async with there.client(here.key) as client:
                async with following(client, workspace, "memory.*") as stream:
                    await happen(here, "memory.changed", n=1)
                    await happen(there, "memory.changed", n=2)
                    assert sorted([(await stream.next())["payload"]["n"] for _ in range(2)]) == [1, 2]
                    place = stream.last_id
                await happen(there, "memory.changed", n=3)
            async with here.client(here.key) as client, following(client, workspace, after=place) as stream:
                while (await stream.next())["payload"] != {"n": 3}:
                    pass
    finally:
        await second.close()


async def test_a_stream_ends_when_its_key_or_workspace_goes(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RECHECK_SECONDS", 0.1)
    brief = await server.mint("read", name="brief")
    passing = await server.services.workspaces.create(server.owner, server.start.project_id, "Passing")
    async with (
        server.client(brief.secret) as reader,
        server.client() as client,
        following(reader, server.start.workspace_id) as revoked,
        following(client, passing.id) as removed,
        following(client, server.start.workspace_id) as staying,
    ):
        await server.services.keys.revoke(server.owner, brief.key.id)
        await server.services.workspaces.delete(server.owner, passing.id)
        ends = [(await stream.rest())[-1] for stream in (revoked, removed)]
        await happen(server, "memory.changed")
        await staying.until("memory.changed")
    assert [(end["topic"], end["payload"]["reason"]) for end in ends] == [
        ("stream.end", "unauthenticated"),
        ("stream.end", "not_found"),
    ]


async def test_one_stream_tells_of_every_workspace_that_one_sees(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RECHECK_SECONDS", 0.1)
    workspaces, project, first = server.services.workspaces, server.start.project_id, server.start.workspace_id
    sibling = await workspaces.create(server.owner, project, "Sibling")
    other = await server.another_tenant()
    confined = await server.mint("read", name="confined", workspace_ids=frozenset({first}))
    async with (
        server.client() as client,
        server.client(confined.secret) as narrow,
        following(client, None, "memory.*") as stream,
        following(narrow, None, "memory.*") as of_one,
    ):
        for workspace_id in (other.workspace_id, sibling.id, first):
            await happen(server, "memory.changed", workspace_id=workspace_id)
        assert [(await stream.next())["workspace_id"] for _ in range(2)] == [sibling.id, first]
        assert (await of_one.next())["workspace_id"] == first
        # Workspaces come and go while the stream is open.
        made = await workspaces.create(server.owner, project, "Made meanwhile")
        told = asyncio.ensure_future(stream.next())
        async with asyncio.timeout(60):
            while not told.done():
                await happen(server, "memory.changed", workspace_id=made.id)
                await asyncio.wait([told], timeout=0.05)
        assert (await told)["workspace_id"] == made.id


async def test_what_concerns_the_organization_is_told_to_who_may_see_it(server: TestServer) -> None:
    other = await server.another_tenant()
    managing = NewKey(name="managing", kind="organization", scopes=frozenset({"management", "read"}), tier="all")
    key = await server.services.keys.create(server.owner, managing)
    foreign = await server.mint(owner=other.owner, project_id=other.project_id)
    async with (
        server.client(key.secret) as client,
        server.client(foreign.secret) as stranger,
        following(client, None, "audit.*,endpoint.*,usage.*") as stream,
        following(stranger, None, "memory.*,endpoint.*") as elsewhere,
    ):
        await stream.begin()
        place = stream.last_id
        await server.mint("read", name="a new key")
        await stream.until("audit.key")
        upstream = EndpointUpstream(base_url="https://api.example.com/v1", model="large")
        await server.services[Endpoints].create(server.owner, server.start.project_id, "large", [upstream])
        told = (await stream.until("endpoint.changed"))[-1]
        assert told["payload"] == {} and "workspace_id" not in told
        await happen(server, "memory.changed", workspace_id=other.workspace_id)
        assert (await elsewhere.next())["topic"] == "memory.changed"
    # What was missed comes from the store.
    async with server.client(key.secret) as client, following(client, None, "endpoint.*", after=place) as stream:
        assert (await stream.next())["topic"] == "endpoint.changed"


async def test_who_reads_too_slowly_is_told_and_can_go_on(
    sqlite_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, workspace = sqlite_server, sqlite_server.start.workspace_id
    async with server.client() as client:
        with monkeypatch.context() as patch:
            patch.setattr(events, "MAX_WAITING", 0)
            async with following(client, workspace, "memory.*") as stream:
                await happen(server, "memory.changed", "memory.changed")
                told = await stream.rest()
                place = stream.last_id
        assert [(event["topic"], event["payload"]["reason"]) for event in told] == [("stream.end", "too_slow")]
        async with following(client, workspace, "memory.*", after=place) as stream:
            assert len([await stream.until("memory.changed") for _ in range(2)]) == 2


async def test_who_does_not_read_at_all_is_let_go(sqlite_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server = sqlite_server
    monkeypatch.setattr(http_operations, "SLOW_READER_SECONDS", 0.2)
    monkeypatch.setattr(events, "MAX_WAITING", 100_000)
    where = urlsplit(server.url)
    request = (
        f"GET /api/workspaces/{server.start.workspace_id}/events HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Authorization: Bearer {server.key}\r\n\r\n"
    )
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_connect(deaf, (where.hostname, where.port))
        await asyncio.get_running_loop().sock_sendall(deaf, request.encode())
        await until(lambda: open_streams(server) == 1)
        # More than the kernel keeps for anybody.
        for _ in range(6):
            await happen(server, *["memory.changed"] * 1_000, text="x" * 3_500)
        await until(lambda: open_streams(server) == 0)


@pytest.mark.one_process("its limit is lowered in one process")
async def test_hanging_up_frees_the_stream_and_a_key_has_so_many(
    sqlite_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, workspace = sqlite_server, sqlite_server.start.workspace_id
    monkeypatch.setattr(events, "MAX_STREAMS_EACH", 2)
    another = await server.mint("read", name="another")
    path = f"/api/workspaces/{workspace}/events"
    async with server.client() as client, server.client(another.secret) as neighbour:
        async with AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(following(client, workspace))
            refused = await client.get(path)
            await stack.enter_async_context(following(neighbour, workspace))
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_streams")
            assert refused.headers["retry-after"] and open_streams(server) == 3
        await until(lambda: open_streams(server) == 0)
        async with following(client, workspace):
            assert open_streams(server) == 1


@pytest.mark.slow
async def test_a_stream_outlives_the_time_of_a_request_and_counts_once(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PING_SECONDS", 0.1)
    monkeypatch.setattr(events, "RECHECK_SECONDS", 0.05)
    async with serving(sqlite_database, request_timeout_seconds=2.0, requests_per_minute=6) as server:
        async with server.client() as client, following(client, server.start.workspace_id) as stream:
            waiting = asyncio.ensure_future(stream.next())
            await until(lambda: stream.comments.count("ping") >= 25)
            await happen(server, "memory.changed", n=1)
            assert (await waiting)["payload"] == {"n": 1}
            assert stream.comments[0] == "following"
            me = await client.get("/api/me")
        # Two requests were made, however often the stream was looked at again.
        assert me.status_code == 200 and int(me.headers["x-ratelimit-remaining"]) >= 4
