"""Measures programs as pods: `scripts/kubernetes/node .venv/bin/python -m bench.kubernetes`, as root, on a real node.

What a pod costs over a bare one, how many requests one takes, and how long finding out about 1,000 finished ones takes.
Pods of ours take turns with bare ones, and with ones of the same shape whose containers sleep. Beside elapsed seconds,
processor time of the whole node is told: it hardly depends on what else the machine does.
"""

import asyncio
import copy
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import RunSpec
from holdfast.engines.runtime.kubernetes.building import kubernetes_runtime
from holdfast.engines.runtime.kubernetes.cluster.api import ApiProblem, ClusterApi
from holdfast.engines.runtime.kubernetes.cluster.config import cluster_config
from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime
from holdfast.engines.runtime.kubernetes.watching import PodWatch

IMAGE = "localhost/holdfast/session:test"
TURNS = 8
IDLE_SECONDS = 10.0
IDLE_SHARE: list[float] = []
"""What of a processor the node takes when nothing is asked of it."""
FINISHED = 1_000
NAMESPACE = "holdfast-bench"


class TimedApi(ClusterApi):
    """One that notes what it asks and hears, and when."""

    noted: list[tuple[float, str]] = []
    made: dict[str, Any]
    """The pod that was asked for last."""

    async def request(self, method: str, path: str, *given: Any, **more: Any) -> Any:
        if method == "POST" and path.endswith("/pods"):
            TimedApi.made = given[0]
        answer = await super().request(method, path, *given, **more)
        self.note(f"{method} {path.rpartition('/')[2] if method == 'POST' else ''}".strip())
        return answer

    async def exec(self, *given: Any) -> Any:
        try:
            stream = await super().exec(*given)
        except ApiProblem:
            self.note("exec refused")
            raise
        self.note("exec")
        return stream

    async def watch(self, *given: Any) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        async for kind, pod in super().watch(*given):
            self.note(f"heard {kind} {_state(pod)}")
            yield kind, pod

    def note(self, what: str) -> None:
        self.noted.append((time.perf_counter(), what))

    @classmethod
    def requests(cls) -> int:
        """How many were asked."""
        return sum(not what.startswith("heard") for _, what in cls.noted)


def _state(pod: dict[str, Any]) -> str:
    """A pod's state in two words."""
    where = "placed" if (pod.get("spec") or {}).get("nodeName") else "unplaced"
    return f"{where} {(pod.get('status') or {}).get('phase')}"


def processor_seconds() -> float:
    """What every process of this node has used, those that ended with their parents; not what this command used."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        if path.parent.name == str(os.getpid()):
            continue
        # A process may end while it is looked at.
        with suppress(OSError):
            ticks += sum(int(each) for each in path.read_text().rpartition(")")[2].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def bare(name: str, **more: Any) -> dict[str, Any]:
    """A pod of one container and nothing else."""
    container = {"name": "c", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "600"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def asleep(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """A pod of the same shape that does nothing."""
    made = copy.deepcopy(pod)
    made["metadata"] = {"name": name}
    made["spec"]["terminationGracePeriodSeconds"] = 1
    for container in made["spec"]["containers"]:
        container.pop("args", None)
        container["command"] = ["sleep", "600"]
    return made


async def other_pod(api: ClusterApi, pod: dict[str, Any], done: Callable[[], None]) -> None:
    """`done` when it runs, as the API server tells it."""
    path, name = f"/api/v1/namespaces/{NAMESPACE}/pods", pod["metadata"]["name"]
    made = await api.request("POST", path, pod)
    asked = {"fieldSelector": f"metadata.name={name}", "resourceVersion": made["metadata"]["resourceVersion"]}
    async for _, pod in api.watch(path, asked):
        if (pod.get("status") or {}).get("phase") == "Running":
            break
    done()
    await api.request("DELETE", f"{path}/{name}")
    await until_gone(api)


async def our_pod(runtime: KubernetesRuntime, api: ClusterApi, spec: RunSpec, done: Callable[[], None]) -> None:
    """`done` at the program's first word."""
    run = await runtime.start(spec)
    await run.stdout.readline()
    done()
    await run.stop()
    await until_gone(api)


