"""Owns programs as pods of a cluster: each in a container, beside a sidecar that Holdfast dials."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from holdfast.core.errors import Conflict, HoldfastError
from holdfast.engines.runtime.base import RunEnding, RunSpec, SandboxMissing
from holdfast.engines.runtime.egress import EgressRules
from holdfast.engines.runtime.kubernetes.cluster.api import ApiProblem, ClusterApi
from holdfast.engines.runtime.kubernetes.namespaces import Namespaces
from holdfast.engines.runtime.kubernetes.network import NetworkProbe
from holdfast.engines.runtime.kubernetes.pod import Pod
from holdfast.engines.runtime.kubernetes.pods import (
    Box,
    PodImages,
    as_directories,
    box_name,
    boxes_of,
    check_spec,
    kept_keys,
    pod_name,
    pod_of,
    secret_key,
    secret_names,
)
from holdfast.engines.runtime.kubernetes.running import PodRun, is_here
from holdfast.engines.runtime.kubernetes.secrets import PodSecrets
from holdfast.engines.runtime.kubernetes.watching import PodWatch

_NATIVE_SIDECARS = (1, 29)
_GROUP_SECONDS = 240.0
_SWEEP_SECONDS = 60.0
_RETRY_SECONDS = 15.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is needed of a cluster."""

    api: ClusterApi
    watch: PodWatch
    namespaces: Namespaces
    secrets: PodSecrets
    images: PodImages
    network: NetworkProbe


