"""Owns running our own Python programs in a sandbox, whatever interpreter the tests run on."""

import sys
from pathlib import Path
from typing import Any

from holdfast.engines.runtime.base import Mounted, RunSpec
from holdfast.engines.runtime.process import ProcessRuntime, SandboxedProcess

HERE = Path(__file__).parent
PYTHON = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"


def interpreter() -> tuple[Mounted, ...]:
    """What a Python program needs of this machine."""
    return () if sys.base_prefix.startswith("/usr") else (Mounted(Path(sys.base_prefix), sys.base_prefix),)


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
