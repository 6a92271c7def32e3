"""Owns one pod of ours from its creation to its deletion, with what Holdfast serves inside of it."""

import asyncio
import logging
import math
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from holdfast.core.errors import HoldfastError
from holdfast.engines.runtime.base import LoopbackService, Mounted, RunSpec, SandboxMissing
from holdfast.engines.runtime.egress import EgressProxy, EgressRules
from holdfast.engines.runtime.kubernetes.cluster.api import ApiProblem, ClusterApi, ClusterUnreachable, Object
from holdfast.engines.runtime.kubernetes.failures import PodFailure, ended_before, failure_of, gone
from holdfast.engines.runtime.kubernetes.inside.link import LinkBroken, PodStream, pump
from holdfast.engines.runtime.kubernetes.names import GATE
from holdfast.engines.runtime.kubernetes.pods import Box, is_brought
from holdfast.engines.runtime.kubernetes.running import (
    PodRun,
    came_back,
    fetch_directory,
    greet,
    send_directory,
    writable,
)
from holdfast.engines.runtime.kubernetes.secrets import PodSecrets
from holdfast.engines.runtime.kubernetes.tunnel import PodLost, PodTunnel
from holdfast.engines.runtime.kubernetes.watching import PodWatch

START_SECONDS = 180.0
"""How long a pod may take until it runs: an image may have to be fetched, a node to be added."""
_GONE_SECONDS = 90.0
_TOLD_SECONDS = 5.0
_SPARE_BYTES = 64 << 20

_log = logging.getLogger(__name__)


class PodFailed(SandboxMissing):
    """A pod did not come to run; the message is one plain sentence, the code says of which kind."""

    def __init__(self, name: str, failure: PodFailure) -> None:
        super().__init__(f"{name} could not be started. {failure.said}", code=f"pod_{failure.code}")


