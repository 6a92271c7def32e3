"""Owns a started Holdfast for proofs of execution: its process, its commands, and its clients of every kind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

HOLDFAST = (sys.executable, "-m", "holdfast")
START_SECONDS = 120
CALL_SECONDS = 120
# As an operator sets them for one team on one machine; no limit of requests stands in a proof's way.
SETTINGS = {"HOLDFAST_REQUESTS_PER_MINUTE": "600000", "HOLDFAST_MCP_CALLS_PER_MINUTE": "600000"}


def environment(**more: str) -> dict[str, str]:
    """This machine's, without what an operator set for a server of theirs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XEROTIER_"))}
    return {**kept, **SETTINGS, **more}


@dataclass
class Product:
    """One data directory, and the server that runs on it now."""

    data_dir: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    told: dict[str, Any] = field(default_factory=dict[str, Any])
    key: str = ""
    """The first key, which is shown once and has every right of a key."""
    process: "asyncio.subprocess.Process | None" = None
    sessions: dict[str | None, str] = field(default_factory=dict[str | None, str])
    """The cookies of those who signed in."""

    @property
    def log(self) -> str:
        """Everything that the servers on this directory logged."""
        path = self.data_dir.parent / f"{self.data_dir.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def url(self) -> str:
        return str(self.told["url"])

    @property
    def workspace(self) -> str:
        return str(self.told["workspace_id"])

    async def start(self) -> None:
        """From the start of the process to the line that says it is ready."""
        command = (*HOLDFAST, "up", "--data-dir", str(self.data_dir), "--port", "0", "--json")
        with (self.data_dir.parent / f"{self.data_dir.name}.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=log, env=environment(**self.env)
            )
        assert self.process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await self.process.stdout.readline()
        assert line, self.log[-4000:]
        self.told = json.loads(line)
        self.key = self.told["api_key"] or self.key

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process, and wait for its end."""
        if self.process is None:
            return
        if self.process.returncode is None:
            self.process.send_signal(how)
        async with asyncio.timeout(60):
            await self.process.wait()
        self.process = None

    async def run(self, *words: str, given: str = "") -> Any:
        """What a command printed for scripts."""
        command = (*HOLDFAST, *words, "--data-dir", str(self.data_dir), "--json")
        made = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**self.env),
        )
        async with asyncio.timeout(CALL_SECONDS):
            output, problems = await made.communicate(given.encode())
        assert made.returncode == 0, (words, output.decode(), problems.decode())
        return json.loads(output) if output.strip() else None

    def rest(self, key: str | None = None) -> httpx.AsyncClient:
        """A client of the management API, with a key."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=CALL_SECONDS, trust_env=False)

    @asynccontextmanager
    async def person(self, user_id: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """The browser of somebody who is signed in: the owner, where nobody else is named. Sessions outlive servers."""
        async with httpx.AsyncClient(base_url=self.url, timeout=CALL_SECONDS, trust_env=False) as browser:
            if user_id not in self.sessions:
                url = self.told["sign_in_url"] if user_id is None else (await self.run("users", "link", user_id))["url"]
                entered = await browser.post("/sign-in", data={"link": url.split("link=")[1]})
                assert entered.status_code == 303, entered.text
                self.sessions[user_id] = entered.cookies["holdfast_session"]
            browser.cookies.set("holdfast_session", self.sessions[user_id])
            session = await browser.get("/api/session")
            browser.headers["X-CSRF-Token"] = session.json()["csrf_token"]
            yield browser

    @asynccontextmanager
    async def client(self, era: str, key: str | None = None, **more: Any) -> AsyncIterator[Client]:
        """The Python SDK's client in an era of the protocol."""
        headers = {"Authorization": f"Bearer {key or self.key}", "X-Xerotier-Workspace": self.workspace}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=CALL_SECONDS, trust_env=False) as http,
            Client(streamable_http_client(self.told["mcp_url"], http_client=http), mode=era, **more) as client,
        ):
            yield client

    async def post(self, path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> Any:
        """What the API answered to a change, below the workspace; it succeeds."""
        async with self.rest(key) as rest:
            answer = await rest.post(f"/api/workspaces/{self.workspace}{path}", json=body or {})
        assert answer.is_success, answer.text
        return answer.json()

    async def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """The same, for what is set."""
        async with self.rest() as rest:
            answer = await rest.put(f"/api/workspaces/{self.workspace}{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    async def get(self, path: str, key: str | None = None, **query: Any) -> Any:
        """What the API says, below the workspace."""
        async with self.rest(key) as rest:
            answer = await rest.get(f"/api/workspaces/{self.workspace}{path}", params=query)
        assert answer.is_success, answer.text
        return answer.json()

    async def probed(self, name: str) -> dict[str, Any]:
        """A server's tools by name, as a probe finds and pins them."""
        found = await self.post(f"/mcp-servers/{name}/probe")
        return {tool["name"]: tool for tool in found["tools"]}

    async def installed(self, name: str) -> dict[str, Any]:
        """An entry once what it runs lies ready on this machine."""
        async with asyncio.timeout(CALL_SECONDS):
            while (found := await self.get(f"/mcp-servers/{name}"))["install"] == "installing":
                await asyncio.sleep(0.1)
        assert found["install"] != "failed", found
        entry: dict[str, Any] = found
        return entry

    async def policy(self, server: str, tool: str, **change: Any) -> None:
        """Say how calls of a tool are decided."""
        await self.put(f"/mcp-servers/{server}/tools/{tool}", change)

    async def invoke(self, tool_name: str, key: str | None = None, /, **arguments: Any) -> dict[str, Any]:
        """Ask for a call."""
        found: dict[str, Any] = await self.post("/invocations", {"tool_name": tool_name, "arguments": arguments}, key)
        return found

    async def ended(self, id: str, key: str | None = None) -> dict[str, Any]:
        """An invocation once it is over."""
        async with asyncio.timeout(CALL_SECONDS):
            while True:
                found: dict[str, Any] = await self.get(f"/invocations/{id}", key, wait_seconds=20)
                if found["status"] not in ("queued", "running", "awaiting_approval"):
                    return found


@asynccontextmanager
async def product(data_dir: Path, **env: str) -> AsyncIterator[Product]:
    """A server that was started on a fresh directory, and is ended afterwards."""
    made = Product(data_dir, env)
    try:
        await made.start()
        yield made
    finally:
        await made.stop(signal.SIGKILL)
