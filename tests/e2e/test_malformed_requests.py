"""A started server under malformed requests over raw sockets: no 5xx, no stall, no growth, every connection ends."""

import asyncio
from pathlib import Path

import psutil
import pytest

from tests.e2e.test_up import up
from tests.support.attacks.fuzzing import throw

REQUESTS = 10_000
"""`python -m bench.front --only fuzzing` throws 100,000."""


@pytest.mark.slow
def test_ten_thousand_malformed_requests_do_no_harm(tmp_path: Path) -> None:
    short = {"HOLDFAST_HEADER_TIMEOUT_SECONDS": "0.5", "HOLDFAST_BODY_TIMEOUT_SECONDS": "0.5"}
    with up(tmp_path, **short) as (ready, process):
        port = int(ready["url"].rsplit(":", 1)[1])
        asyncio.run(_loaded(port))
        asyncio.run(throw(port, REQUESTS // 5, seed=1))
        server = psutil.Process(process.pid)
        before = server.memory_info().rss
        outcome = asyncio.run(throw(port, REQUESTS, seed=2))
        grown = server.memory_info().rss - before
    assert outcome.sent == REQUESTS
    assert outcome.failed == []
    assert outcome.unended == []
    # Both kinds were among them: what is refused, and what gets through to every surface.
    assert {200, 400, 401, 404, 405, 431} <= outcome.statuses.keys()
    assert grown < 16 * 1024 * 1024


async def _loaded(port: int) -> None:
    """What loads late has loaded, so that it does not count as growth."""
    for path in ("/proj_x/v1/mcp", "/api/mcp", "/proj_x/e/v1/models", "/api/openapi.json"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(120):
            await reader.read()
        writer.close()
