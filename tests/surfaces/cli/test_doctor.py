"""`doctor` tries what the server itself relies on; `migrate` prepares a store."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.storage.schema import migrations

pytestmark = pytest.mark.slow


def run(data: Path, *words: str, **env: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "holdfast", *words, "--data-dir", str(data), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, timeout=120)
    assert done.stdout, done.stderr
    return done.stdout


def sandbox(data: Path, **env: str) -> dict[str, str]:
    (found,) = [each for each in json.loads(run(data, "doctor", **env)) if each["check"] == "sandbox"]
    return dict(found)


def test_the_bubblewrap_that_came_with_us_is_enough(tmp_path: Path) -> None:
    # A system without one of its own: nothing of that name is on the path.
    found = sandbox(tmp_path / "data", PATH="/nowhere")
    assert found["state"] == "ok", found


def test_a_cluster_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    found = sandbox(tmp_path / "data", HOLDFAST_RUNTIME="kubernetes", KUBERNETES_SERVICE_HOST="")
    assert found["state"] == "warning" and "HOLDFAST_KUBERNETES_CONFIG" in found["finding"]


def test_a_store_is_migrated_without_being_served(tmp_path: Path) -> None:
    told = json.loads(run(tmp_path / "data", "migrate"))
    assert told == {"store": "sqlite", "schema_version": migrations()[-1].version}
    assert json.loads(run(tmp_path / "data", "migrate")) == told
