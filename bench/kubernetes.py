"""Measures programs as pods: `scripts/kubernetes/node .venv/bin/python -m bench.kubernetes`, as root, on a real node.

What a pod costs over a bare one, how many requests one takes, and how long finding out about 1,000 finished ones takes.
"""

import asyncio
import os
import statistics
import time
from collections import Counter
from typing import Any

from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import RunSpec
from holdfast.engines.runtime.kubernetes.building import kubernetes_runtime
from holdfast.engines.runtime.kubernetes.cluster.api import ClusterApi
from holdfast.engines.runtime.kubernetes.cluster.config import cluster_config
from holdfast.engines.runtime.kubernetes.watching import PodWatch

IMAGE = "localhost/holdfast/session:test"
TURNS = 8
FINISHED = 1_000
NAMESPACE = "holdfast-bench"


class CountingApi(ClusterApi):
    """One that counts what it asks."""

    asked: Counter[str] = Counter()

    async def request(self, method: str, path: str, *given: Any, **more: Any) -> Any:
        self.asked[method] += 1
        return await super().request(method, path, *given, **more)

    async def exec(self, *given: Any) -> Any:
        self.asked["exec"] += 1
        return await super().exec(*given)


def bare(name: str, **more: Any) -> dict[str, Any]:
    """A pod of one container and nothing else."""
    container = {"name": "c", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "600"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def bare_seconds(api: ClusterApi, name: str) -> float:
    """From the request to its running, as the API server tells it."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    began = time.perf_counter()
    made = await api.request("POST", path, bare(name))
    asked = {"fieldSelector": f"metadata.name={name}", "resourceVersion": made["metadata"]["resourceVersion"]}
    async for _, pod in api.watch(path, asked):
        if (pod.get("status") or {}).get("phase") == "Running":
            break
    took = time.perf_counter() - began
    await api.request("DELETE", f"{path}/{name}")
    return took


async def main() -> None:
    """Print the figures."""
    kubeconfig = os.environ["KUBECONFIG"]
    api = CountingApi(cluster_config(kubeconfig))
    settings = Settings(
        runtime="kubernetes", kubernetes_config=kubeconfig, kubernetes_image=IMAGE, kubernetes_pull="Never"
    )
    runtime = kubernetes_runtime(settings)
    await runtime.check()
    cluster = runtime._found()
    cluster.api.__class__ = CountingApi
    spec = RunSpec(name="bench", command=("/bin/sh", "-c", "echo there; read x"), tenant="bench")
    alone: list[float] = []
    ours: list[float] = []
    for turn in range(TURNS):
        before = sum(CountingApi.asked.values())
        began = time.perf_counter()
        run = await runtime.start(spec)
        await run.stdout.readline()
        took = time.perf_counter() - began
        await run.stop()
        if turn:
            ours.append(took)
            alone.append(await bare_seconds(api, f"bare-{turn}"))
            print(f"turn {turn}: ours {took:.2f} s, bare {alone[-1]:.2f} s", flush=True)
        else:
            await api.request("GET", f"/api/v1/namespaces/{NAMESPACE}")
            print(f"the first, with its namespace: {sum(CountingApi.asked.values()) - before} requests", flush=True)
    before = sum(CountingApi.asked.values())
    run = await runtime.start(spec)
    await run.stop()
    await asyncio.sleep(1)
    print(f"requests of one more: {sum(CountingApi.asked.values()) - before} (aim < 15)")
    over = statistics.median(ours) - statistics.median(alone)
    medians = f"first word {statistics.median(ours):.2f} s, bare {statistics.median(alone):.2f} s"
    print(f"{medians}, over {over:.2f} s (aim < 1)", flush=True)
    await runtime.close()
    await reconciled(api)
    await api.close()


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
