"""Libraries that people build on, through an endpoint to a strict upstream: a row for each ability."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.libraries.upstream import PERSON, answer
from tests.fakes.llm.model import USAGE, model
from tests.support.server import serving
from tests.surfaces.openai.endpoint import connect

ROOT = Path(__file__).parents[4]
SECOND_TURN = "plain: hello | remember: all | Hello from the model."
# By the kind of the row: what is said, and how often the upstream is asked for that.
SAID = {
    "plain": ("Hello from the model.", 1),
    "stream": ("Hello from the model.", 1),
    "own tool": ("The tool said 21 degrees in Oslo.", 2),
    "server tool": ("It is 42.", 2),
    "both tools": ("Both: 42 and 21 degrees in Oslo.", 3),
    "second turn": (SECOND_TURN, 2),
}
CHAT_AND_RESPONSES = [
    f"{api}: {kind}"
    for api in ("chat", "responses")
    for kind in (
        *("plain", "stream", "own tool", "own tool, streamed", "structured", "structured with server tool"),
        *("server tool", "server tool, streamed", "both tools", "both tools, streamed", "second turn"),
    )
]
MESSAGES = [
    f"messages: {kind}"
    for kind in (
        *("plain", "stream", "own tool", "own tool, streamed", "structured"),
        *("server tool", "server tool, streamed", "second turn"),
    )
]
INSTRUCTOR_MODES = ("TOOLS", "JSON", "JSON_SCHEMA", "MD_JSON")
ROWS: dict[str, tuple[str, list[str]]] = {
    "langchain": ("openai3", CHAT_AND_RESPONSES),
    "pydantic_ai": (
        "openai3",
        [*CHAT_AND_RESPONSES, "chat: structured, streamed", "responses: structured, streamed"],
    ),
    "agents": (
        "openai3",
        [
            *CHAT_AND_RESPONSES,
            "responses: second turn by previous response",
            "responses: own tool by previous response",
        ],
    ),
    "langchain_anthropic": ("openai3", MESSAGES),
    "pydantic_ai_anthropic": ("openai3", [*MESSAGES, "messages: both tools"]),
    "llama_index": ("openai2", CHAT_AND_RESPONSES),
    "litellm": (
        "openai2",
        [
            row
            for row in CHAT_AND_RESPONSES
            if row
            not in (
                "responses: own tool, streamed",
                "responses: both tools, streamed",
                "responses: structured with server tool",
            )
        ],
    ),
    "instructor": (
        "openai2",
        [
            "chat: plain",
            *(
                f"chat, {mode}: structured{more}"
                for mode in INSTRUCTOR_MODES
                for more in ("", ", streamed", " with server tool", " with server tool, streamed")
            ),
            "responses, RESPONSES_TOOLS: structured",
        ],
    ),
}

# A tour takes seconds, on a crowded machine minutes: only a hang reaches this.
HANG_SECONDS = 400

pytestmark = [pytest.mark.slow, pytest.mark.contract("XS-1"), pytest.mark.timeout(HANG_SECONDS + 60)]


async def tour(library: str, environment: str, url: str, key: str) -> dict[str, Any]:
    """What a library saw, row by row."""
    process = await asyncio.create_subprocess_exec(
        str(ROOT / ".cache" / environment / "bin" / "python"),
        str(Path(__file__).with_name(f"{library}_tour.py")),
        # Compiled files are kept whatever this machine says: some of these libraries take long to compile.
        env={**os.environ, "TOUR": json.dumps({"url": url, "key": key}), "PYTHONDONTWRITEBYTECODE": ""},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), HANG_SECONDS)
    assert process.returncode == 0, err.decode()[-3000:] + out.decode()[-1000:]
    # Libraries greet on stdout as they please; the last line is the tour's.
    return dict(json.loads(out.decode().strip().splitlines()[-1]))


def wrong_with(row: str, seen: Any) -> str:
    """What of a row is not as it should be; empty where all of it is."""
    kind = row.split(": ", 1)[1]
    if not isinstance(seen, dict) or "error" in seen:
        return f"{row}: {seen}"
    if kind.startswith("structured"):
        people = seen.get("people") or []
        right = bool(people) and all(each == PERSON for each in people)
        asked = len(people)
    else:
        said, asked = next(SAID[name] for name in SAID if kind == name or kind.startswith((f"{name},", f"{name} by")))
        right = seen.get("text") == said
    usage = [USAGE["prompt_tokens"] * asked, USAGE["completion_tokens"] * asked]
    right = right and seen.get("usage", usage) == usage and seen.get("streamed", True)
    return "" if right else f"{row}: {seen}, where {asked} answers take {usage}"


@pytest.mark.parametrize("library", ROWS)
async def test_every_row_of_a_library(sqlite_database: SqliteDatabase, library: str) -> None:
    environment, rows = ROWS[library]
    async with model() as upstream, serving(sqlite_database) as server:
        upstream.choose = answer
        url = await connect(server, upstream)
        seen = await tour(library, environment, url, server.key)
        assert upstream.refused == []
    wrong = [problem for row in sorted({*rows, *seen}) if (problem := wrong_with(row, seen.get(row, "not taken")))]
    assert wrong == [], "\n".join(wrong)
    assert sorted(seen) == sorted(rows)
    # Where a library tells usage at all, it was told for what it asked and streamed.
    assert sum("usage" in each for each in seen.values()) >= min(5, len(rows))