class KubernetesRuntime:
    """Runs programs as pods. The API server knows which there are; we only follow."""

    def __init__(self, cluster: Callable[[], Cluster], rules: EgressRules) -> None:
        """`cluster` is asked when the first program is started: most commands start none."""
        self._make = cluster
        self._rules = rules
        self._cluster: Cluster | None = None
        self._groups: dict[str, asyncio.Future[Pod]] = {}
        self._alone: dict[Pod, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._checking = asyncio.Lock()
        self._stopping = asyncio.Event()

    async def check(self) -> None:
        async with self._checking:
            cluster = self._found()
            await cluster.watch.start()

    async def open_network(self) -> str | None:
        """Have one pod try it: a sentence where pods have a network although their policy leads nowhere."""
        spec = RunSpec(name="network probe", command=("/bin/sh", "-c", "read line"))
        run = await self.start(spec)
        try:
            (pod,) = self._alone
            return await self._found().network.open_network(pod.namespace, pod.name)
        finally:
            await run.stop(0)

    async def run(self) -> None:
        """Collect, from now on and each minute, what others of us left in the cluster."""
        said = ""
        self._stopping.clear()
        while not self._stopping.is_set():
            pause = _SWEEP_SECONDS
            try:
                await self.check()
                await self._found().watch.sweep()
                said = ""
            except HoldfastError as problem:
                pause = _RETRY_SECONDS
                if problem.message != said:
                    _log.warning("Programs can't be run in the cluster: %s", problem.message)
                said = problem.message
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def stop(self) -> None:
        """Collect no more; what runs goes on until `close`."""
        self._stopping.set()

    async def start(self, spec: RunSpec) -> "StartedRun":
        await self.check()
        spec = as_directories(spec)
        there = self._groups.get(spec.group) if spec.group is not None else None
        if spec.group is not None and (spec.role == "server" or (there is not None and there.done())):
            return await self._join(spec, spec.group)
        check_spec(spec)
        for each in spec.companions:
            check_spec(each)
        pod = await self._created(spec)
        if spec.group is None:
            self._alone[pod] = asyncio.create_task(asyncio.sleep(0))
        return await self._started(pod, spec)

    async def recover(self, spec: RunSpec) -> bool:
        await self.check()
        cluster = self._found()
        boxes = boxes_of(spec)
        pod = self._pod(cluster, spec, pod_name(spec), boxes)
        try:
            if await pod.find():
                box = boxes[box_name(spec)]
                await pod.fetch(box, spec.mounts)
        except HoldfastError as problem:
            _log.warning("What an earlier run of %s wrote could not be brought back: %s", spec.name, problem.message)
        finally:
            await pod.delete(wait=True)
        return await asyncio.to_thread(lambda: all(is_here(mount) for mount in spec.mounts))

    async def refresh(self, group: str) -> None:
        waiting = self._groups.get(group)
        if waiting is not None and waiting.done() and not waiting.cancelled():
            pod = waiting.result()
            box = next(iter(pod.boxes.values()))
            await pod.fetch(box, box.spec.mounts)

    async def release(self, group: str) -> None:
        waiting = self._groups.pop(group, None)
        if waiting is None:
            return
        if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
            self._later(waiting.result().delete(wait=False))
        else:
            waiting.cancel()

    async def close(self) -> None:
        pods = [*self._alone]
        for group in list(self._groups):
            await self.release(group)
        await asyncio.gather(*(self._end(pod) for pod in pods))
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._cluster is not None:
            await self._cluster.watch.stop()
            await self._cluster.api.close()

    def _found(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._make()
        return self._cluster

    async def _join(self, spec: RunSpec, group: str) -> "StartedRun":
        """Run in the pod of the group, once it is there."""
        waiting = self._groups.setdefault(group, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(_GROUP_SECONDS):
                pod = await asyncio.shield(waiting)
        except TimeoutError:
            raise SandboxMissing(f"{spec.name} was not started: the pod of {group} did not come.") from None
        except asyncio.CancelledError:
            if not waiting.cancelled():
                raise
            raise SandboxMissing(f"{spec.name} was not started: the pod of {group} is gone.") from None
        return await self._started(pod, spec)

    async def _started(self, pod: Pod, spec: RunSpec) -> "StartedRun":
        box = pod.boxes.get(box_name(spec)) or next(iter(pod.boxes.values()))
        try:
            run = await pod.start(_for(box, spec))
        except BaseException:
            if pod in self._alone:
                await self._end(pod)
            raise
        return StartedRun(run, (lambda: self._end(pod)) if pod in self._alone else None)

    async def _created(self, spec: RunSpec) -> Pod:
        cluster = self._found()
        name, boxes = pod_name(spec), boxes_of(spec)
        namespace = await cluster.namespaces.ready(spec.tenant)
        kept = kept_keys(boxes, namespace)
        values = {
            key: box.spec.env[each]
            for box in boxes.values()
            for each in secret_names(box.spec)
            if (key := secret_key(box.name, each)) not in kept
        }
        native = await cluster.api.version() >= _NATIVE_SIDECARS
        for attempt in (1, 2):
            pod = self._pod(cluster, spec, name, boxes)
            try:
                await cluster.namespaces.ready(spec.tenant)
                keys = await cluster.secrets.put(namespace, name, values) if values else {}
                made = pod_of(name, boxes, {**keys, **kept}, cluster.images, native_sidecars=native)
                await pod.create(made, owns_secrets=bool(values))
            except ApiProblem as problem:
                if problem.reason == "NotFound":
                    # Somebody deleted the namespace since it was made.
                    cluster.namespaces.forget(spec.tenant)
                if problem.reason not in ("AlreadyExists", "NotFound") or attempt == 2:
                    await self._undone(cluster, pod, values)
                    raise
                # Of an earlier run, whose end was not seen: two of one group never run.
                await pod.delete(wait=problem.reason == "AlreadyExists")
                continue
            except BaseException as problem:
                await self._undone(cluster, pod, values)
                self._tell_group(spec, problem)
                raise
            self._tell_group(spec, pod)
            self._later(cluster.network.look(pod.namespace, pod.name))
            return pod
        raise Conflict(f"The pod {name} is somebody else's.")

    async def _undone(self, cluster: Cluster, pod: Pod, values: object) -> None:
        await asyncio.shield(pod.delete(wait=False))
        if values:
            with suppress(HoldfastError):
                await cluster.secrets.drop(pod.namespace, pod.name)

    def _tell_group(self, spec: RunSpec, made: Pod | BaseException) -> None:
        if spec.group is None:
            return
        waiting = self._groups.setdefault(spec.group, asyncio.get_running_loop().create_future())
        if isinstance(made, Pod) and not waiting.done():
            waiting.set_result(made)
        elif not waiting.done():
            self._groups.pop(spec.group)
            waiting.cancel()

    def _pod(self, cluster: Cluster, spec: RunSpec, name: str, boxes: dict[str, Box]) -> Pod:
        namespace = cluster.namespaces.name(spec.tenant)
        return Pod(cluster.api, cluster.watch, cluster.secrets, self._rules, namespace, name, boxes)

    async def _end(self, pod: Pod) -> None:
        if self._alone.pop(pod, None) is not None:
            self._later(pod.delete(wait=False))

    def _later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class StartedRun:
    """A program in a pod; a pod of its own is deleted once it has ended."""

    def __init__(self, run: PodRun, over: Callable[[], Awaitable[None]] | None) -> None:
        self._run = run
        self._over = over

    @property
    def stdin(self) -> asyncio.StreamWriter:
        return self._run.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        return self._run.stdout

    def stderr_tail(self) -> str:
        return self._run.stderr_tail()

    async def wait(self) -> RunEnding:
        return await self._run.wait()

    async def stop(self, grace_seconds: float = 2) -> RunEnding:
        ending = await self._run.stop(grace_seconds)
        if self._over is not None:
            await self._over()
        return ending


def _for(box: Box, spec: RunSpec) -> Box:
    """The container as another program sees it that is run in it."""
    return Box(box.name, box.index, spec, box.held, box.proxy_port, box.token)
