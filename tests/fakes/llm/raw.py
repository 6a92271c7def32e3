"""An upstream that answers whatever is asked with the same bytes, and says nothing of their length."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def raw_answer(body: bytes, *headers: str) -> AsyncIterator[str]:
    """Its base URL."""
    head = "".join(f"{line}\r\n" for line in ("HTTP/1.1 200 OK", "connection: close", *headers, ""))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in asked.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
