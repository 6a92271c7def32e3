"""Measures calling MCP servers: from the sandbox and through a started Holdfast, against bare with the official SDK."""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp import Client, StdioServerParameters

from bench import governed
from bench.report import Figure, finish, options
from holdfast.engines.mcp_client.pool import ConnectionPool
from holdfast.engines.mcp_client.stdio import StdioConnection, open_stdio
from holdfast.engines.runtime.base import Mounted, RunSpec
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import HERE, hostile

NODE = Path(__file__).parents[1] / "tests" / "node" / "node_modules"
EVERYTHING = "@modelcontextprotocol/server-everything/dist/index.js"
ADDED_CPU_MS = 3.0
ADDED_START_MS = 200.0

Call = Callable[[], Awaitable[object]]


async def cpu_ms(call: Call, calls: int) -> float:
    """Our own processor time for a call, one after the other."""
    for _ in range(20):
        await call()
    began = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - began) / calls * 1_000


async def rate(call: Call, calls: int, at_once: int) -> float:
    """Calls in a second with several in flight."""
    left = iter(range(calls))

    async def caller() -> None:
        for _ in left:
            await call()

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    return calls / (time.perf_counter() - began)


async def bare(calls: int) -> tuple[float, float]:
    """The plain Python server, called with the official SDK: CPU of a call, and calls in a second."""
    server = StdioServerParameters(command=sys.executable, args=["-I", str(HERE / "hostile_server.py"), "plain"])
    async with Client(server, mode="legacy") as client:

        async def call() -> object:
            return await client.session.call_tool("echo", {"text": "x"})

        return await cpu_ms(call, calls), await rate(call, calls, 32)


async def ours(runtime: ProcessRuntime, calls: int) -> tuple[float, float]:
    """The same server in the sandbox, through pool and gate."""
    pool = ConnectionPool()

    async def open() -> StdioConnection:
        return await open_stdio(runtime, hostile("plain"))

    async def call() -> object:
        async with pool.connection("plain", open) as connection:
            return await connection.call("echo", {"text": "x"})

    try:
        return await cpu_ms(call, calls), await rate(call, calls, 32)
    finally:
        await pool.close()


async def starts(runtime: ProcessRuntime, rounds: int) -> tuple[float, float]:
    """Milliseconds from nothing to the answered greeting of a Node server: bare, and in the sandbox; taken in turns."""
    alone: list[float] = []
    boxed: list[float] = []
    spec = RunSpec(
        "everything", ("node", f"/opt/node_modules/{EVERYTHING}"), mounts=(Mounted(NODE, "/opt/node_modules"),)
    )
    for _ in range(rounds):
        began = time.perf_counter()
        async with Client(StdioServerParameters(command="node", args=[str(NODE / EVERYTHING)]), mode="legacy"):
            alone.append(time.perf_counter() - began)
        began = time.perf_counter()
        connection = await open_stdio(runtime, spec)
        boxed.append(time.perf_counter() - began)
        await connection.close()
    return statistics.median(alone) * 1_000, statistics.median(boxed) * 1_000


async def measured(calls: int, rounds: int) -> tuple[list[Figure], float]:
    """What pool, gate and sandbox cost, and the CPU of a bare call."""
    runtime = ProcessRuntime()
    await runtime.check()
    bare_cpu, bare_rate = await bare(calls)
    our_cpu, our_rate = await ours(runtime, calls)
    bare_start, our_start = await starts(runtime, rounds)
    await runtime.close()
    return [
        Figure("CPU of a warm call, bare server, official SDK", bare_cpu, "ms"),
        Figure("CPU of a warm call, sandbox, pool and gate", our_cpu, "ms"),
        Figure("added", our_cpu - bare_cpu, "ms", ADDED_CPU_MS, "lower"),
        Figure("calls a second at 32 at once, bare server, official SDK", bare_rate, "/s"),
        Figure("calls a second at 32 at once, sandbox, pool and gate", our_rate, "/s"),
        Figure("start of server-everything, bare", bare_start, "ms"),
        Figure("start of server-everything, sandbox", our_start, "ms"),
        Figure("added", our_start - bare_start, "ms", ADDED_START_MS, "lower"),
    ], bare_cpu


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6, help="how long each gateway is asked")
    parser.add_argument("--contextforge", type=Path, help="an environment with mcp-contextforge-gateway")
    chosen = parser.parse_args()
    figures, bare_cpu = asyncio.run(measured(chosen.calls, chosen.rounds))
    figures += governed.measured(chosen.calls // 2, bare_cpu, chosen.contextforge, chosen.seconds)
    finish(figures, as_json=chosen.json)


if __name__ == "__main__":
    main()
