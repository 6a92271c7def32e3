"""The OpenAPI document is whole, and what it describes never answers 5xx, whatever is sent."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving


async def test_the_document_names_every_operation_and_error(sqlite_server: TestServer) -> None:
    async with sqlite_server.stranger() as client:
        document = (await client.get("/api/openapi.json")).json()
        page = await client.get("/api/docs")
    assert document["openapi"].startswith("3.1")
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) > 60
    assert all({"401", "403", "422", "429"} <= set(operation["responses"]) for operation in operations)
    assert page.status_code == 200 and "Holdfast API" in page.text


@pytest.fixture
def live_server(sqlite_path: Path) -> Iterator[TestServer]:
    """A server on a loop of its own, for a client that knows nothing of ours."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    started = threading.Event()
    running: list[TestServer] = []

    async def run() -> None:
        database = SqliteDatabase(sqlite_path)
        async with serving(database) as server:
            running.append(server)
            started.set()
            await stop.wait()
        await database.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert started.wait(30)
    yield running[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()


@pytest.mark.slow
def test_nothing_described_there_answers_with_a_server_error(live_server: TestServer) -> None:
    schema = schemathesis.openapi.from_url(f"{live_server.url}/api/openapi.json")
    headers = {"Authorization": f"Bearer {live_server.key}"}
    bounded = settings(max_examples=6)

    def answers(case: Any) -> None:
        answer = case.call(headers=headers, timeout=60)
        assert answer.status_code < 500, f"{case.method} {case.path}: {answer.text[:300]}"

    found: Any
    for found in schema.get_all_operations():
        operation = found.ok()
        # What follows events answers without an end.
        if "text/event-stream" not in json.dumps(operation.definition.raw):
            bounded(given(case=operation.as_strategy())(answers))()
