"""Owns the proof that each way in which a pod fails is said in one plain sentence, as a real cluster has it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import KeptAt, RunEnding, RunLimits, RunSpec
from holdfast.engines.runtime.kubernetes import pod as pod_module
from holdfast.engines.runtime.kubernetes import pods as pods_module
from holdfast.engines.runtime.kubernetes.building import kubernetes_runtime
from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime
from tests.kubernetes.node.conftest import PATIENCE_SECONDS, SETTINGS, kill, kubectl, objects, start


@pytest.fixture
async def runtime() -> AsyncIterator[KubernetesRuntime]:
    made = kubernetes_runtime(Settings(**SETTINGS))
    yield made
    await made.close()


def spec(script: str, **more: object) -> RunSpec:
    given = {"name": "try", "command": ("/bin/sh", "-c", script), "tenant": "failing", **more}
    return RunSpec(**given)  # type: ignore[arg-type]


async def ended(runtime: KubernetesRuntime, given: RunSpec) -> RunEnding:
    run = await runtime.start(given)
    try:
        return await run.wait()
    finally:
        await run.stop(0)


async def said(runtime: KubernetesRuntime, given: RunSpec) -> str:
    with pytest.raises(HoldfastError) as refused:
        await runtime.start(given)
    return refused.value.message


async def test_an_image_that_is_not_there() -> None:
    runtime = kubernetes_runtime(Settings(**{**SETTINGS, "kubernetes_image": "localhost/nobody/has:this"}))
    try:
        message = await said(runtime, spec("true"))
    finally:
        await runtime.close()
    assert "can't be fetched" in message and "localhost/nobody/has:this" in message, message


async def test_too_much_memory(runtime: KubernetesRuntime) -> None:
    script = "python3 -c 'x = bytearray(300 << 20)'"
    ending = await ended(runtime, spec(script, limits=RunLimits(memory_bytes=96 << 20)))
    assert (ending.how, ending.said) == ("memory", "It was stopped because it used more than 96 MiB of memory.")


async def test_too_much_time(runtime: KubernetesRuntime) -> None:
    ending = await ended(runtime, spec("sleep 60", limits=RunLimits(seconds=1)))
    assert (ending.how, ending.said) == ("time", "It was stopped because it ran for more than 1 seconds.")


async def test_a_secret_that_is_not_there(runtime: KubernetesRuntime) -> None:
    kept = {"TOKEN": KeptAt("holdfast-failing/replaced-meanwhile", "TOKEN")}
    given = spec("true", env={"TOKEN": "a value"}, secrets=frozenset({"a value"}), kept=kept)
    message = await said(runtime, given)
    assert "can't be started" in message and "replaced-meanwhile" in message, message


async def test_a_deadline_that_the_cluster_holds(runtime: KubernetesRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods_module, "_SPARE_SECONDS", 0)
    ending = await ended(runtime, spec("sleep 600", limits=RunLimits(lifetime_seconds=15)))
    assert (ending.how, ending.said) == ("time", "It was stopped because it lived for more than 15 seconds.")


async def test_too_much_on_its_disk(runtime: KubernetesRuntime) -> None:
    fill = "i=0; while [ $i -lt 40 ]; do head -c 1000000 /dev/zero > /work/$i; i=$((i+1)); done"
    ending = await ended(runtime, spec(f"{fill}; sleep 600", limits=RunLimits(file_bytes=1 << 20)))
    assert ending.how == "disk" and "The cluster evicted it: " in ending.said, ending


async def test_too_many_processes_and_too_much_output(runtime: KubernetesRuntime) -> None:
    ending = await ended(runtime, spec("cat /dev/zero", limits=RunLimits(output_bytes=1 << 20)))
    assert ending.how == "output"
    forks = "i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); done; echo all"
    run = await runtime.start(spec(forks, limits=RunLimits(processes=20)))
    assert b"all" not in await run.stdout.read()
    await run.stop(0)


async def test_a_node_without_room(runtime: KubernetesRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_module, "START_SECONDS", 3.0)
    kubectl("cordon", "hf-node")
    try:
        message = await said(runtime, spec("true"))
    finally:
        kubectl("uncordon", "hf-node")
    assert "No node has room for it: 0/1 nodes are available" in message, message


async def test_a_pod_that_is_deleted_by_somebody_else(runtime: KubernetesRuntime) -> None:
    run = await runtime.start(spec("sleep 600"))
    (made,) = [each for each in objects("pods") if each["metadata"]["namespace"] == "holdfast-failing"][-1:]
    kubectl("delete", "pod", "-n", "holdfast-failing", made["metadata"]["name"], "--wait=false")
    ending = await run.wait()
    assert ending.how in ("lost", "exited"), ending
    await run.stop(0)


async def test_a_node_that_is_gone(runtime: KubernetesRuntime) -> None:
    run = await runtime.start(spec("sleep 600"))
    kill("kubelet")
    try:
        kubectl("delete", "node", "hf-node")
        async with asyncio.timeout(PATIENCE_SECONDS):
            ending = await run.wait()
    finally:
        start("kubelet")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "Ready" not in kubectl("get", "nodes", "--no-headers").split():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.5)
    assert ending.how == "lost" and "with its node" in ending.said, ending
    await run.stop(0)


async def test_a_quota(runtime: KubernetesRuntime) -> None:
    await ended(runtime, spec("true", tenant="small"))
    kubectl("create", "quota", "none", "--hard=pods=0", "-n", "holdfast-small")
    message = ""
    # The API server itself learns of a quota a moment after it has taken it.
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not message:
            try:
                await ended(runtime, spec("true", tenant="small"))
            except HoldfastError as refused:
                message = refused.message
    assert message.startswith("The namespace's quota does not allow it: "), message


async def test_rights_that_holdfast_has_not(runtime: KubernetesRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    await ended(runtime, spec("true"))
    with suppress(AssertionError):
        kubectl("create", "sa", "nobody", "-n", "holdfast-failing")
    names = kubectl("get", "sa", "nobody", "-n", "holdfast-failing", "-o", "jsonpath={.secrets[0].name}")
    token = kubectl(
        "get", "secret", names, "-n", "holdfast-failing", "-o", "go-template={{.data.token | base64decode}}"
    )
    cluster = runtime._found()
    monkeypatch.setattr(type(cluster.api._config), "bearer", token)
    message = await said(runtime, spec("true"))
    monkeypatch.undo()
    assert "service account may not do this" in message and "pods is forbidden" in message, message


async def test_a_foreign_image_with_nothing_in_it_for_us_runs_behind_the_bridge(
    runtime: KubernetesRuntime, tmp_path: Path
) -> None:
    given = spec(
        "while read line; do echo got $line; done",
        role="server",
        image="localhost/holdfast/plain:test",
        root=tmp_path,
        tenant="foreign",
    )
    run = await runtime.start(given)
    run.stdin.write(b"x\n")
    assert await run.stdout.readline() == b"got x\n"
    run.stdin.close()
    ending = await run.wait()
    assert ending.code == 0, (ending, run.stderr_tail())
    await run.stop()
