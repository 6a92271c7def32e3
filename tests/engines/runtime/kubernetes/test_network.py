"""Owns the proof that a network which lets pods out is noticed and said, and one that does not is left in peace."""

import asyncio
import logging
from pathlib import Path

import pytest

from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime
from tests.engines.runtime.kubernetes.conftest import needs_root, spec
from tests.fakes.kubernetes.cluster import FakeCluster
from tests.surfaces.cli.test_doctor import sandbox

pytestmark = [pytest.mark.slow, pytest.mark.contract("XA-6")]


@pytest.fixture(autouse=True)
def root() -> None:
    needs_root()


async def run_and_look(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    """One program, for as long as its pod's network is looked at."""
    run = await runtime.start(spec("read line"))
    async with asyncio.timeout(20):
        while not fake.looked:
            await asyncio.sleep(0.02)
    await run.stop(0)


async def test_a_pod_that_gets_out_is_said_once(
    fake: FakeCluster, runtime: KubernetesRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    fake.enforces_policies = False
    with caplog.at_level(logging.WARNING):
        await run_and_look(fake, runtime)
        run = await runtime.start(spec("true"))
        await run.wait()
        await run.stop()
        await runtime.close()
    said = [each.message for each in caplog.records if "does not enforce NetworkPolicies" in each.message]
    assert len(said) == 1 and fake.looked == 1, said


async def test_a_network_that_is_closed_is_not_complained_of(
    fake: FakeCluster, runtime: KubernetesRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await run_and_look(fake, runtime)
        await runtime.close()
    assert "NetworkPolicies" not in caplog.text


@pytest.mark.parametrize("enforces", [True, False])
async def test_the_doctor_has_a_pod_try_it(fake: FakeCluster, tmp_path: Path, enforces: bool) -> None:
    fake.enforces_policies = enforces
    env = {"HOLDFAST_RUNTIME": "kubernetes", "HOLDFAST_KUBERNETES_CONFIG": fake.kubeconfig}
    found = await asyncio.to_thread(lambda: sandbox(tmp_path / "data", **env))
    assert found["state"] == ("ok" if enforces else "warning"), found
    assert ("does not enforce NetworkPolicies" in found["finding"]) != enforces
    assert fake.pods == []
