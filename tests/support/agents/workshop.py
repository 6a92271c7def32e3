"""Owns running an agent for a test as a session does: sandbox, home, worktree, model on loopback, MCP over a socket."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.engines.runners.base import (
    HOME,
    MODEL_PORT,
    WORKTREE,
    AgentRunner,
    Assignment,
    CanResume,
    Driving,
    RunnerEvent,
    Said,
    ServerEntry,
    ToolEnded,
    ToolStarted,
    TurnOver,
)
from holdfast.engines.runtime.base import Mounted, RunLimits, RunSpec
from holdfast.engines.runtime.loopback import relay
from holdfast.engines.runtime.process import ProcessRuntime, SandboxedProcess
from tests.fakes.mcp import counting
from tests.support.sandbox.programs import HERE, PYTHON, interpreter

PATIENCE_SECONDS = 120
SOCKETS = "/run/x1/mcp"
PIPE = "/opt/pipe.py"


@dataclass
class Told:
    """What an agent told until now."""

    events: list[RunnerEvent] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Said))

    @property
    def token(self) -> str:
        return next(event.token for event in reversed(self.events) if isinstance(event, CanResume))

    @property
    def calls(self) -> list[ToolStarted]:
        return [event for event in self.events if isinstance(event, ToolStarted)]

    @property
    def results(self) -> list[ToolEnded]:
        return [event for event in self.events if isinstance(event, ToolEnded)]


@dataclass
class AtWork:
    """An agent in its sandbox."""

    driving: Driving
    running: SandboxedProcess
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        self._events = self.driving.events().__aiter__()

    async def until(self, wanted: Callable[[RunnerEvent], bool]) -> RunnerEvent:
        """Read along until something is told."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                event = await anext(self._events)
                self.told.events.append(event)
                if wanted(event):
                    return event

    async def turn(self) -> TurnOver:
        """Read along until it has nothing more to do."""
        event = await self.until(lambda event: isinstance(event, TurnOver))
        assert isinstance(event, TurnOver)
        return event

    async def rest(self) -> None:
        """Read along until its process has ended."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for event in self._events:
                self.told.events.append(event)


@dataclass
class Workshop:
    """Everything that outlives one process of an agent."""

    runtime: ProcessRuntime
    home: Path
    worktree: Path
    sockets: Path
    runs: Path
    assignment: Assignment
    model_at: tuple[str, int]
    limits: RunLimits = field(default_factory=lambda: RunLimits(memory_bytes=4 << 30, processes=256))

    async def start(self, runner: AgentRunner, prompt: str, *, resume: str | None = None) -> AtWork:
        assignment = replace(self.assignment, prompt=prompt, resume=resume)
        plan = runner.plan(assignment)
        for path, data in plan.home_files.items():
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_bytes(data)
        running = await self.runtime.start(
            RunSpec(
                name=runner.name,
                command=plan.command,
                env=plan.env,
                directory=WORKTREE,
                mounts=(
                    *plan.mounts,
                    *(mount for mount in interpreter() if mount not in plan.mounts),
                    Mounted(HERE / "pipe.py", PIPE),
                    Mounted(self.sockets, SOCKETS),
                    Mounted(self.home, HOME, writable=True),
                    Mounted(self.worktree, WORKTREE, writable=True),
                ),
                listeners={MODEL_PORT: relay(*self.model_at)},
                limits=replace(self.limits, memory_bytes=max(self.limits.memory_bytes, plan.least_memory_bytes)),
            )
        )
        return AtWork(await runner.drive(running, assignment), running)

    def git(self, *words: str) -> str:
        """What git says of the worktree; the agent's own hooks and settings don't count here."""
        safe = ("-c", f"safe.directory={self.worktree}", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
        run = subprocess.run(["git", *safe, *words], cwd=self.worktree, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    def counted(self) -> list[str]:
        """The calls that the MCP server saw and wrote down."""
        return (self.runs / "runs").read_text().splitlines() if (self.runs / "runs").exists() else []


@asynccontextmanager
async def workshop(
    directory: Path, model_url: str, key: str, *, env: Mapping[str, str] = {}
) -> AsyncIterator[Workshop]:
    """A place for an agent, with a model and a small real MCP server; nothing of it is left afterwards."""
    home, worktree, sockets, runs = (directory / name for name in ("home", "worktree", "sockets", "runs"))
    for each in (home, worktree, sockets, runs):
        each.mkdir(parents=True)
    (worktree / "README.md").write_text("A repository.\n")
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "Begin"],
    ):
        subprocess.run(["git", *words], cwd=worktree, check=True)
    place = model_url.removeprefix("http://").partition("/")
    host, _, port = place[0].partition(":")
    path = f"/{place[2].removesuffix('v1').rstrip('/')}".rstrip("/")
    assignment = Assignment(
        prompt="",
        instructions="You keep the harbour's papers.",
        model="fake-model",
        model_url=f"http://127.0.0.1:{MODEL_PORT}{path}",
        model_key=key,
        servers={"harbour": ServerEntry(PYTHON, ("-I", "-S", PIPE, f"{SOCKETS}/harbour.sock"))},
        env=env,
    )
    runtime = ProcessRuntime()
    async with mcp_server(sockets / "harbour.sock", runs):
        try:
            yield Workshop(runtime, home, worktree, sockets, runs, assignment, (host, int(port)))
        finally:
            await runtime.close()


@asynccontextmanager
async def mcp_server(path: Path, runs: Path) -> AsyncIterator[None]:
    """A real MCP server, a process for each connection, behind a Unix socket."""
    busy: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy.add(task)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(counting.__file__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"COUNT_DIR": str(runs)},
        )
        assert process.stdin is not None and process.stdout is not None
        up = asyncio.create_task(_pump(reader, process.stdin))
        try:
            await _pump(process.stdout, writer)
        finally:
            up.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            writer.close()
            busy.discard(task)

    server = await asyncio.start_unix_server(serve, path)
    path.chmod(0o777)
    try:
        yield
    finally:
        server.close()
        for task in tuple(busy):
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await source.read(65_536):
            target.write(piece)
            await target.drain()
        target.close()
