"""Owns running our own Python programs in a sandbox, whatever interpreter the tests run on."""

from pathlib import Path
from typing import Any

from holdfast.engines.runtime.base import Mounted, RunSpec
from holdfast.engines.runtime.packages import python_mounts
from holdfast.engines.runtime.packages import python_program as our_interpreter
from holdfast.engines.runtime.process import ProcessRuntime, SandboxedProcess

HERE = Path(__file__).parent
PYTHON = our_interpreter()
interpreter = python_mounts


def python_program(path: Path, *args: str, name: str = "program", **fields: Any) -> RunSpec:
    """A Python file, to be run in a sandbox."""
    mounts = (*interpreter(), Mounted(path, "/opt/program.py"), *fields.pop("mounts", ()))
    return RunSpec(name, (PYTHON, "-I", "/opt/program.py", *args), mounts=mounts, **fields)


def hostile(mode: str, *args: str, **fields: Any) -> RunSpec:
    """The hostile MCP server, in one of its modes."""
    return python_program(HERE / "hostile_server.py", mode, *args, name="hostile", **fields)


def shell(script: str, **fields: Any) -> RunSpec:
    """A line for /bin/sh."""
    return RunSpec("shell", ("/bin/sh", "-c", script), **fields)


async def printed(runtime: ProcessRuntime, spec: RunSpec) -> str:
    """Everything that a program prints until it ends."""
    running = await runtime.start(spec)
    running.stdin.close()
    text = (await running.stdout.read()).decode()
    await running.wait()
    return text + complaints(running)


def complaints(running: SandboxedProcess) -> str:
    """Its stderr, where it has any."""
    said = running.stderr_tail()
    return f"\nstderr: {said}" if said else ""
