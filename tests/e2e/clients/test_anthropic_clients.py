"""Anthropic's client for TypeScript and the AI SDK's provider for it, before a model of either wire."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.anthropic_model import PERSON, Model
from tests.e2e.clients.test_openai_clients import NODE, NODE_PROGRAM
from tests.fakes.llm.messages import messages_model
from tests.fakes.llm.model import model
from tests.support.server import TestServer, serving
from tests.surfaces.anthropic.wires import base_url, of_anthropic, of_openai, put

pytestmark = [pytest.mark.slow, pytest.mark.contract("XA-12"), pytest.mark.timeout(200)]

Json = dict[str, Any]


@asynccontextmanager
async def endpoint(database: SqliteDatabase, kind: str) -> AsyncIterator[TestServer]:
    """A server whose endpoint `main` is in front of a model of that wire, which refuses only what is odd on purpose."""
    answers = Model()
    async with model() as other, messages_model() as claude, serving(database) as server:
        other.choose, claude.choose = answers.chat, answers.messages
        await put(server, "main", of_openai(other) if kind == "openai" else of_anthropic(claude))
        yield server
        assert other.refused == [] and all("odd" in problem for problem in claude.refused), claude.refused


async def tour(server: TestServer, script: str) -> Json:
    told = json.dumps({"url": base_url(server, "main"), "key": server.key})
    process = await asyncio.create_subprocess_exec(
        NODE_PROGRAM,
        script,
        cwd=NODE,
        env={**os.environ, "TOUR": told},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 150)
    assert process.returncode == 0, err.decode()[-5000:]
    return dict(json.loads(out))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_anthropics_client_for_typescript(sqlite_database: SqliteDatabase, kind: str) -> None:
    async with endpoint(sqlite_database, kind) as server:
        seen = await tour(server, "anthropic_messages.mjs")

    assert seen == {
        "models": ["fake-model" if kind == "openai" else "claude-fake"],
        "counted": True,
        "whole": ["Answer to plain.", "end_turn", True, True],
        "streamed": ["Answer to stream.", True, "Answer to stream.", "end_turn"],
        "events": [
            *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
            *("message_delta", "message_stop"),
        ],
        "tool": ["tool_use", "After 1: weather."],
        "runner": "After 1: weather.",
        "runnerStreamed": "After 1: weather.",
        "beta": "Answer to plain.",
        "served": ["After 1: sum.", ["mcp_tool_use", "mcp_tool_result", "text"]],
        "servedStreamed": [
            ["mcp_tool_use", "mcp_tool_result", "text"],
            ["holdfast", "calculator", ["expression"]],
            [True, False, ["text"]],
            True,
        ],
        "servedAgain": "Answer to plain.",
        "unknown": ["AuthenticationError", 401, "authentication_error", True],
        "invalid": ["BadRequestError", 400, "invalid_request_error", True],
        "busy": ["OverloadedError", 529, "overloaded_error", True],
        "cut": ["APIError", None, "api_error", True],
        "retried": "Answer to busy once.",
    }


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_the_ai_sdks_anthropic_provider(sqlite_database: SqliteDatabase, kind: str) -> None:
    async with endpoint(sqlite_database, kind) as server:
        seen = await tour(server, "ai_sdk_anthropic.mjs")

    assert seen["plain"] == ["Answer to plain.", True, True, "stop"]
    assert seen["streamed"] == ["Answer to stream.", True, True]
    assert seen["tool"] == ["After 1: weather.", ["Rain in Oslo."]]
    assert seen["second"] == "After 1: plain."
    assert seen["structured"] == PERSON
    assert seen["thought"] == "Answer to plain."
    assert seen["mixed"][1:] == [True, True]
    assert seen["refused"] == [401, "A valid credential is required."]
