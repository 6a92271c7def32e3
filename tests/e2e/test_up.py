"""`holdfast up` as a new user runs it: a process of its own, talked to over the network and by signals."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow

HOLDFAST = [sys.executable, "-m", "holdfast"]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XEROTIER_"))}
    return {**kept, **more}


@contextmanager
def up(data_dir: Path, *options: str, **env: str) -> Iterator[tuple[dict[str, Any], "subprocess.Popen[str]"]]:
    """A started server: what it printed first, and its process."""
    command = [*HOLDFAST, "up", "--data-dir", str(data_dir), "--port", "0", "--json", *options]
    # A file takes every log line; a pipe that nobody reads would stop the server once it is full.
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(**env)) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            if not line:
                log.seek(0)
                pytest.fail(log.read().decode(errors="replace"))
            yield json.loads(line), process
        finally:
            process.kill()


def run(*arguments: str | Path, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [*HOLDFAST, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(**env), check=False)


def get(url: str, key: str) -> httpx.Response:
    return httpx.get(url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=30)


def test_the_first_start_prints_everything_and_the_second_no_new_key(tmp_path: Path) -> None:
    with up(tmp_path) as (first, process):
        assert set(first) == {
            *("url", "mcp_url", "keystone_url", "project_id", "workspace_id", "api_key", "sign_in_url")
        }
        assert get(f"{first['url']}/api/me", first["api_key"]).json()["project_id"] == first["project_id"]
        assert first["mcp_url"] == f"{first['url']}/{first['project_id']}/v1/mcp"
        assert first["keystone_url"] == f"{first['url']}/api/mcp"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    with up(tmp_path) as (second, _):
        assert second["api_key"] is None
        assert (second["project_id"], second["workspace_id"]) == (first["project_id"], first["workspace_id"])
        assert get(f"{second['url']}/api/me", first["api_key"]).status_code == 200


def test_where_output_is_kept_a_start_prints_no_way_in(tmp_path: Path) -> None:
    with up(tmp_path, HOLDFAST_SIGN_IN_AT_START="off") as (kept, process):
        assert kept["api_key"] is None and kept["sign_in_url"] is None and kept["project_id"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    # The first key is still to be had: nobody has seen one.
    with up(tmp_path) as (first, _):
        assert first["api_key"] and first["sign_in_url"]


def test_the_sign_in_link_opens_a_session_once(tmp_path: Path) -> None:
    with up(tmp_path) as (ready, _), httpx.Client(trust_env=False, timeout=30) as browser:
        assert browser.get(ready["url"]).headers["location"] == "/sign-in"
        page = browser.get(ready["sign_in_url"])
        assert page.status_code == 200 and "Continue" in page.text
        link = ready["sign_in_url"].split("link=")[1]
        entered = browser.post(f"{ready['url']}/sign-in", data={"link": link})
        assert entered.status_code == 303 and "HttpOnly" in entered.headers["set-cookie"]
        assert "My team" in browser.get(ready["url"]).text
        assert browser.get(f"{ready['url']}/api/me").json()["is_person"] is True
        assert browser.post(f"{ready['url']}/api/projects", json={"name": "x"}).json()["error"]["code"] == "csrf"
        assert httpx.post(f"{ready['url']}/sign-in", data={"link": link}, trust_env=False).status_code == 401


def test_commands_work_beside_a_running_server(tmp_path: Path) -> None:
    with up(tmp_path) as (ready, _):
        made = run("keys", "create", "--name", "ci", "--scopes", "read", "--json", "--data-dir", tmp_path)
        created = json.loads(made.stdout)
        assert set(created) >= {"key_id", "key", "prefix"}
        assert get(f"{ready['url']}/api/me", created["key"]).status_code == 200
        assert run("keys", "revoke", created["key_id"], "--data-dir", tmp_path).returncode == 0
        assert get(f"{ready['url']}/api/me", created["key"]).status_code == 401
        workspace = json.loads(run("workspaces", "create", "--name", "New", "--json", "--data-dir", tmp_path).stdout)
        assert get(f"{ready['url']}/api/workspaces/{workspace['workspace_id']}", ready["api_key"]).status_code == 200


def test_status_finds_the_server_of_a_directory_wherever_it_listens(tmp_path: Path) -> None:
    with up(tmp_path) as (ready, process):
        shown = json.loads(run("status", "--json", "--data-dir", tmp_path).stdout)
        assert (shown["url"], shown["running"]) == (ready["url"], True)
        user = json.loads(run("users", "list", "--json", "--data-dir", tmp_path).stdout)[0]["id"]
        link = json.loads(run("users", "link", user, "--json", "--data-dir", tmp_path).stdout)["url"]
        assert link.startswith(f"{ready['url']}/sign-in?link=") and httpx.get(link, trust_env=False).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert json.loads(run("status", "--json", "--data-dir", tmp_path).stdout)["running"] is False


def test_whoever_follows_events_is_told_of_the_end(tmp_path: Path) -> None:
    with up(tmp_path) as (ready, process):
        path = f"{ready['url']}/api/workspaces/{ready['workspace_id']}/events"
        key = {"Authorization": f"Bearer {ready['api_key']}"}
        with httpx.stream("GET", path, headers=key, trust_env=False, timeout=30) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": following"
            process.send_signal(signal.SIGTERM)
            told = [line for line in lines if line.startswith(("event:", "data:"))]
        assert told[-2] == "event: stream.end"
        assert json.loads(told[-1].removeprefix("data: "))["payload"]["reason"] == "shutting_down"
        assert process.wait(timeout=30) == 0


def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with up(tmp_path):
        refused = run("up", "--data-dir", tmp_path, "--port", "0")
    assert refused.returncode != 0
    assert "Another Holdfast server" in refused.stderr and len(refused.stderr.strip().splitlines()) == 1


def test_what_stops_a_start_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = run("up", "--data-dir", tmp_path / "a", "--port", str(taken.getsockname()[1]))
    file = tmp_path / "file"
    file.write_text("")
    for failed, remedy in (
        (port, "--port"),
        (run("up", "--data-dir", file / "below", "--port", "0"), "--data-dir"),
        (run("up", "--port", "0", HOLDFAST_PROT="1"), "HOLDFAST_PROT"),
        (
            run("up", "--port", "0", HOLDFAST_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none"),
            "HOLDFAST_DATABASE_URL",
        ),
    ):
        assert failed.returncode != 0
        assert remedy in failed.stderr
        assert len(failed.stderr.strip().splitlines()) <= 2, failed.stderr


def test_a_killed_server_starts_again_with_everything(tmp_path: Path) -> None:
    with up(tmp_path) as (first, process):
        for number in range(5):
            body = {"name": f"W{number}"}
            headers = {"Authorization": f"Bearer {first['api_key']}"}
            made = httpx.post(f"{first['url']}/api/workspaces", json=body, headers=headers, trust_env=False, timeout=30)
            assert made.status_code == 201
        process.kill()
    with up(tmp_path) as (second, _):
        listed = get(f"{second['url']}/api/workspaces", first["api_key"]).json()["items"]
        assert len(listed) == 6
    assert "intact" in run("audit", "verify", "--data-dir", tmp_path).stdout.lower()


def test_the_same_server_runs_on_postgresql(tmp_path: Path, empty_postgres_url: str) -> None:
    with up(tmp_path, HOLDFAST_DATABASE_URL=empty_postgres_url) as (first, _):
        assert get(f"{first['url']}/api/me", first["api_key"]).status_code == 200
        with up(tmp_path, HOLDFAST_DATABASE_URL=empty_postgres_url) as (replica, _):
            assert get(f"{replica['url']}/api/me", first["api_key"]).status_code == 200


def test_commands_are_listed_with_help_and_completion_works() -> None:
    listed = run("--help").stdout
    for name in ("up", "status", "keys", "projects", "workspaces", "users", "audit", "usage", "backup", "restore"):
        assert name in listed
    assert run("keys", "--help").returncode == 0
    assert "_HOLDFAST_COMPLETE" in run("completion", "bash").stdout
