"""Owns what tests of agents over HTTP share: a server with a scripted model behind an endpoint, and agents on it."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database
from tests.fakes.llm.openai_chat import KEY, FakeChat, openai_chat
from tests.fakes.llm.script import Script
from tests.support.server import TestServer, serving

OVER = ("completed", "failed", "cancelled")
SECONDS = 90


@dataclass
class Agency:
    """A server with the endpoint `scripted`, and what an author does there."""

    server: TestServer
    client: httpx.AsyncClient
    model: FakeChat
    data_dir: Path
    seconds: float = SECONDS
    """How long it waits for anything."""

    @property
    def workspace(self) -> str:
        return self.server.start.workspace_id

    async def define(self, name: str = "Helper", **more: Any) -> dict[str, Any]:
        """An agent; of the runner `command` where one is given."""
        body = {"name": name, "endpoint": "scripted", **({"runner": "command"} if "command" in more else {}), **more}
        answer = await self.client.post(f"/api/workspaces/{self.workspace}/agents", json=body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def start(self, agent: Mapping[str, Any], prompt: str = "Go.", **more: Any) -> str:
        """A session of an agent; its id."""
        answer = await self.client.post(f"/api/agents/{agent['id']}/sessions", json={"prompt": prompt, **more})
        assert answer.status_code == 201, answer.text
        assert answer.json()["state"] == "pending"
        return str(answer.json()["session_id"])

    async def get(self, session_id: str) -> dict[str, Any]:
        answer = await self.client.get(f"/api/sessions/{session_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def until(self, session_id: str, *states: str) -> dict[str, Any]:
        """The session once it is in one of these states; over where none is named."""
        async with asyncio.timeout(self.seconds):
            while True:
                found = await self.get(session_id)
                if found["state"] in (states or OVER):
                    return found
                if found["state"] in OVER:
                    raise AssertionError(f"it is {found['state']}: {found['error']}")
                await asyncio.sleep(0.05)

    async def told(self, session_id: str, kind: str | None = None) -> list[dict[str, Any]]:
        """What it told so far."""
        answer = await self.client.get(f"/api/sessions/{session_id}/timeline", params={"limit": 500})
        assert answer.status_code == 200, answer.text
        return [each for each in answer.json()["items"] if kind in (None, each["kind"])]

    async def until_told(self, session_id: str, kind: str) -> dict[str, Any]:
        """The first event of a kind, once there is one."""
        async with asyncio.timeout(self.seconds):
            while not (found := await self.told(session_id, kind)):
                await asyncio.sleep(0.05)
        return found[0]


def speaking(*lines: str) -> str:
    """The command of an agent that is a few lines of Python and speaks line-JSON: `say`, `over` and `heard` help it."""
    body = _HELP + "\n".join(lines)
    return shlex.join(["line-json", "/usr/bin/env", "python3", "-u", "-c", body])


_HELP = """
import json, os, subprocess, sys, time
def tell(**message): print(json.dumps(message), flush=True)
def say(text): tell(type="said", text=str(text))
def heard(): return json.loads(sys.stdin.readline() or "null")
def over(text="Done.", reason="done"): tell(type="turn_over", reason=reason, text=str(text))
start = heard()
"""


@asynccontextmanager
async def agency(database: Database, data_dir: Path, script: Script, **settings: Any) -> AsyncIterator[Agency]:
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(openai_chat(script))
        server = await stack.enter_async_context(serving(database, data_dir=data_dir, **settings))
        services = server.services
        await services[Secrets].set(server.owner, server.start.workspace_id, "MODEL_KEY", KEY)
        upstream = EndpointUpstream(base_url=model.url, model="scripted-1", key_secret="MODEL_KEY", private=True)
        await services[Endpoints].create(server.owner, server.start.project_id, "scripted", [upstream])
        client = await stack.enter_async_context(server.client())
        yield Agency(server, client, model, data_dir)


@pytest.fixture
async def house(database: Database, tmp_path: Path) -> AsyncIterator[Agency]:
    async with agency(database, tmp_path, Script([])) as made:
        yield made