class Pod:
    """One pod, and our way into it."""

    def __init__(
        self,
        api: ClusterApi,
        watch: PodWatch,
        secrets: PodSecrets,
        rules: EgressRules,
        namespace: str,
        name: str,
        boxes: Mapping[str, Box],
    ) -> None:
        self.namespace = namespace
        self.name = name
        self.boxes = boxes
        self.runs: set[PodRun] = set()
        self.is_over = False
        self._api = api
        self._watch = watch
        self._secrets = secrets
        self._rules = rules
        self._pod: Object | None = None
        self._heard = asyncio.Event()
        self._gone = asyncio.Event()
        self._filled: set[tuple[str, Path]] = set()
        self._answered: set[str] = set()
        self._services: list[LoopbackService] = []
        self._ways: dict[str, str] = {}
        self._proxies: dict[str, EgressProxy] = {}
        self._served = asyncio.Lock()
        self._directory = Path(tempfile.mkdtemp(prefix="holdfast-pod-"))
        self.tunnel = PodTunnel(api, namespace, name, self._accept)

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    async def create(self, pod: Object, owns_secrets: bool) -> None:
        """Have it made, and return when its sidecar answers; PodFailed where it does not come to run."""
        self._watch.listen(self.namespace, self.name, self._hear)
        made = await self._api.request("POST", self._path.rpartition("/")[0], pod)
        if owns_secrets:
            await self._secrets.own(self.namespace, self.name, made["metadata"]["uid"])
        await self._reached()

    async def find(self) -> bool:
        """Take over what an earlier process of ours left under this name; False where there is nothing that runs."""
        self._watch.listen(self.namespace, self.name, self._hear)
        try:
            self._hear("MODIFIED", await self._api.request("GET", self._path))
        except ApiProblem as problem:
            if problem.status_code != 404:
                raise
            self._gone.set()
            return False
        assert self._pod is not None
        if (self._pod.get("status") or {}).get("phase") != "Running" or self._pod["metadata"].get("deletionTimestamp"):
            return False
        try:
            await self.tunnel.open()
        except PodLost as problem:
            _log.warning("Pod %s could not be reached again: %s", self.name, problem.message)
            return False
        return True

    async def start(self, box: Box) -> PodRun:
        """Run a program in one of its containers, with these directories as they are now."""
        await self._answering(box)
        mounts = box.spec.mounts
        await self._serve(box.spec)
        # The outer first: it is emptied before it is filled.
        for mount in sorted(mounts, key=lambda mount: len(PurePosixPath(mount.target).parts)):
            await self._fill(box, mount)
        run: PodRun
        run = PodRun(self, box, self._proxies.get(box.name), lambda: self._over(run, box))
        self.runs.add(run)
        await run.begin()
        return run

    async def fetch(self, box: Box, mounts: tuple[Mounted, ...]) -> None:
        """Bring back what its program wrote."""
        for mount in writable(box, mounts):
            is_running = bool(self.runs)
            most = (mount.most_bytes or box.spec.limits.file_bytes) + _SPARE_BYTES
            await fetch_directory(self.tunnel, box.name, mount, most)
            self._filled.add((box.name, mount.source))
            if not is_running:
                await asyncio.to_thread(came_back, mount)

    async def delete(self, *, wait: bool) -> None:
        """Take it away; with `wait`, return when it is gone and its name is free."""
        self.is_over = True
        await self.tunnel.close()
        for service in self._services:
            await service.close()
        await asyncio.to_thread(shutil.rmtree, self._directory, True)
        try:
            await self._api.request("DELETE", self._path)
        except ApiProblem as problem:
            if problem.status_code != 404:
                _log.warning("Pod %s could not be deleted: %s", self.name, problem.message)
            self._gone.set()
        except ClusterUnreachable as problem:
            # It ends by itself when nobody dials, and is collected then.
            _log.warning("Pod %s could not be deleted: %s", self.name, problem.message)
        if wait:
            await self._until_gone()
        self._watch.leave(self.namespace, self.name)

    def failure(self) -> PodFailure | None:
        """Why it is ended from outside, if it is."""
        if self._pod is None:
            return None
        if self._gone.is_set():
            return gone(self._pod)
        return failure_of(self._pod)

    async def lost(self) -> PodFailure:
        """Why a program of it was killed, as far as the cluster says within a moment."""
        deadline = time.monotonic() + _TOLD_SECONDS
        while (found := self.failure()) is None and not self.is_over and time.monotonic() < deadline:
            self._heard.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline - time.monotonic()):
                    await self._heard.wait()
        if found is not None:
            return found
        return PodFailure("lost", self.tunnel.problem or "It ended without anybody seeing how.")

    def _hear(self, kind: str, pod: Object) -> None:
        self._pod = pod
        if kind == "DELETED":
            self._gone.set()
        failure = self.failure()
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if self._phase() == "Running":
            self.tunnel.hurry()
        if self._gone.is_set() or ended or (failure is not None and failure.is_final):
            self.tunnel.lose(failure.said if failure is not None else "Its pod ended.")
        self._heard.set()

    async def _reached(self) -> None:
        """Until its sidecar answers. It is dialled once the pod has a node: that it runs is told a second too late."""
        deadline = time.monotonic() + START_SECONDS
        while not self._has_node():
            self._check(deadline)
            await self._hears(deadline)
        opening = asyncio.create_task(self.tunnel.open())
        opening.add_done_callback(lambda _: self._heard.set())
        try:
            while not opening.done():
                self._check(deadline)
                await self._hears(deadline)
            try:
                opening.result()
            except PodLost:
                self._check(deadline)
                raise
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)

    async def _answering(self, box: Box) -> None:
        """Until the container is up: its sidecar may answer before."""
        if box.name in self._answered:
            return
        greeting = asyncio.create_task(greet(self.tunnel, box.name))
        greeting.add_done_callback(lambda _: self._heard.set())
        try:
            while not greeting.done():
                ended = ended_before(self._pod, box.name)
                if ended is not None:
                    raise PodFailed(self.name, ended)
                await self._hears(math.inf)
            greeting.result()
        except PodLost:
            self._check(0)
            raise
        finally:
            greeting.cancel()
            await asyncio.gather(greeting, return_exceptions=True)
        self._answered.add(box.name)

    def _has_node(self) -> bool:
        return self._pod is not None and bool(self._pod["spec"].get("nodeName"))

    def _phase(self) -> str:
        return str(((self._pod or {}).get("status") or {}).get("phase") or "Pending")

    def _check(self, deadline: float) -> None:
        """PodFailed where it does not come to run."""
        failure, is_late = self.failure(), time.monotonic() > deadline
        if failure is not None and (failure.is_final or is_late):
            raise PodFailed(self.name, failure)
        if is_late and self._phase() == "Pending":
            raise PodFailed(self.name, PodFailure("slow", f"It did not run within {START_SECONDS:g} seconds."))

    async def _hears(self, deadline: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.1, deadline - time.monotonic()) if deadline < math.inf else None):
                await self._heard.wait()
        self._heard.clear()

    async def _until_gone(self) -> None:
        try:
            async with asyncio.timeout(_GONE_SECONDS):
                await self._gone.wait()
        except TimeoutError:
            raise PodLost(f"Pod {self.name} is still there {_GONE_SECONDS:g} seconds after it was deleted.") from None

    async def _fill(self, box: Box, mount: Mounted) -> None:
        """Bring a directory, unless the container has it as we do."""
        if mount.target == GATE:
            names = await asyncio.to_thread(_sockets, mount.source)
            async with self._served:
                new = [name for name in names if f"socket {name}" not in self._ways]
                self._ways |= {f"socket {name}": str(mount.source / name) for name in new}
                await self.tunnel.ask({"to": "sockets", "names": new})
            return
        if not is_brought(mount) or (box.name, mount.source) in self._filled:
            return
        await send_directory(self.tunnel, box.name, mount)
        self._filled.add((box.name, mount.source))

    async def _serve(self, spec: RunSpec) -> None:
        """Answer at ports of its loopback."""
        async with self._served:
            wanted: dict[int, LoopbackService] = dict(spec.listeners)
            for box in self.boxes.values():
                if box.spec.egress and box.name not in self._proxies:
                    proxy = EgressProxy(box.spec.name, box.spec.egress, self._rules, token=box.token)
                    wanted[box.proxy_port] = self._proxies[box.name] = proxy
            for port, service in wanted.items():
                if f"port {port}" in self._ways:
                    continue
                path = self._directory / f"{port}.sock"
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
                listener.bind(str(path))
                listener.listen(128)
                listener.setblocking(False)
                self._services.append(service)
                self._ways[f"port {port}"] = str(path)
                await service.open(listener)
                await self.tunnel.ask({"to": "port", "port": port})

    async def _accept(self, channel: PodStream) -> None:
        """Somebody in the pod connects to what we serve there."""
        order = channel.order
        way = self._ways.get(
            f"port {order.get('port')}" if order.get("from") == "port" else f"socket {order.get('name')}"
        )
        if way is None:
            channel.close()
            return
        try:
            connection = await _connected(Path(way))
        except OSError as problem:
            _log.warning("Pod %s could not be led to %s: %s", self.name, Path(way).name, problem)
            channel.close()
        else:
            await pump(channel, *connection)

    async def _over(self, run: PodRun, box: Box) -> None:
        """A run has ended: what it left comes back."""
        self.runs.discard(run)
        if self.tunnel.problem is not None:
            return
        try:
            await self.fetch(box, box.spec.mounts)
        except (HoldfastError, LinkBroken) as problem:
            _log.warning("What %s left in pod %s could not be brought back: %s", box.spec.name, self.name, problem)


async def _connected(way: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # An address of a socket has 107 bytes; a data directory may have more.
    directory = os.open(way.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{way.name}")
    finally:
        os.close(directory)


def _sockets(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if stat.S_ISSOCK(path.lstat().st_mode)]
