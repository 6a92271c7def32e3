"""Owns a process that holds a sandboxed program, to be killed without warning; its argument marks the program."""

import asyncio
import sys

from holdfast.engines.mcp_client.stdio import open_stdio
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import hostile


async def main() -> None:
    """Start a server that leaves processes in sessions of their own, and say so; then wait for the end."""
    runtime = ProcessRuntime()
    await runtime.check()
    print("starting", flush=True)
    connection = await open_stdio(runtime, hostile("spawns", sys.argv[1]))
    await connection.call("echo", {"text": "x"})
    print("ready", flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main())
