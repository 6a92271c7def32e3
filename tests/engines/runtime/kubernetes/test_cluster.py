"""Owns the proof that the API server's word is followed, refusals are told plainly, and nothing is left behind."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import HoldfastError
from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import Runtime
from holdfast.engines.runtime.kubernetes import runtime as runtime_module
from holdfast.engines.runtime.kubernetes.building import kubernetes_runtime
from holdfast.engines.runtime.kubernetes.cluster.config import ClusterMissing
from holdfast.engines.runtime.kubernetes.failures import ended_before, failure_of
from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime
from holdfast.server.parts import close
from holdfast.storage.lock import Ownership
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.runtime.kubernetes.conftest import runtime_of, spec
from tests.fakes.embedder import WordEmbedder
from tests.fakes.kubernetes.cluster import FakeCluster
from tests.support.services import background, build_services, first_start

pytestmark = pytest.mark.contract("XA-6")


async def refused(runtime: KubernetesRuntime) -> str:
    with pytest.raises(HoldfastError) as problem:
        await runtime.start(spec("true"))
    return problem.value.message


def container(state: dict[str, Any]) -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [{"name": "program", "state": state}]}


UNSCHEDULABLE = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/3 nodes are available."}
STATES = {
    "image_missing": (
        container({"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x/y"'}}),
        'The image of its container program can\'t be fetched: Back-off pulling image "x/y"',
    ),
    "config_error": (
        container({"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}}),
        'Its container program can\'t be started: secret "s" not found',
    ),
    "memory": (
        container({"terminated": {"reason": "OOMKilled", "exitCode": 137}}),
        "Its container program used more memory than it may.",
    ),
    "deadline": (
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        "It was stopped because it lived for more than 9 seconds.",
    ),
    "evicted": (
        {"phase": "Failed", "reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds the limit."},
        "The cluster evicted it: Pod ephemeral local storage usage exceeds the limit.",
    ),
    "node_gone": ({"phase": "Failed", "reason": "NodeLost"}, "Its node is gone: NodeLost."),
    "unschedulable": (
        {"phase": "Pending", "conditions": [UNSCHEDULABLE]},
        "No node has room for it: 0/3 nodes are available.",
    ),
}


@pytest.mark.parametrize("code", list(STATES))
def test_each_way_in_which_a_pod_fails_is_one_sentence(code: str) -> None:
    status, sentence = STATES[code]
    found = failure_of({"status": status, "spec": {"activeDeadlineSeconds": 9}})
    assert found is not None and (found.code, found.said) == (code, sentence)


def test_a_pod_that_works_has_not_failed() -> None:
    assert failure_of({"status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}}) is None
    assert failure_of({"spec": {}}) is None


def test_a_container_that_ended_before_anything_was_run_in_it() -> None:
    pod = {"status": container({"terminated": {"reason": "Error", "exitCode": 127}})}
    assert failure_of(pod) is None
    found = ended_before(pod, "program")
    assert found is not None
    assert found.said == "Its container program can't be started: it ended at once with status 127"
    assert ended_before(pod, "other") is None and ended_before(None, "program") is None


async def test_a_pod_that_does_not_come_up_is_deleted_and_told(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    fake.status_of = lambda pod: STATES["image_missing"][0]
    assert "can't be fetched" in await refused(runtime)
    assert fake.pods == []


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ('pods "x" is forbidden: exceeded quota: small', "The namespace's quota does not allow it: "),
        (
            'pods "x" is forbidden: failed quota: q: must specify limits.cpu',
            "The namespace's quota does not allow it: ",
        ),
        ("pods is forbidden: User cannot create resource", "Holdfast's service account may not do this: "),
        (
            'pods "x" is forbidden: maximum memory usage per Container is 64Mi, but limit is 512Mi',
            "The cluster does not allow it: ",
        ),
        (
            'pods "x" is forbidden: unable to create new content in namespace n because it is being terminated',
            "The namespace is being deleted: ",
        ),
        (
            'pods "x" is forbidden: violates PodSecurity "restricted"',
            "The namespace's pod security does not allow it: ",
        ),
    ],
)
async def test_what_the_api_server_refuses_is_said_plainly(
    fake: FakeCluster, runtime: KubernetesRuntime, message: str, told: str
) -> None:
    fake.refuse = lambda method, path: (403, "Forbidden", message) if (method, path[-5:]) == ("POST", "/pods") else None
    assert (await refused(runtime)).startswith(told)
    assert fake.pods == []


async def test_a_namespace_is_made_closed_before_its_first_pod(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    fake.status_of = lambda pod: STATES["image_missing"][0]
    await refused(runtime)
    namespace = fake.objects[("namespaces", "", "holdfast-ws-1")]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    policy = fake.objects[("networkpolicies", "holdfast-ws-1", "holdfast-closed")]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"] and not {"ingress", "egress"} & set(policy)
    assert (
        fake.objects[("serviceaccounts", "holdfast-ws-1", "holdfast-session")]["automountServiceAccountToken"] is False
    )


async def test_a_namespace_that_somebody_deleted_is_made_again(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    fake.status_of = lambda pod: STATES["image_missing"][0]
    await refused(runtime)
    del fake.objects[("namespaces", "", "holdfast-ws-1")]
    assert "can't be fetched" in await refused(runtime)
    assert ("namespaces", "", "holdfast-ws-1") in fake.objects


async def leave(fake: FakeCluster) -> None:
    """What a killed Holdfast left: a pod that has ended."""
    about: dict[str, Any] = {"name": "left", "namespace": "n", "creationTimestamp": "2020-01-01T00:00:00Z"}
    about["labels"] = {"app.kubernetes.io/managed-by": "holdfast", "holdfast.dev/run": "left"}
    about["uid"] = "the-first"
    await fake._put("pods", {"kind": "Pod", "metadata": about, "spec": {}, "status": {"phase": "Failed"}}, "ADDED")


async def test_a_server_collects_what_is_nobodys_from_its_start_on_and_of_several_workers_one(
    fake: FakeCluster, sqlite_database: SqliteDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "_SWEEP_SECONDS", 0.1)
    await leave(fake)
    settings = Settings(runtime="kubernetes", kubernetes_config=fake.kubeconfig, data_dir=tmp_path)
    services = build_services(settings, sqlite_database, SystemClock(), WordEmbedder())
    await first_start(services)
    other = Ownership(tmp_path)
    assert await other.won()
    async with background(services, Ownership(tmp_path)):
        await asyncio.sleep(0.3)
        assert len(fake.pods) == 1 and not fake.asked["GET /api/v1/pods"]
        other.withdraw()
        other.release()
        async with asyncio.timeout(20):
            for _ in range(2):
                while fake.pods:
                    await asyncio.sleep(0.02)
                await leave(fake)
    assert type(services[Runtime]) is KubernetesRuntime
    await close(services.parts)


async def test_a_cluster_that_is_away_at_the_start_is_taken_up_when_it_comes(
    fake: FakeCluster, runtime: KubernetesRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runtime_module, "_RETRY_SECONDS", 0.02)
    await leave(fake)
    refusals = iter([(503, "ServiceUnavailable", "not now")] * 5)
    fake.refuse = lambda method, path: next(refusals, None)
    running = asyncio.create_task(runtime.run())
    async with asyncio.timeout(20):
        while fake.pods:
            await asyncio.sleep(0.02)
    await runtime.stop()
    await running
    assert [each.levelname for each in caplog.records if "can't be run in the cluster" in each.message] == ["WARNING"]


async def test_a_pod_that_began_again_is_not_collected_for_the_one_before(
    fake: FakeCluster, runtime: KubernetesRuntime
) -> None:
    await leave(fake)
    await runtime.check()
    # Of this one the watch has not told yet.
    fake.objects[("pods", "n", "left")]["metadata"]["uid"] = "the-second"
    await runtime._found().watch.sweep()
    assert len(fake.pods) == 1


async def test_a_watch_whose_version_is_no_longer_kept_lists_again(
    fake: FakeCluster, runtime: KubernetesRuntime
) -> None:
    await runtime.check()
    fake.oldest = fake._version + 1
    await fake.drop_streams()
    lists = "GET /api/v1/pods"
    async with asyncio.timeout(20):
        while fake.asked[lists] < 4:
            await asyncio.sleep(0.02)
    fake.oldest = 0
    fake.status_of = lambda pod: STATES["config_error"][0]
    assert "can't be started" in await refused(runtime)


async def test_without_a_cluster_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for given in (None, str(tmp_path / "missing")):
        runtime = kubernetes_runtime(Settings(runtime="kubernetes", kubernetes_config=given))
        with pytest.raises(ClusterMissing, match="HOLDFAST_KUBERNETES_CONFIG"):
            await runtime.start(spec("true"))


async def test_a_credential_that_is_not_accepted_is_named(fake: FakeCluster, tmp_path: Path) -> None:
    config = Path(fake.kubeconfig)
    config.write_text(config.read_text().replace("the-fake-clusters-token", "another"))
    runtime = runtime_of(fake)
    with pytest.raises(HoldfastError, match="does not accept Holdfast's credential"):
        await runtime.start(spec("true"))
    await runtime.close()
