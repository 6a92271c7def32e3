"""`holdfast up --workers 2`: several processes on one store, killed and ended at work, on both stores."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from holdfast.surfaces.rest.events import MAX_STREAMS_EACH
from tests.e2e.test_up import up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STARTS = 15
"""What a machine has time to start so often, it has time for: a kill costs a start or two, under load."""
LEAST_PATIENCE_SECONDS = 60.0
MOST_PATIENCE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Several:
    """A server of several workers."""

    told: dict[str, Any]
    process: "subprocess.Popen[str]"
    patience: float = LEAST_PATIENCE_SECONDS
    """How long to wait for anything, on a machine as busy as it was when the server started."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.told['api_key']}"}

    @property
    def memories(self) -> str:
        return f"{self.told['url']}/api/workspaces/{self.told['workspace_id']}/memories"

    def client(self, **more: Any) -> httpx.AsyncClient:
        """A client whose every request opens a connection, and so reaches the next worker."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.AsyncClient(headers=self.headers, timeout=self.patience, trust_env=False, limits=limits, **more)

    async def until(self, done: Callable[[], Any]) -> None:
        """Wait, not for ever, for what must become true."""
        async with asyncio.timeout(self.patience):
            while True:
                found = done()
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(0.05)

    def children(self, embedding: bool = False) -> list[int]:
        """Its workers; or the process that embeds for them. The dead that are not yet buried are neither."""
        told = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        commands = {pid: _command(pid) for pid in map(int, told.split())}
        return [pid for pid, said in commands.items() if said and (b"embedders" in said) is embedding]

    def kill(self, *pids: int) -> None:
        """End them at once; one that has ended by itself is as dead."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def kill_embedder(self) -> None:
        """End the process that embeds, as soon as there is one."""

        def killed() -> bool:
            found = self.children(embedding=True)
            self.kill(*found)
            return bool(found)

        await self.until(killed)

    async def serving(self, count: int = 2, besides: tuple[int, ...] = ()) -> list[int]:
        """Its workers, once so many that are none of `besides` answer."""
        async with self.client() as client:

            async def reached() -> bool:
                pids = set(self.children()) - set(besides)
                if len(pids) < count:
                    return False
                metrics = (await client.get(f"{self.told['url']}/metrics")).text
                return f"holdfast_workers_serving {float(count)}" in metrics

            await self.until(reached)
        return self.children()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Where a server has its data, and what says so."""
    if request.param == "sqlite":
        return tmp_path, {}
    return tmp_path, {"HOLDFAST_DATABASE_URL": request.getfixturevalue("empty_postgres_url")}


@contextmanager
def several(store: tuple[Path, dict[str, str]], workers: int = 2, **env: str) -> Iterator[Several]:
    directory, given = store
    began = time.monotonic()
    with up(directory, "--workers", str(workers), **given, HOLDFAST_SHUTDOWN_SECONDS="3", **env) as (told, process):
        took = time.monotonic() - began
        yield Several(told, process, min(max(LEAST_PATIENCE_SECONDS, STARTS * took), MOST_PATIENCE_SECONDS))


def words(seed: int) -> str:
    """A sentence that is like no other: likeness is looked for when something is saved."""
    chance = Random(seed)
    said = ("".join(chance.choice("bdfgklmnprstv") + chance.choice("aeiou") for _ in range(3)) for _ in range(8))
    return f"{' '.join(said).capitalize()}."


class Writers:
    """Clients that save without pause, and remember what was acknowledged."""

    def __init__(self, server: Several) -> None:
        self._server = server
        self.acknowledged: dict[str, str] = {}
        self.broken = 0
        self.refused: list[tuple[int, str]] = []

    @asynccontextmanager
    async def at_work(self, count: int = 4) -> AsyncIterator["Writers"]:
        stopping = asyncio.Event()
        tasks = [asyncio.create_task(self._write(place, stopping)) for place in range(count)]
        yield self
        stopping.set()
        await asyncio.gather(*tasks)

    async def _write(self, place: int, stopping: asyncio.Event) -> None:
        async with self._server.client() as client:
            number = 0
            while not stopping.is_set():
                number += 1
                text = words(place * 100_000 + number)
                try:
                    answer = await client.post(self._server.memories, json={"content": text})
                except httpx.HTTPError:
                    self.broken += 1
                    await asyncio.sleep(0.05)
                    continue
                if answer.status_code == 201:
                    self.acknowledged[answer.json()["memory_id"]] = text
                else:
                    self.refused.append((answer.status_code, answer.text))

    async def more(self, count: int = 5) -> None:
        """Wait until so many more were acknowledged."""
        there = len(self.acknowledged)
        await self._server.until(lambda: len(self.acknowledged) >= there + count)

    async def check(self, server: Several) -> None:
        """Everything that was acknowledged is there, with its words."""
        async with server.client() as client:
            for id, text in self.acknowledged.items():
                answer = await client.get(f"{server.memories}/{id}")
                assert (answer.status_code, answer.json().get("content")) == (200, text), answer.text


async def test_a_kill_takes_nothing_acknowledged_along_and_the_others_serve_on(
    store: tuple[Path, dict[str, str]],
) -> None:
    directory, _ = store
    with several(store) as server:
        first = await server.serving()
        writers = Writers(server)
        async with writers.at_work():
            await writers.more()
            # Each in turn: one of them owns the background work.
            for victim in first:
                server.kill(victim)
                await writers.more()
                await server.serving(besides=(victim,))
            await server.kill_embedder()
            await writers.more()
            both = server.children()
            server.kill(*both)
            await writers.more()
            await server.serving(besides=tuple(both))
            await writers.more()
        # What is refused is refused for a reason, and never for want of a place to write.
        assert [each for each in writers.refused if each[0] >= 500 and "embed" not in each[1]] == []
        await writers.check(server)
        workers = server.children()
        server.kill(server.process.pid)
        # Without a parent they end by themselves, and free the directory.
        await server.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    with several(store) as again:
        key = server.told["api_key"]
        assert again.told["api_key"] is None
        await writers.check(Several({**again.told, "api_key": key}, again.process, again.patience))
        if not store[1]:
            assert (directory / "writer.lock").stat().st_mode & 0o777 == 0o600


async def test_sigterm_lets_streams_end_and_leaves_nobody_behind(store: tuple[Path, dict[str, str]]) -> None:
    with several(store) as server:
        workers = await server.serving()
        path = f"{server.told['url']}/api/workspaces/{server.told['workspace_id']}/events"
        async with server.client() as client:
            ends = []
            async with client.stream("GET", path) as one, client.stream("GET", path) as other:
                lines = [each.aiter_lines() for each in (one, other)]
                assert [await anext(each) for each in lines] == [": following"] * 2
                server.process.send_signal(signal.SIGTERM)
                for each in lines:
                    ends.append([line async for line in each if line.startswith("event:")][-1])
        assert ends == ["event: stream.end"] * 2
        assert await asyncio.to_thread(server.process.wait, server.patience) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


async def test_what_one_worker_commits_is_told_by_the_other_and_goes_on_after_a_kill(
    store: tuple[Path, dict[str, str]],
) -> None:
    with several(store) as server:
        workers = await server.serving()
        path = f"{server.told['url']}/api/workspaces/{server.told['workspace_id']}/events?topics=memory.*"
        async with server.client() as client:
            last = ""
            async with client.stream("GET", path) as one, client.stream("GET", path) as other:
                saved = (await client.post(server.memories, json={"content": "The lighthouse was painted."})).json()[
                    "memory_id"
                ]
                for stream in (one, other):
                    async with asyncio.timeout(server.patience):
                        async for line in stream.aiter_lines():
                            if line.startswith("id:"):
                                last = line.removeprefix("id:").strip()
                            if saved in line:
                                break
                server.kill(*workers)
            await server.serving(besides=tuple(workers))
            missed = (await client.post(server.memories, json={"content": "The harbour froze over."})).json()[
                "memory_id"
            ]
            async with client.stream("GET", path, headers={"Last-Event-ID": last}) as resumed:
                async with asyncio.timeout(server.patience):
                    assert any([missed in line async for line in _until_data(resumed)])


async def _until_data(stream: httpx.Response) -> AsyncIterator[str]:
    async for line in stream.aiter_lines():
        yield line
        if line.startswith("data:"):
            return


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_an_mcp_session_outlives_the_worker_that_began_it(store: tuple[Path, dict[str, str]], era: str) -> None:
    with several(store) as server:
        workers = await server.serving()
        headers = {**server.headers, "X-Xerotier-Workspace": server.told["workspace_id"]}
        limits = httpx2.Limits(max_keepalive_connections=0)
        async with httpx2.AsyncClient(headers=headers, timeout=server.patience, trust_env=False, limits=limits) as http:
            reached = streamable_http_client(server.told["mcp_url"], http_client=http)
            async with Client(reached, mode=era, read_timeout_seconds=server.patience) as client:
                for number in range(4):
                    saved = await client.call_tool(
                        "xerotier.memory.save", {"content": f"Buoy {number} is lit at night."}
                    )
                    assert not saved.is_error
                server.kill(workers[0])
                await server.serving(besides=(workers[0],))
                for _ in range(4):
                    found = await client.call_tool("xerotier.memory.recall", {"query": "which buoy is lit"})
                    assert not found.is_error and "is lit at night" in str(found.content)


async def test_a_key_revoked_through_one_worker_is_refused_by_all_at_once(store: tuple[Path, dict[str, str]]) -> None:
    """Each request looks for what the others committed, so there is nothing to wait for."""
    with several(store) as server:
        await server.serving()
        keys, me = f"{server.told['url']}/api/keys", f"{server.told['url']}/api/me"
        async with server.client() as client:
            for number in range(5):
                asked = {"name": f"k{number}", "project_id": server.told["project_id"], "scopes": ["read"]}
                made = (await client.post(keys, json=asked)).raise_for_status().json()
                shown = {"Authorization": f"Bearer {made['key']}"}
                # Connections go round, so each worker has met the key; which one revokes it alternates.
                for _ in range(4 + number % 2):
                    assert (await client.get(me, headers=shown)).status_code == 200
                assert (await client.delete(f"{keys}/{made['id']}")).status_code == 200
                assert [(await client.get(me, headers=shown)).status_code for _ in range(4)] == [401] * 4


async def test_limits_hold_over_all_workers(store: tuple[Path, dict[str, str]]) -> None:
    with several(store, HOLDFAST_REQUESTS_PER_MINUTE="30", HOLDFAST_MAX_CONNECTIONS_PER_ADDRESS="6") as server:
        await server.serving()
        host, _, port = server.told["url"].removeprefix("http://").partition(":")
        began = time.monotonic()
        async with server.client() as client:
            statuses = [(await client.get(f"{server.told['url']}/api/me")).status_code for _ in range(60)]
        # What time gave back meanwhile may be used too.
        assert 30 <= statuses.count(200) <= 31 + (time.monotonic() - began) / 2
        assert set(statuses) == {200, 429}

        held: list[socket.socket] = []

        async def admitted() -> bool:
            """One more is open and has been answered; a refused one is told so, and is not held."""
            one = await asyncio.to_thread(socket.create_connection, (host, int(port)), server.patience)
            try:
                one.sendall(b"GET /api/me HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                status = (await asyncio.to_thread(one.recv, 100)).split()[1]
            except ConnectionError:
                # Refused and closed before the request was read.
                status = b"503"
            if status == b"503":
                one.close()
                return False
            assert status == b"401"
            held.append(one)
            return True

        # The connections of the requests above may be told as closed a moment later.
        for _ in range(6):
            await server.until(admitted)
        assert [await admitted() for _ in range(4)] == [False] * 4
        while held:
            held.pop().close()
        await server.until(admitted)
        held.pop().close()


async def test_a_key_has_so_many_streams_of_events_over_all_workers(store: tuple[Path, dict[str, str]]) -> None:
    with several(store) as server:
        workers = await server.serving()
        path = f"{server.told['url']}/api/workspaces/{server.told['workspace_id']}/events"
        followed = []
        async with server.client() as client, AsyncExitStack() as open_streams:

            async def follow() -> int:
                stream = await open_streams.enter_async_context(client.stream("GET", path))
                if stream.status_code == 200:
                    # A stream whose lines nobody holds any more is closed.
                    followed.append(stream.aiter_lines())
                    assert await anext(followed[-1]) == ": following"
                return stream.status_code

            assert [await follow() for _ in range(MAX_STREAMS_EACH)] == [200] * MAX_STREAMS_EACH
            # Whichever worker is asked.
            assert [await follow() for _ in range(4)] == [429] * 4
            server.kill(workers[0])

            async def freed() -> bool:
                try:
                    return await follow() == 200
                except httpx.HTTPError:
                    return False

            await server.until(freed)


async def test_a_job_whose_worker_is_killed_is_ended_by_another(store: tuple[Path, dict[str, str]]) -> None:
    with several(store) as server:
        await server.serving()
        base = f"{server.told['url']}/api/workspaces/{server.told['workspace_id']}"
        text = "\n\n".join(f"Chapter {number}\n\nThe ferry leaves pier {number} at noon." for number in range(300))
        async with server.client() as client:
            sent = await client.post(f"{base}/documents", files={"file": ("ferries.md", text.encode())})
            assert sent.status_code in (200, 201, 202), sent.text
            server.kill(*server.children())

            async def ready() -> bool:
                try:
                    listed = (await client.get(f"{base}/documents")).json()["items"]
                except (httpx.HTTPError, json.JSONDecodeError):
                    return False
                return [each["state"] for each in listed] == ["ready"]

            await server.until(ready)
