"""Measures passthrough chat against the barest proxy to the same upstream and, where they are named, against LiteLLM
and Portkey's gateway; then Messages and translations between the two wires against that chat.

Both live in environments of their own: `--litellm V/bin/litellm` after `uv venv V && uv pip install --python
V/bin/python 'litellm[proxy]'`, `--portkey N` after `npm install --prefix N @portkey-ai/gateway`.
"""

import argparse
import contextlib
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from bench.chat_load import ChatLoad, chat_load
from bench.report import Figure, finish, options
from bench.server import cpu_seconds, free_port, holdfast, settle

CONNECTIONS = 64
ASK: dict[str, Any] = {"model": "fixed", "messages": [{"role": "user", "content": "Say fifty words."}]}
# Messages needs a limit, and Chat Completions takes one: the same body for both.
ASK["max_tokens"] = 100
STREAM = {**ASK, "stream": True}
STAMPED = {**STREAM, "messages": [{"role": "user", "content": "stamped"}]}
UNLIMITED = {
    **os.environ,
    "HOLDFAST_REQUESTS_PER_MINUTE": "100000000",
    "HOLDFAST_MCP_CALLS_PER_MINUTE": "100000000",
    "HOLDFAST_CHAT_REQUESTS_PER_MINUTE": "100000000",
}
"""The limiter counts as always; the load just never reaches the limit."""
OURS, SEVERAL = "holdfast", "holdfast, a worker for each core"
LITELLM = (
    "model_list:\n  - model_name: fixed\n    litellm_params: {{model: openai/fixed, api_base: {url}, api_key: none}}\n"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Somebody who answers chats."""

    name: str
    port: int
    path: str
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def ask(self, body: object, *, seconds: float, connections: int = CONNECTIONS, most: int = 10**9) -> ChatLoad:
        return uvloop.run(
            chat_load(
                self.port,
                self.path,
                self.key,
                body,
                connections=connections,
                seconds=seconds,
                most=most,
                headers=self.headers,
            )
        )


@contextlib.contextmanager
def process(*command: str, port: int, seconds: float = 60, environment: dict[str, str] | None = None) -> Iterator[None]:
    """A server from its start to its end."""
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    try:
        until = time.perf_counter() + seconds
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if started.poll() is not None or time.perf_counter() > until:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.05)
        yield
    finally:
        started.terminate()
        started.wait(30)


@contextlib.contextmanager
def ours(upstream: int, workers: int = 1) -> Iterator[tuple[Target, int]]:
    """Holdfast with an endpoint for the upstream, and its process id."""
    with tempfile.TemporaryDirectory() as directory:
        with holdfast(Path(directory), UNLIMITED) as first:
            key, project = first.told["api_key"], first.told["project_id"]
        for name, kind in (("bench", "openai"), ("claude", "anthropic")):
            add = ["endpoints", "add", name, "--kind", kind, "--base-url", f"http://127.0.0.1:{upstream}/v1"]
            command = [sys.executable, "-m", "holdfast", *add, "--model", "fixed", "--data-dir", directory]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with holdfast(Path(directory), UNLIMITED, "--workers", str(workers)) as server:
            yield (
                Target(OURS if workers == 1 else SEVERAL, server.port, f"/{project}/bench/v1/chat/completions", key),
                server.pid,
            )


@contextlib.contextmanager
def litellm(executable: str, upstream: int) -> Iterator[Target]:
    """LiteLLM with a key of its own, as it starts with none no more."""
    port, key = free_port(), f"sk-{secrets.token_hex(32)}"
    # It reads prices from the network otherwise.
    environment = {**os.environ, "LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = (executable, "--host", "127.0.0.1", "--port", str(port))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(LITELLM.format(url=f"http://127.0.0.1:{upstream}/v1"))
        config.flush()
        with process(*command, "--config", config.name, port=port, seconds=120, environment=environment):
            yield Target("litellm", port, "/v1/chat/completions", key)


@contextlib.contextmanager
def portkey(directory: Path, upstream: int) -> Iterator[Target]:
    """Portkey's gateway, which asks for no key of its own."""
    port = free_port()
    program = directory.absolute() / "node_modules/@portkey-ai/gateway/build/start-server.js"
    with process("node", str(program), "--headless", f"--port={port}", port=port, seconds=120):
        sent = {"x-portkey-provider": "openai", "x-portkey-custom-host": f"http://127.0.0.1:{upstream}/v1"}
        yield Target("portkey", port, "/v1/chat/completions", "none", sent)


def resident_mb(pid: int) -> float:
    """The memory of a process now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def compare(targets: list[Target], body: object, rounds: int, seconds: float) -> dict[str, list[ChatLoad]]:
    """Loads in turns, so that all see the same machine."""
    found: dict[str, list[ChatLoad]] = {target.name: [] for target in targets}
    for target in targets:
        target.ask(body, seconds=1.0)
    for _ in range(rounds):
        for target in targets:
            found[target.name].append(target.ask(body, seconds=seconds))
    return found


def middle(loads: list[ChatLoad]) -> ChatLoad:
    return sorted(loads, key=lambda load: load.requests_per_second)[len(loads) // 2]


def figures(what: str, found: dict[str, list[ChatLoad]], least_share: float, times_litellm: float) -> list[Figure]:
    """The loads of one kind of request, and the promises about their ratios."""
    made = []
    for name, loads in found.items():
        load = middle(loads)
        made.append(Figure(f"{what}, {name}", load.requests_per_second, "req/s"))
        made.append(Figure(f"{what}, {name}, p50", load.p50_ms, "ms"))
    pairs = zip(found["holdfast"], found["floor"], strict=True)
    ratio = statistics.median(mine.requests_per_second / floor.requests_per_second for mine, floor in pairs)
    made.append(Figure(f"{what}, share of the barest proxy's requests/s", ratio, "×", least_share))
    if "litellm" in found:
        mine, floor, other = (middle(found[name]) for name in ("holdfast", "floor", "litellm"))
        made.append(
            Figure(f"{what}, times LiteLLM", mine.requests_per_second / other.requests_per_second, "×", times_litellm)
        )
        share = max(0.0, mine.p50_ms - floor.p50_ms) / (other.p50_ms - floor.p50_ms)
        made.append(Figure(f"{what}, share of LiteLLM's added p50", share, "×", 0.02, "lower"))
    if "portkey" in found:
        for name in (OURS, SEVERAL):
            pairs = zip(found[name], found["portkey"], strict=True)
            times = statistics.median(mine.requests_per_second / other.requests_per_second for mine, other in pairs)
            made.append(Figure(f"{what}, {name}, times Portkey", times, "×", 6.0))
    return made


def wires(chat: Target) -> list[Target]:
    """The other ways through the same server: Anthropic's own wire relayed, and either one translated."""
    project = chat.path.split("/")[1]
    ways = {
        "Messages relayed": "claude/v1/messages",
        "Messages translated": "bench/v1/messages",
        "chat translated": "claude/v1/chat/completions",
    }
    return [Target(name, chat.port, f"/{project}/{path}", chat.key) for name, path in ways.items()]


def cpu_ms(pid: int, target: Target, body: object, rounds: int, seconds: float) -> float:
    """The least processor time of the server's that a request took in any round: other work only ever adds to it."""
    found = []
    for _ in range(rounds):
        before = cpu_seconds(pid)
        load = target.ask(body, seconds=seconds)
        found.append(1000 * (cpu_seconds(pid) - before) / load.requests)
    return min(found)


def across(what: str, targets: list[Target], body: object, chosen: argparse.Namespace, pid: int) -> list[Figure]:
    """What other wires reach of chat passthrough, the first target, in the same rounds.

    On a busy machine requests a second tell little; the server's own processor time for each tells the same there, the
    least of any round, as other work only ever adds to it. Every other round goes the other way round: whoever comes
    later finds another machine.
    """
    rates: dict[str, list[float]] = {target.name: [] for target in targets}
    costs: dict[str, list[float]] = {target.name: [] for target in targets}
    for number in range(chosen.rounds + 1):
        for target in targets if number % 2 else targets[::-1]:
            before = cpu_seconds(pid)
            load = target.ask(body, seconds=chosen.seconds if number else 1.0)
            if number:
                rates[target.name].append(load.requests_per_second)
                costs[target.name].append((cpu_seconds(pid) - before) / load.requests)
    first = targets[0].name
    made = []
    for target in targets[1:]:
        aim = 0.9 if target.name == "Messages relayed" else 0.7
        name = f"{what}, {target.name}"
        made.append(Figure(name, statistics.median(rates[target.name]), "req/s"))
        pairs = zip(rates[target.name], rates[first], strict=True)
        made.append(Figure(f"{name} ÷ chat, requests/s", statistics.median(a / b for a, b in pairs), "×", aim))
        share = min(costs[first]) / min(costs[target.name])
        made.append(Figure(f"{name} ÷ chat, requests for processor time", share, "×"))
    return made


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each round takes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--litellm", help="LiteLLM's executable")
    parser.add_argument("--portkey", type=Path, help="where npm installed Portkey's gateway")
    parser.add_argument("--memory-requests", type=int, default=20_000, help="requests over which memory is watched")
    chosen = parser.parse_args()
    stub, floor = free_port(), free_port()
    module = (sys.executable, "-m", "bench.upstream_stub")
    with contextlib.ExitStack() as running:
        running.enter_context(process(*module, "stub", str(stub), port=stub))
        running.enter_context(process(*module, "floor", str(floor), str(stub), port=floor))
        target, pid = running.enter_context(ours(stub))
        targets = [Target("floor", floor, "/v1/chat/completions"), target]
        if chosen.litellm:
            targets.append(running.enter_context(litellm(chosen.litellm, stub)))
        # Only for whole answers: its release 1.15 answers streams with status 500 on Node 20.
        portkeys = []
        if chosen.portkey:
            # It has one process. We have as many as are asked for; both are told, and share the cores with the load.
            several, _ = running.enter_context(ours(stub, os.cpu_count() or 1))
            portkeys = [running.enter_context(portkey(chosen.portkey, stub)), several]
        settle(pid)
        told = figures("whole answers", compare(targets + portkeys, ASK, chosen.rounds, chosen.seconds), 0.6, 50)
        told += figures("streams of 50 chunks", compare(targets, STREAM, chosen.rounds, chosen.seconds), 0.85, 60)
        spent = cpu_ms(pid, target, ASK, chosen.rounds, chosen.seconds)
        told.append(Figure("whole answers, the server's processor time for each", spent, "ms", 0.25, "lower"))
        first = target.ask(STAMPED, seconds=chosen.seconds, connections=1)
        told.append(Figure("first chunk relayed after its arrival, p50", first.first_chunk_p50_ms, "ms", 1.0, "lower"))
        others = wires(target)
        told += across("whole answers", [target, *others], ASK, chosen, pid)
        told += across("streams of 50 chunks", [target, *others], STREAM, chosen, pid)
        for other in others:
            first = other.ask(STAMPED, seconds=chosen.seconds, connections=1)
            what = f"first chunk after its arrival, {other.name}, p50"
            told.append(Figure(what, first.first_chunk_p50_ms, "ms", 1.0, "lower"))
        before = resident_mb(pid)
        load = target.ask(ASK, seconds=300, most=chosen.memory_requests)
        grown = resident_mb(pid) - before
        told.append(Figure(f"memory grown over {load.requests:,} requests", grown, "MB", 16, "lower"))
    finish(told, as_json=chosen.json)


if __name__ == "__main__":
    main()
