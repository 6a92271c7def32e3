"""An agent with a remote server behind a real authorization server: it acts with the login of whoever started it."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest

from tests.e2e.execution.test_remote_oauth import connect, keys_of, link_of
from tests.engines.mcp_client.test_remote import Behind, behind
from tests.support.execution.product import product
from tests.surfaces.agents.conftest import speaking
from tests.surfaces.agents.test_people import CALL
from tests.surfaces.agents.test_wanting_more import SCOPED

__all__ = ["behind"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.contract("XA-8")]
OVER = ("completed", "failed", "cancelled")


async def started(url: str, key: str, agent: str) -> dict[str, Any]:
    """A session of somebody's key, once it is over; `said` is what its agent told."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
        begun = await client.post(f"/api/agents/{agent}/sessions", json={"prompt": "Who am I?"})
        assert begun.status_code == 201, begun.text
        path = f"/api/sessions/{begun.json()['session_id']}"
        async with asyncio.timeout(120):
            while (found := (await client.get(path)).json())["state"] not in OVER:
                await asyncio.sleep(0.1)
        told = (await client.get(f"{path}/timeline", params={"limit": 500})).json()["items"]
    said = [each["data"]["text"] for each in told if each["kind"] == "text"]
    return {**found, "said": said, "told": str(told)}


async def test_a_remote_server_sees_the_login_of_whoever_started_the_session(
    tmp_path: Path, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = ",".join(urlsplit(each).netloc for each in (behind.issuer, behind.resource))
    async with product(tmp_path / "data", HOLDFAST_FETCH_ALLOW=allowed) as at:
        await at.run("catalog", "add", "remote", "--url", behind.resource)
        async with at.person() as person:
            link = await link_of(person, at, "remote")
            back = await connect(person, at, link, monkeypatch)
            assert (await person.get(f"/connect/callback?{urlencode(back)}")).status_code == 303
            probe = await person.post(f"/api/workspaces/{at.workspace}/mcp-servers/remote/probe")
            assert probe.status_code == 200, probe.text
            await at.policy("remote", "whoami", policy="auto")
            (key,) = await keys_of(person, at, 1)
            body = {
                "name": "Asker",
                "runner": "command",
                "command": speaking(CALL, SCOPED.replace('"demo"', '"remote"'), "say(demo('whoami', {}))", "over()"),
            }
            made = await person.post(f"/api/workspaces/{at.workspace}/agents", json=body)
            assert made.status_code == 201, made.text
            agent = made.json()["id"]
            attached = await person.put(f"/api/agents/{agent}/mcp-attachments", json={"name": "remote", "env": {}})
            assert attached.is_success, attached.text
        mine = await started(at.url, key, agent)
        assert (mine["state"], mine["said"]) == ("completed", ["ada"]), mine
        # A key that was there before anybody signed in acts for nobody: a clear word, and where to sign in.
        nobodys = await started(at.url, at.key, agent)
        assert nobodys["state"] == "completed" and "/connect/" in nobodys["said"][0], nobodys
        # Once the login has ended, the same.
        await behind.tell("expire")
        await behind.tell("revoke")
        await at.stop()
        await at.start()
        ended = await started(at.url, key, agent)
        assert ended["state"] == "completed" and f"{at.url}/connect/" in ended["said"][0], ended
        # Its token never was the agent's.
        assert "access_token" not in mine["told"] and "Bearer" not in mine["told"]
