"""Traces reach a configured collector, joined to the caller's trace."""

import asyncio

from aiohttp import web

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import serving


async def test_a_request_becomes_a_span_of_the_callers_trace(sqlite_database: SqliteDatabase) -> None:
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def collect(request: web.Request) -> web.Response:
        await received.put(await request.read())
        return web.Response(status=200)

    collector = web.Application()
    collector.router.add_post("/v1/traces", collect)
    runner = web.AppRunner(collector)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    async with serving(sqlite_database, otlp_endpoint=f"http://127.0.0.1:{port}") as server, server.client() as client:
        await client.get("/api/me", headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01", "X-Request-Id": "r1"})
        spans = await asyncio.wait_for(received.get(), 30)
    await runner.cleanup()
    # OTLP bodies are protobuf, maybe compressed: the trace id is in them as raw bytes.
    import gzip

    body = gzip.decompress(spans) if spans.startswith(b"\x1f\x8b") else spans
    assert bytes.fromhex(trace_id) in body
    assert b"GET rest" in body and b"r1" in body