async def until_gone(api: ClusterApi) -> None:
    """Until the namespace has no pod, so that one's end is not counted to the next."""
    while (await ClusterApi.request(api, "GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]:
        await asyncio.sleep(0.2)


async def measured(what: Callable[[Callable[[], None]], Awaitable[None]]) -> tuple[float, float, list[str]]:
    """Seconds until it is done, processor time of the node beside what it takes anyway, and what was asked when."""
    TimedApi.noted.clear()
    began, used = time.perf_counter(), processor_seconds()
    found: list[tuple[float, float, list[str]]] = []

    def done() -> None:
        took = time.perf_counter() - began
        told = [f"{moment - began:.2f} {noted}" for moment, noted in TimedApi.noted]
        found.append((took, processor_seconds() - used - IDLE_SHARE[0] * took, told))

    await what(done)
    return found[0]


async def main() -> None:
    """Print the figures."""
    kubeconfig = os.environ["KUBECONFIG"]
    api = TimedApi(cluster_config(kubeconfig))
    settings = Settings(
        runtime="kubernetes", kubernetes_config=kubeconfig, kubernetes_image=IMAGE, kubernetes_pull="Never"
    )
    runtime = kubernetes_runtime(settings)
    await runtime.check()
    cluster = runtime._found()
    cluster.api.__class__ = TimedApi
    spec = RunSpec(name="bench", command=("/bin/sh", "-c", "echo there; read x"), tenant="bench")
    await our_pod(runtime, api, spec, lambda: None)
    print(f"the first, with its namespace: {TimedApi.requests()} requests", flush=True)
    used = processor_seconds()
    await asyncio.sleep(IDLE_SECONDS)
    IDLE_SHARE.append((processor_seconds() - used) / IDLE_SECONDS)
    print(f"the node takes {IDLE_SHARE[0]:.2f} of a processor when nothing is asked of it", flush=True)
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "bare": [], "asleep": []}
    asked: list[int] = []
    shape = TimedApi.made
    for turn in range(TURNS):
        others = {"bare": bare(f"bare-{turn}"), "asleep": asleep(shape, f"asleep-{turn}")}
        took, used, told = await measured(lambda done: our_pod(runtime, api, spec, done))
        asked.append(TimedApi.requests())
        found["ours"].append((took, used))
        for name, pod in others.items():
            took, used, _ = await measured(lambda done: other_pod(api, pod, done))  # noqa: B023 - awaited at once
            found[name].append((took, used))
        figures = "; ".join(f"{name} {_told(each[-1])}" for name, each in found.items())
        print(f"turn {turn}, load {os.getloadavg()[0]:.0f}: {figures}\n  ours: {', '.join(told)}", flush=True)
    print(f"requests of one, to its deletion: {statistics.median(asked):g} (aim < 15)")
    for name in ("bare", "asleep"):
        pairs = list(zip(found["ours"], found[name], strict=True))
        over = [statistics.median(one[at] - other[at] for one, other in pairs) for at in (0, 1)]
        print(f"ours over {name}, median of {TURNS} pairs: {_told((over[0], over[1]))} (aim < 1 s)", flush=True)
    await runtime.close()
    await reconciled(api)
    await api.close()


def _told(figure: tuple[float, float]) -> str:
    return f"{figure[0]:.2f} s and {figure[1]:.2f} s of the node's processor time"


async def reconciled(api: ClusterApi) -> None:
    """What a start takes that finds finished pods."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    labels = {"app.kubernetes.io/managed-by": "holdfast", "holdfast.dev/run": "bench"}
    gate = asyncio.Semaphore(8)

    async def finished(number: int) -> None:
        async with gate:
            pod = bare(f"finished-{number}", schedulerName="nobody")
            pod["metadata"]["labels"] = labels
            await api.request("POST", path, pod)
            await api.request("PATCH", f"{path}/finished-{number}/status", {"status": {"phase": "Succeeded"}})

    await asyncio.gather(*(finished(number) for number in range(FINISHED)))
    watch = PodWatch(api, None)
    began, cpu = time.perf_counter(), time.process_time()
    await watch.start()
    print(
        f"{FINISHED} finished pods known after {time.perf_counter() - began:.2f} s, "
        f"{time.process_time() - cpu:.2f} s of CPU (aim < 2)",
        flush=True,
    )
    # What has just ended is left to whoever waits for it.
    await asyncio.sleep(31)
    began, cpu = time.perf_counter(), time.process_time()
    await watch.sweep()
    print(f"and collected in {time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of CPU")
    left = await api.request("GET", path, params={"labelSelector": "holdfast.dev/run=bench"})
    print(f"{len(left['items'])} of them are left")
    await watch.stop()


if __name__ == "__main__":
    asyncio.run(main())
