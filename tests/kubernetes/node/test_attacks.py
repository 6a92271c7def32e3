"""Owns the proof that a program in a pod gets out no more than one in this machine's sandbox: each attempt is made."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import Mounted, RunLimits, RunSpec
from holdfast.engines.runtime.kubernetes.building import kubernetes_runtime
from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime
from tests.kubernetes.node.conftest import SETTINGS
from tests.support.sandbox.outside import places_outside
from tests.support.sandbox.programs import HERE

ATTACKS = re.findall(r"^@attack\ndef (\w+)", (HERE / "attacker.py").read_text(), re.MULTILINE)


@pytest.fixture
async def runtime() -> AsyncIterator[KubernetesRuntime]:
    made = kubernetes_runtime(Settings(**SETTINGS))
    yield made
    await made.close()


@pytest.mark.contract("XA-6")
async def test_attacks_from_inside_a_pod_get_nothing(runtime: KubernetesRuntime, tmp_path: Path) -> None:
    with places_outside(tmp_path) as places:
        given = RunSpec(
            name="attacker",
            command=("python3", "-I", "/work/attacker.py"),
            mounts=(Mounted(HERE / "attacker.py", "/work/attacker.py"),),
            env={"PLACES": json.dumps(places)},
            egress=("allowed.example:443",),
            tenant="attacked",
            limits=RunLimits(seconds=300),
        )
        running = await runtime.start(given)
        running.stdin.close()
        said = await running.stdout.read()
        ending = await running.wait()
        await running.stop()
    assert said, (ending, running.stderr_tail())
    found: dict[str, str] = json.loads(said)
    assert found.keys() == set(ATTACKS)
    assert {name: outcome for name, outcome in found.items() if not outcome.startswith("refused")} == {}
