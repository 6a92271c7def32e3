"""What tools of `x1agent` send out: messages to webhooks whose addresses are secrets, and previews."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from holdfast.storage.database import Database
from tests.fakes.web import Site, content, site
from tests.features.agents.conftest import Agent, gate_house
from tests.support.agents.clients import sdk_client
from tests.support.clock import MovableClock

PREVIEW = {"repo_full_name": "acme/shop", "branch": "feature/x", "commit_sha": "abcdef1"}


@asynccontextmanager
async def outside(
    database: Database, clock: MovableClock, directory: Path, there: Site, **settings: Any
) -> AsyncIterator[Agent]:
    """An agent whose server may reach a site on this machine."""
    async with AsyncExitStack() as stack:
        settings["fetch_allow"] = (f"127.0.0.1:{there.port}",)
        house = await gate_house(stack, database, clock, directory, settings=settings)
        session = house.session()
        await stack.enter_async_context(house.open(session))
        client = await stack.enter_async_context(sdk_client(house.socket(session, "x1agent")))
        yield Agent(house, session, client)


async def test_a_channels_webhook_gets_the_message_as_slack_would(
    database: Database, clock: MovableClock, directory: Path
) -> None:
    heard: list[dict[str, Any]] = []

    async def take(request: web.Request) -> web.StreamResponse:
        heard.append(await request.json())
        return web.Response(text="ok")

    async with site() as there, outside(database, clock, directory, there) as agent:
        house, place = agent.house, f"127.0.0.1:{there.port}"
        there.pages["/services/canary-path"] = take
        url = there.url("/services/canary-path", host="127.0.0.1")
        await house.services.secrets.set(house.owner, house.workspace, "CHANNEL_ALERTS", url, [place])
        given = {"channel": "#alerts", "text": "the build broke", "thread_id": "17", "username": "builder"}
        assert await agent("post_message", **given) == {"channel": "alerts", "delivered": True}
        assert heard == [{"text": "the build broke", "username": "builder", "thread_ts": "17"}]
        del there.pages["/services/canary-path"]
        refused = await agent.refused("post_message", **given)
        assert "answered 404" in refused and "canary" not in refused
        # A secret that is bound elsewhere is not sent, even though it is an address.
        await house.services.secrets.set(house.owner, house.workspace, "CHANNEL_OTHER", url, ["hooks.example"])
        asked = len(there.asked)
        refused = await agent.refused("post_message", channel="other", text="x")
        assert "CHANNEL_OTHER" in refused and "canary" not in refused
        assert len(there.asked) == asked
        assert "canary-path" not in json.dumps([data for _, _, data in house.sessions.events], default=str)


async def test_a_preview_is_deployed_by_the_operators_command(
    database: Database, clock: MovableClock, directory: Path
) -> None:
    program = directory / "deploy.py"
    program.write_text("import sys\nprint('building', sys.argv[1:])\nprint('https://preview.example/' + sys.argv[3])\n")
    command = f"{sys.executable} {program}"
    async with site() as there, outside(database, clock, directory, there, preview_command=command) as agent:
        assert await agent("preview_deploy", **PREVIEW) == {"url": "https://preview.example/abcdef1"}
        assert agent.told("preview")[0]["url"] == "https://preview.example/abcdef1"
        program.write_text("import sys\nsys.exit(3)\n")
        assert "status 3" in await agent.refused("preview_deploy", **PREVIEW)
        program.write_text("print('no address here')\n")
        assert "did not say where" in await agent.refused("preview_deploy", **PREVIEW)


async def test_a_preview_that_takes_too_long_is_ended_with_everything_it_started(
    database: Database, clock: MovableClock, directory: Path
) -> None:
    program = directory / "deploy.sh"
    program.write_text("sleep 600 & echo $! > $(dirname $0)/child; wait\n")
    settings = {"preview_command": f"/bin/sh {program}", "preview_seconds": 1}
    async with site() as there, outside(database, clock, directory, there, **settings) as agent:
        assert "within 1 seconds" in await agent.refused("preview_deploy", **PREVIEW)
    child = int((directory / "child").read_text())
    status = Path(f"/proc/{child}/stat")
    assert not status.exists() or status.read_text().split()[2] == "Z"


async def test_a_preview_is_deployed_by_the_operators_webhook(
    database: Database, clock: MovableClock, directory: Path
) -> None:
    async with site() as there:
        there.pages["/deploy"] = content(b'{"url": "https://preview.example/9"}', "application/json")
        hook = there.url("/deploy", host="127.0.0.1")
        async with outside(database, clock, directory, there, preview_webhook=hook) as agent:
            assert await agent("preview_deploy", **PREVIEW) == {"url": "https://preview.example/9"}
            there.pages.clear()
            assert "answered 404" in await agent.refused("preview_deploy", **PREVIEW)
