"""Webhooks through the whole server: who is heard, what is answered, and that nothing else can be learned."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.engines.search import Query
from holdfast.features.repositories import store
from holdfast.features.repositories.hosts.webhooks import MAX_BODY
from holdfast.features.repositories.model import NewRepository, Repository
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.code_hosts.github import TOKEN, FakeGitHub, github
from tests.support.code.git import GitRepo
from tests.support.code.git_server import git_server, has_http_backend
from tests.support.server import TestServer, serving

SECRET = "s3cret"
# Nothing can be cloned from there: the syncs that these tests queue end at once.
LOCATION = "https://git.invalid/octo/tides.git"


async def listening(server: TestServer) -> Repository:
    """A repository that takes webhooks."""
    services, workspace_id = server.services, server.start.workspace_id
    await services.secrets.set(server.owner, workspace_id, "HOOK", SECRET)
    added = await services.repositories.add(server.owner, workspace_id, NewRepository(LOCATION, host="github"))
    return await services.repositories.sign_webhooks(server.owner, added.slug, "HOOK")


def delivery(name: str = "octo/tides", event: str = "push", number: int = 1, secret: str = SECRET) -> dict[str, Any]:
    body = json.dumps({"repository": {"full_name": name}, "number": number}).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": f"delivery-{number}",
        "X-Hub-Signature-256": f"sha256={signature}",
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/1",
    }
    return {"content": body, "headers": headers}


async def send(client: httpx.AsyncClient, repository_id: str, **sent: Any) -> httpx.Response:
    return await client.post(f"/api/webhooks/{repository_id}", **sent)


@pytest.mark.contract("KS-2")
async def test_a_host_without_any_key_asks_for_a_sync_once(server: TestServer) -> None:
    repository = await listening(server)
    async with server.stranger() as client:
        first = await send(client, repository.id, **delivery())
        assert (first.status_code, first.json()) == (202, {"status": "queued"})
        again = await send(client, repository.id, **delivery())
        assert (again.status_code, again.json()) == (200, {"status": "repeated"})
        ping = await send(client, repository.id, **delivery(event="ping", number=2))
        assert (ping.status_code, ping.json()) == (200, {"status": "pong"})
        other = await send(client, repository.id, **delivery(event="star", number=3))
        assert (other.status_code, other.json()) == (200, {"status": "ignored"})
    kept = await server.services.database.read(lambda tx: store.by_id(tx, repository.id))
    assert kept is not None
    job = await server.services.jobs.get(str(kept.job_id))
    assert job.payload["trigger"] in ("add", "webhook")


@pytest.mark.contract("KS-2")
async def test_refusals_do_not_tell_what_is_there(sqlite_server: TestServer) -> None:
    repository = await listening(sqlite_server)
    services, workspace_id = sqlite_server.services, sqlite_server.start.workspace_id
    silent = await services.repositories.add(sqlite_server.owner, workspace_id, NewRepository(LOCATION, slug="silent"))
    async with sqlite_server.stranger() as client:
        answers = [
            await send(client, repository.id, **delivery(secret="wrong")),
            await send(client, repository.id, content=b"{}"),
            await send(client, silent.id, **delivery()),
            await send(client, "repo_unknown", **delivery()),
            await send(client, "a/b", **delivery()),
            await send(client, "%20", **delivery()),
            await send(client, "x" * 500, **delivery()),
        ]
    told = {(answer.status_code, json.dumps(without_id(answer))) for answer in answers}
    assert len(told) == 1, told
    assert answers[0].status_code == 404


def without_id(answer: httpx.Response) -> dict[str, Any]:
    error = dict(answer.json()["error"])
    error.pop("request_id")
    return error


async def test_a_key_opens_nothing_here_and_a_browser_is_told_so(sqlite_server: TestServer) -> None:
    repository = await listening(sqlite_server)
    async with sqlite_server.client() as client:
        assert (await send(client, repository.id, content=b"{}")).status_code == 404
        looked = await client.get(f"/api/webhooks/{repository.id}")
        assert (looked.status_code, looked.headers["allow"]) == (405, "POST")


async def test_a_delivery_that_is_wrong_or_too_large_is_told_so(sqlite_server: TestServer) -> None:
    repository = await listening(sqlite_server)
    async with sqlite_server.stranger() as client:
        wrong = await send(client, repository.id, **delivery("octo/other"))
        assert wrong.status_code == 422
        assert wrong.json()["error"]["fields"][0]["field"] == "payload"
        large = await send(client, repository.id, content=b"x" * (MAX_BODY + 1))
        assert large.status_code == 413


@pytest.mark.slow
@pytest.mark.contract("KS-2")
@pytest.mark.skipif(not has_http_backend(), reason="git's server program is not installed")
async def test_a_push_and_a_comment_are_found_after_a_webhook(sqlite_database: SqliteDatabase, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "served" / "octo" / "tides.git")
    repo.commit("Begin the tables", {"README.md": "# Tides\n"})
    with git_server(tmp_path / "served") as git:
        async with github() as hub:
            hub.history.issue(1, 1, title="Harbour floods", body="At spring tide.")
            settings: dict[str, Any] = {"github_url": hub.url, "github_token": TOKEN, "fetch_allow": (git.place,)}
            async with serving(sqlite_database, data_dir=tmp_path / "data", **settings) as server:
                await _hear_of_changes(server, git.url("octo/tides.git"), hub, repo)


async def _hear_of_changes(server: TestServer, location: str, hub: FakeGitHub, repo: GitRepo) -> None:
    services, workspace_id = server.services, server.start.workspace_id
    await services.secrets.set(server.owner, workspace_id, "HOOK", SECRET)
    added = await services.repositories.add(server.owner, workspace_id, NewRepository(location))
    await services.jobs.wait(str(added.job_id), timeout_seconds=60)
    first = await services.repositories.sign_webhooks(server.owner, added.slug, "HOOK")
    assert (first.state, first.reason, first.commits, first.items) == ("ready", None, 1, 1)
    repo.commit("Measure in metres", {"gauge.py": "UNIT = 'metre'\n"})
    # The host's clock is years behind ours here; a real one tells the present.
    comment = hub.history.comment(1, "Because the gauge counts fathoms", 0)
    hub.history.issues[1]["updated_at"] = comment["updated_at"] = "2099-01-01T00:00:00Z"
    async with server.stranger() as client:
        assert (await send(client, first.id, **delivery())).status_code == 202
    queued = await services.repositories.get(server.owner, added.slug)
    await services.jobs.wait(str(queued.job_id), timeout_seconds=60)
    (log, *_) = (await services.repositories.syncs(server.owner, added.slug)).items
    assert (log.trigger, log.status, log.commits_added, log.items_changed) == ("webhook", "COMPLETED", 1, 1)
    found = await services.search.search(Query(workspace_id, "gauge counts fathoms", types=frozenset({"issue"})))
    assert found[0].id == f"{first.id}/1"
