"""Owns what tests of pods without a cluster share: a strict one on this machine's loopback."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import Running, RunSpec
from holdfast.engines.runtime.kubernetes.building import kubernetes_runtime
from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime
from tests.fakes.kubernetes.cluster import FakeCluster, cluster


def needs_root() -> None:
    """Several sandboxes that share one loopback take more rights than an ordinary user has."""
    if os.geteuid() != 0:
        pytest.skip("running containers without a cluster takes root")


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[FakeCluster]:
    async with cluster(tmp_path) as made:
        yield made


def runtime_of(fake: FakeCluster) -> KubernetesRuntime:
    return kubernetes_runtime(Settings(runtime="kubernetes", kubernetes_config=fake.kubeconfig))


@pytest.fixture
async def runtime(fake: FakeCluster) -> AsyncIterator[KubernetesRuntime]:
    made = runtime_of(fake)
    yield made
    await made.close()


def spec(script: str, **more: object) -> RunSpec:
    given = {"name": "try it", "command": ("/bin/sh", "-c", script), "tenant": "ws_1", **more}
    return RunSpec(**given)  # type: ignore[arg-type]


async def said(running: Running) -> str:
    """All that it prints."""
    found = b""
    while piece := await running.stdout.read(65_536):
        found += piece
    return found.decode()
