"""Owns a pod as sandboxes of this machine: each container with its own volumes and processes, one loopback for all."""

import asyncio
import base64
import os
import shlex
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.engines.runtime.bwrap import find_bwrap
from holdfast.engines.runtime.kubernetes import inside
from holdfast.engines.runtime.kubernetes.names import IMAGE_PLACE

_INSIDE = str(Path(str(inside.__file__)).parent)


class FakePod:
    """One of them. Containers see this machine's programs, and of its files nothing else."""

    def __init__(self, pod: dict[str, Any], secrets: dict[str, Any], *, is_closed: bool) -> None:
        """`is_closed` where the network holds it to its policy."""
        self._pod = pod
        self._is_closed = is_closed
        # Short: an address of a socket has 107 bytes.
        self._directory = Path(tempfile.mkdtemp(prefix="pod-", dir="/tmp"))
        self._secrets = secrets
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        spec = self._pod["spec"]
        for volume in spec["volumes"]:
            (self._directory / volume["name"]).mkdir(parents=True, mode=0o777)
        containers = [*spec["containers"], *(c for c in spec.get("initContainers", ()) if c.get("restartPolicy"))]
        script = "\n".join(f"{shlex.join(self._command(each))} &" for each in containers) + "\nwait\n"
        bwrap = str(find_bwrap())
        outer = (bwrap, "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--unshare-net")
        rights = ("--unshare-pid", "--die-with-parent", "--cap-add", "ALL")
        self._process = await asyncio.create_subprocess_exec(*outer, *rights, "/bin/sh", "-c", script)

    async def exec(self, container: str, command: list[str]) -> asyncio.subprocess.Process:
        """A program of ours, which only reaches a socket of the container's."""
        (found,) = [
            each
            for each in (*self._pod["spec"]["containers"], *self._pod["spec"].get("initContainers", ()))
            if each["name"] == container
        ]
        pipe = asyncio.subprocess.PIPE
        if any(word.endswith("/reach.py") for word in command):
            program = [sys.executable, *(word.replace(IMAGE_PLACE, _INSIDE) for word in command[1:])]
            confined = (str(find_bwrap()), "--dev-bind", "/", "/", "--unshare-net") if self._is_closed else ()
            return await asyncio.create_subprocess_exec(*confined, *program, stdin=pipe, stdout=pipe)
        *program, path = command
        mount = max(
            (each for each in found["volumeMounts"] if path.startswith(each["mountPath"] + "/")),
            key=lambda each: len(each["mountPath"]),
        )
        outside = str(self._directory / mount["name"]) + path.removeprefix(mount["mountPath"])
        program = [word.replace(IMAGE_PLACE, _INSIDE) for word in program]
        program[0] = sys.executable
        async with asyncio.timeout(20):
            while not Path(outside).exists():
                await asyncio.sleep(0.02)
        return await asyncio.create_subprocess_exec(*program, outside, stdin=pipe, stdout=pipe)

    async def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        await asyncio.to_thread(shutil.rmtree, self._directory, True)

    def _command(self, container: dict[str, Any]) -> list[str]:
        words = [str(find_bwrap()), "--unshare-pid", "--as-pid-1", "--die-with-parent", "--clearenv"]
        for place in ("/usr", "/bin", "/lib", "/lib64", "/etc"):
            words += ["--ro-bind", place, place]
        words += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", _INSIDE, IMAGE_PLACE]
        for each in sorted(container["volumeMounts"], key=lambda each: len(each["mountPath"])):
            bind = "--ro-bind" if each.get("readOnly") else "--bind"
            words += [bind, str(self._directory / each["name"]), each["mountPath"]]
        words += ["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"]
        for each in container.get("env", ()):
            words += ["--setenv", each["name"], self._value(each)]
        return [*words, *container["command"], *container.get("args", ())]

    def _value(self, env: dict[str, Any]) -> str:
        if "value" in env:
            return str(env["value"]).replace("$$(", "$(")
        reference = env["valueFrom"]["secretKeyRef"]
        return base64.b64decode(self._secrets[reference["name"]]["data"][reference["key"]]).decode()
