"""A started server keeps every file in its data directory to its owner, even where the shell keeps nothing private."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.test_up import run, up
from tests.storage.test_files import open_to_others
from tests.support.code.git import GitRepo
from tests.support.code.git_server import git_server, has_http_backend

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _nothing_private() -> Any:
    before = os.umask(0)
    yield
    os.umask(before)


def _settled(client: httpx.Client, path: str, key: str, *ends: str) -> None:
    end = time.monotonic() + 120
    while client.get(path).json()[key] not in ends:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_everything_a_server_makes_is_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "holdfast.db").touch()
    with (
        up(data) as (ready, process),
        httpx.Client(
            base_url=ready["url"],
            headers={"Authorization": f"Bearer {ready['api_key']}"},
            trust_env=False,
            timeout=60,
        ) as client,
    ):
        workspace = f"/api/workspaces/{ready['workspace_id']}"
        made = client.put(f"{workspace}/secrets/NAME", json={"value": "hunter2hunter2"})
        assert made.status_code < 300, made.text
        uploaded = client.post(f"{workspace}/documents", files={"file": ("a.txt", b"some text")})
        assert uploaded.status_code < 300, uploaded.text
        _settled(client, f"{workspace}/documents/{uploaded.json()['id']}", "state", "ready", "failed")
        assert run("backup", data / "copy", "--data-dir", data).returncode == 0
        names = {path.name for path in data.rglob("*")}
        assert {"holdfast.db", "holdfast.db-wal", "server.lock", "master.key", "audit.heads", "copy"} <= names
        assert open_to_others(data) == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert open_to_others(data) == []


@pytest.mark.skipif(not has_http_backend(), reason="git-http-backend is not installed")
def test_a_command_that_clones_a_repository_keeps_it_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    GitRepo(tmp_path / "served" / "lamp.git").commit("First", {"a.py": "x = 1\n"})
    with git_server(tmp_path / "served") as server:
        allowed = {"HOLDFAST_FETCH_ALLOW": server.place}
        added = run("repos", "add", server.url("lamp.git"), "--wait", "--data-dir", data, **allowed)
    assert added.returncode == 0, added.stderr
    assert list((data / "repositories").rglob("*.pack"))
    assert open_to_others(data) == []
