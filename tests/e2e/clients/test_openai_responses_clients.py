"""The official OpenAI client for Node and Codex on the Responses API, through an endpoint to a strict upstream."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.coding_agents import Bench, needs
from tests.e2e.clients.test_openai_clients import NODE, NODE_PROGRAM
from tests.fakes.llm.model import calls, model, says
from tests.support.server import serving
from tests.surfaces.openai.endpoint import connect

pytestmark = [pytest.mark.slow, pytest.mark.contract("XS-7")]


async def test_the_node_client_gets_responses(sqlite_database: SqliteDatabase) -> None:
    turns = [calls(("calculator", {"expression": "6*7"})), says("It is 42.", pieces=2)]
    mixed = [calls(("file_search", {"query": "text"})), calls(("read", {"path": "a"}), content="Reading.")]
    async with model(says("Whole."), *turns, *turns, says("Continued."), says("Later."), *mixed) as upstream:
        async with serving(sqlite_database) as server:
            url = await connect(server, upstream)
            process = await asyncio.create_subprocess_exec(
                NODE_PROGRAM,
                "openai_responses.mjs",
                cwd=NODE,
                env={**os.environ, "TOUR": json.dumps({"url": url, "key": server.key})},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 0, err.decode()[-3000:]
        assert upstream.refused == []

    seen = json.loads(out)
    assert (seen["whole"], seen["streamed"], seen["helped"]) == ("Whole.", "It is 42.", "It is 42.")
    assert (seen["continued"], seen["later"]) == ("Continued.", ["completed", "Later."])
    assert (seen["events"][0], seen["events"][-1]) == ("response.created", "response.completed")
    assert "x_research.calculating" in seen["events"]
    assert (seen["wrapped"][0], seen["wrapped"][-1]) == ("x_research.calculating", "x_chat.metadata")
    kinds = ("file_search_call", "message", "function_call")
    assert seen["mixed"] == [[kind, "completed"] for kind in kinds]
    assert seen["stored"] == ["vector_store", 1]
    assert seen["refused"] == ["NotFoundError", 404]


async def test_codex_works_through_an_endpoint(sqlite_database: SqliteDatabase, tmp_path: Path) -> None:
    codex = needs("codex")
    home, project = tmp_path / "home", tmp_path / "project"
    for directory in (home / ".codex", home / "tmp", project):
        directory.mkdir(parents=True)
    async with model() as upstream, serving(sqlite_database) as server:
        # One of its own tools, and one that it keeps in a namespace.
        asked = calls(("get_goal", {}), ("multi_agent_v1_wait_agent", {"targets": ["nobody"]}))
        upstream.script = [asked, says("The harbour is open.")]
        url = await connect(server, upstream)
        (home / ".codex/config.toml").write_text(
            'model = "any"\nmodel_provider = "holdfast"\nweb_search = "disabled"\n'
            f'[model_providers.holdfast]\nname = "holdfast"\nbase_url = "{url}"\nwire_api = "responses"\n'
            'env_key = "HOLDFAST_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
        )
        bench = Bench(server, tmp_path, home, project)
        output = await bench.run(
            [codex, "exec", "--skip-git-repo-check", "Is the harbour open?"],
            CODEX_HOME=str(home / ".codex"),
            HOLDFAST_KEY=server.key,
        )
    assert "The harbour is open." in output
    assert upstream.refused == []
    results = [message["content"] for message in upstream.requests[1]["messages"] if message["role"] == "tool"]
    assert len(results) == 2 and not any("unsupported call" in result for result in results), results
