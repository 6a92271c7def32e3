"""Owns the load of a soak: clients of every surface that go on whatever happens to the server."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from bench.soaking.books import Books, Refused, SessionOver
from bench.soaking.server import SoakedServer

ENDPOINT = "soak"
_ASKED = [{"role": "user", "content": "How high is the tower?"}]
_SESSION_OVER = "Session not found"
"""What a 404 to a session says; the SDK passes it on. It is the time to begin another one."""
_OVER = ("completed", "failed", "cancelled")
ASKING_UPSTREAM = frozenset({"chat whole", "chat streamed", "responses", "messages"})
_QUICK = ("rest save", "rest read", "rest search", "chat whole", "chat streamed", "responses", "messages")


class Load:
    """One load on one server. `pause_seconds` lies between two requests of each client."""

    def __init__(self, server: SoakedServer, books: Books, pause_seconds: float) -> None:
        self._server = server
        self._books = books
        self._pause = pause_seconds
        self._chance = Random(7)
        self._agent = self._person = ""
        self._stopping = asyncio.Event()
        self.told_events = 0

    async def prepare(self) -> None:
        """What the load needs: an endpoint's upstream is there already; an agent, and a server to call."""
        async with self._client() as client:
            made = await client.post(f"/api/workspaces/{self._workspace}/agents", json={"name": "Helper"})
            self._agent = made.raise_for_status().json()["id"]
            (await client.post(f"/api/workspaces/{self._workspace}/mcp-servers/plain/probe")).raise_for_status()

    async def run(self) -> None:
        """Until `stop`."""
        clients: list[Callable[[], Awaitable[None]]] = [
            *(self._quick(name) for name in _QUICK),
            lambda: self._mcp("legacy"),
            lambda: self._mcp("2026-07-28"),
            self._keystone,
            self._zero,
            self._pages,
            self._agents,
            self._follow,
        ]
        await asyncio.gather(*(client() for client in clients))

    def stop(self) -> None:
        """Let each finish what it is at."""
        self._stopping.set()

    async def verify(self) -> list[str]:
        """Acknowledged writes that are not there, or not as they were sent."""
        lost = []
        async with self._client() as client:
            for id, text in self._books.acknowledged.items():
                answer = await client.get(f"/api/workspaces/{self._workspace}/memories/{id}")
                if answer.status_code != 200 or answer.json()["content"] != text:
                    lost.append(f"{id}: {answer.status_code} {answer.text[:200]}")
        return lost

    @property
    def _workspace(self) -> str:
        return str(self._server.told["workspace_id"])

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._server.told['api_key']}", "X-Xerotier-Workspace": self._workspace}

    def _client(self, **more: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self._server.url, headers=self._headers, timeout=90, trust_env=False, **more)

    async def _breathe(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), self._pause * (0.5 + self._chance.random()))

    def _sentence(self) -> str:
        """One that is like no other: likeness is looked for when something is saved."""
        pick = self._chance.choice
        said = ("".join(pick("bdfgklmnprstv") + pick("aeiou") for _ in range(3)) for _ in range(8))
        return f"{' '.join(said).capitalize()}."

    def _quick(self, name: str) -> Callable[[], Awaitable[None]]:
        """A client of plain requests, one after the other."""
        asks = {
            "rest save": self._save,
            "rest read": self._read,
            "rest search": self._search,
            "chat whole": self._chat,
            "chat streamed": self._chat_streamed,
            "responses": self._responses,
            "messages": self._messages,
        }[name]

        async def run() -> None:
            while not self._stopping.is_set():
                async with self._client() as client:
                    for _ in range(50):
                        if self._stopping.is_set():
                            return
                        with self._books.asking(name):
                            await asks(client)
                        await self._breathe()

        return run

    async def _save(self, client: httpx.AsyncClient) -> None:
        text = self._sentence()
        answer = checked(await client.post(f"/api/workspaces/{self._workspace}/memories", json={"content": text}))
        if answer["status"] == "saved":
            self._books.acknowledged[answer["memory_id"]] = text

    async def _read(self, client: httpx.AsyncClient) -> None:
        known = list(self._books.acknowledged)
        if not known:
            return
        id = self._chance.choice(known[-200:])
        found = checked(await client.get(f"/api/workspaces/{self._workspace}/memories/{id}"))
        if found["content"] != self._books.acknowledged[id]:
            raise Refused("altered", f"{id} says {found['content']!r}")

    async def _search(self, client: httpx.AsyncClient) -> None:
        known = list(self._books.acknowledged.values())
        query = " ".join(self._chance.choice(known).split()[:3]) if known else "tower"
        checked(await client.post(f"/api/workspaces/{self._workspace}/memories/recall", json={"query": query}))

    async def _chat(self, client: httpx.AsyncClient) -> None:
        checked(await client.post(self._endpoint("chat/completions"), json={"model": "fixed", "messages": _ASKED}))

    async def _chat_streamed(self, client: httpx.AsyncClient) -> None:
        body = {"model": "fixed", "messages": _ASKED, "stream": True}
        async with client.stream("POST", self._endpoint("chat/completions"), json=body) as answer:
            text = (await answer.aread()).decode(errors="replace")
        if answer.status_code != 200:
            raise Refused(str(answer.status_code), text)
        if "[DONE]" not in text:
            raise Refused("cut", text[-200:])

    async def _responses(self, client: httpx.AsyncClient) -> None:
        checked(await client.post(self._endpoint("responses"), json={"model": "fixed", "input": "How high is it?"}))

    async def _messages(self, client: httpx.AsyncClient) -> None:
        body = {"model": "fixed", "max_tokens": 100, "messages": _ASKED}
        checked(await client.post(self._endpoint("messages"), json=body))

    def _endpoint(self, path: str) -> str:
        return f"/{self._server.told['project_id']}/{ENDPOINT}/v1/{path}"

    async def _mcp(self, era: str) -> None:
        """The official SDK's client; a new one where its session broke or is over, and now and then."""
        surface = f"mcp {'2025' if era == 'legacy' else '2026'}"
        number = 0
        while not self._stopping.is_set():
            with self._books.asking(f"{surface} session"):
                async with self._mcp_client(era) as client:
                    first = number
                    while number < first + 30 and not self._stopping.is_set():
                        if not await self._call(client, surface, number, fresh=number == first):
                            break
                        number += 1
                        await self._breathe()
            await self._breathe()

    @asynccontextmanager
    async def _mcp_client(self, era: str) -> AsyncIterator[Client]:
        url = self._server.url + httpx.URL(self._server.told["mcp_url"]).path
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=90, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http), mode=era, read_timeout_seconds=90) as client,
        ):
            yield client

    async def _call(self, client: Client, surface: str, number: int, *, fresh: bool) -> bool:
        """Whether the session lasts. One that the server ended is a failure only if it had just begun."""
        text = self._sentence()
        if number % 10 == 9:
            what, tool = "exec", "xerotier.exec.invoke_blocking"
            given: dict[str, Any] = {"tool_name": "plain.echo", "arguments": {"text": text}}
        elif number % 3 == 0:
            what, tool, given = "save", "xerotier.memory.save", {"content": text}
        else:
            what, tool, given = "calc", "xerotier.calc.evaluate", {"expression": f"6 * {number}"}
        try:
            with self._books.asking(f"{surface} {what}"):
                found = called(await _asked(client, tool, given, fresh=fresh))
                if what == "save" and found.get("status") == "saved":
                    self._books.acknowledged[found["memory_id"]] = text
        except SessionOver:
            return False
        return True

    async def _keystone(self) -> None:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accepts = {"Accept": "application/json, text/event-stream"}
        while not self._stopping.is_set():
            async with self._client() as client:
                for _ in range(20):
                    with self._books.asking("keystone"):
                        answer = await client.post("/api/mcp", json=body, headers=accepts)
                        if answer.status_code != 200 or '"tools"' not in answer.text:
                            raise Refused(str(answer.status_code), answer.text)
                    if self._stopping.is_set():
                        return
                    await self._breathe()

    async def _zero(self) -> None:
        while not self._stopping.is_set():
            async with self._client() as client:
                for path in ("/mcp/tools", "/mcp/resources"):
                    with self._books.asking("zero"):
                        checked(await client.get(path))
                    await self._breathe()

    async def _pages(self) -> None:
        """A person who signs in, looks around, and is signed in for as long as the server says."""
        while not self._stopping.is_set():
            # An earlier session's link is spent; the operator makes another.
            with self._books.asking("sign-in"):
                async with httpx.AsyncClient(base_url=self._server.url, timeout=90, trust_env=False) as client:
                    await self._sign_in(client)
                    for _ in range(20):
                        for path in ("/", f"/w/{self._workspace}/memory", "/keys", "/approvals"):
                            if self._stopping.is_set():
                                return
                            with self._books.asking("dashboard"):
                                page = await client.get(path, follow_redirects=True)
                                if page.status_code != 200 or "/sign-in" in str(page.url):
                                    raise Refused(str(page.status_code), str(page.url))
                            await self._breathe()
            await self._breathe()

    async def _sign_in(self, client: httpx.AsyncClient) -> None:
        if not self._person:
            users = json.loads(await asyncio.to_thread(self._server.output, "users", "list"))
            self._person = users[0]["id"]
        made = await asyncio.to_thread(self._server.output, "users", "link", self._person)
        link = re.sub(r".*link=", "", json.loads(made)["url"])
        entered = await client.post("/sign-in", data={"link": link})
        if entered.status_code != 303:
            raise Refused(str(entered.status_code), entered.text)

    async def _agents(self) -> None:
        """One session of the built-in agent after the other."""
        while not self._stopping.is_set():
            with self._books.asking("agent session"):
                async with self._client() as client:
                    path = f"/api/agents/{self._agent}/sessions"
                    began = checked(await client.post(path, json={"prompt": "When does the deploy run?"}))
                    await self._await_end(client, began["session_id"])
            for _ in range(10):
                await self._breathe()

    async def _await_end(self, client: httpx.AsyncClient, session_id: str) -> None:
        async with asyncio.timeout(120):
            while not self._stopping.is_set():
                state = "unknown"
                with suppress(httpx.HTTPError):
                    answer = await client.get(f"/api/sessions/{session_id}")
                    state = answer.json()["state"] if answer.status_code == 200 else "unknown"
                if state in _OVER:
                    if state != "completed":
                        raise Refused(f"session {state}", session_id)
                    return
                await asyncio.sleep(0.5)

    async def _follow(self) -> None:
        """Hears of what happens, and comes back to where it was."""
        last = ""
        while not self._stopping.is_set():
            with self._books.asking("events"):
                headers = {"Last-Event-ID": last} if last else {}
                path = f"/api/workspaces/{self._workspace}/events?topics=memory.*"
                async with self._client() as client, client.stream("GET", path, headers=headers) as stream:
                    if stream.status_code != 200:
                        raise Refused(str(stream.status_code), (await stream.aread()).decode())
                    async for line in stream.aiter_lines():
                        if line.startswith("id:"):
                            last = line.removeprefix("id:").strip()
                            self.told_events += 1
                        if self._stopping.is_set():
                            return
            await self._breathe()


def checked(answer: httpx.Response) -> Any:
    """The answer's JSON; Refused where it is no success."""
    if answer.status_code not in (200, 201, 202):
        raise Refused(str(answer.status_code), answer.text)
    return answer.json()


async def _asked(client: Client, tool: str, given: dict[str, Any], *, fresh: bool) -> Any:
    """What the tool answers; SessionOver where the server has ended a session that had served before."""
    try:
        return await client.call_tool(tool, given)
    except MCPError as problem:
        if fresh or not problem.error.message.startswith(_SESSION_OVER):
            raise
        raise SessionOver from problem


def called(result: Any) -> dict[str, Any]:
    """What a tool gave; Refused where it gave an error."""
    if result.is_error:
        raise Refused("tool error", str(result.content))
    found: dict[str, Any] = result.structured_content or {}
    return found
