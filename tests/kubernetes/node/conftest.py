"""Owns what tests on a real node share: `make test-kubernetes` runs them beside a cluster of their own."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.script import Script
from tests.support.execution import counting
from tests.surfaces.agents.conftest import Agency, agency

STATE = os.environ.get("NODE_STATE")
PATIENCE_SECONDS = 400.0
"""A node, its images and its pods share a machine with whatever else runs there."""
SETTINGS: dict[str, Any] = {
    "runtime": "kubernetes",
    "kubernetes_config": os.environ.get("KUBECONFIG"),
    "kubernetes_image": "localhost/holdfast/session:test",
    "kubernetes_server_image": "localhost/holdfast/mcp-runner:test",
    "kubernetes_pull": "Never",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a node there is nothing to run them on."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(1_200))
            if STATE is None:
                item.add_marker(pytest.mark.skip(reason="needs a node of Kubernetes. Run: make test-kubernetes"))


@pytest.fixture(autouse=True)
def no_other_session() -> None:
    """Begin when the pods of the test before are gone."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while STATE is not None and session_pods():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The counting server where a container can have a directory of the same name."""
    with counting.in_a_place_of_its_own(monkeypatch):
        yield


@pytest.fixture
async def house(sqlite_database: SqliteDatabase, tmp_path: Path, program: None) -> AsyncIterator[Agency]:
    """A server whose programs are pods."""
    async with agency(sqlite_database, tmp_path / "data", Script([]), **SETTINGS) as made:
        made.seconds = PATIENCE_SECONDS
        yield made


def kubectl(*words: str) -> str:
    """What it says."""
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(kind: str) -> list[dict[str, Any]]:
    """All of a kind, that Holdfast made."""
    selector = "app.kubernetes.io/managed-by=holdfast"
    found: list[dict[str, Any]] = json.loads(kubectl("get", kind, "-A", "-l", selector, "-o", "json"))["items"]
    return found


def session_pods() -> list[dict[str, Any]]:
    """Those of sessions; servers of `exec` are kept warm."""
    return [each for each in objects("pods") if each["metadata"]["labels"].get("holdfast.dev/kind") == "session"]


async def until_no_session_pod(seconds: float = PATIENCE_SECONDS) -> None:
    """Until every session's pod is gone; on a busy machine a kubelet takes more than a minute."""
    await _until_none(session_pods, seconds)


async def until_no_secret(seconds: float = PATIENCE_SECONDS) -> None:
    """Until the cluster has collected the secrets of pods that are gone."""
    await _until_none(lambda: objects("secrets"), seconds)


async def _until_none(look: Callable[[], list[dict[str, Any]]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    # Not by sleeping here: the server that takes them away runs on the same loop.
    while left := await asyncio.to_thread(look):
        assert time.monotonic() < deadline, [each["metadata"]["name"] for each in left]
        await asyncio.sleep(0.2)


def stored(prefix: str) -> dict[str, str]:
    """What the cluster keeps under names that begin so, read from etcd itself."""
    first = prefix.encode()
    last = first[:-1] + bytes([first[-1] + 1])
    asked = {"key": base64.b64encode(first).decode(), "range_end": base64.b64encode(last).decode()}
    answer = httpx.post("http://127.0.0.1:12379/v3/kv/range", json=asked, timeout=60, trust_env=False)
    assert answer.status_code == 200, answer.text
    kept = answer.json().get("kvs", [])
    return {_text(each["key"]): _text(each.get("value", "")) for each in kept}


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode("utf-8", "replace")


def kill(part: str) -> None:
    """kill -9 of a part of the cluster."""
    assert STATE is not None
    pid = int(Path(STATE, "pid", part).read_text())
    os.kill(pid, signal.SIGKILL)


def start(part: str) -> None:
    """Start it again."""
    assert STATE is not None
    process = subprocess.Popen(["bash", f"{STATE}/commands/{part}"], start_new_session=True)
    Path(STATE, "pid", part).write_text(str(process.pid))
