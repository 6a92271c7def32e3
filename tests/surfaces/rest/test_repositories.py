"""Proves repositories over REST, through the whole server: adding, watching, reading and removing them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.code.git import GitRepo
from tests.support.server import TestServer, serving

BILLING = "class Invoice:\n    def total(self):\n        return sum(self.lines)\n"


@pytest.fixture
def project(tmp_path: Path) -> GitRepo:
    """A small project with a history."""
    repo = GitRepo(tmp_path / "code" / "shop")
    repo.commit("Begin the shop", {"README.md": "# Shop\n\nSells giraffes.\n"})
    repo.commit(
        "Add invoices\n\nBecause the accountants asked for totals.",
        {"src/billing.py": BILLING, ".keystone/notes.md": "Totals are in cents.\n"},
    )
    repo.tag("v1.0", "The first release")
    repo.commit(
        "Round totals to cents", {"src/billing.py": BILLING.replace("sum(self.lines)", "round(sum(self.lines))")}
    )
    return repo


@pytest.fixture
async def server(database: Database, tmp_path: Path) -> AsyncIterator[TestServer]:
    """A server on each store, whose operator lets repositories of one directory be added."""
    async with serving(database, data_dir=tmp_path / "data", repository_paths=(str(tmp_path / "code"),)) as running:
        yield running


@pytest.fixture
async def sqlite_server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    """The same on the embedded store only."""
    settings: dict[str, Any] = {"repository_paths": (str(tmp_path / "code"),)}
    async with serving(sqlite_database, data_dir=tmp_path / "data", **settings) as running:
        yield running


def _base(server: TestServer, workspace_id: str | None = None) -> str:
    return f"/api/workspaces/{workspace_id or server.start.workspace_id}/repositories"


async def _synced(client: httpx.AsyncClient, path: str, kind: str = "repository.sync") -> dict[str, Any]:
    """The repository once no sync (or other kind of work) of it waits or runs."""
    async with asyncio.timeout(60):
        while True:
            answer = await client.get(path)
            assert answer.status_code == 200, answer.text
            if kind not in {each["kind"] for each in answer.json()["work"]}:
                return dict(answer.json())
            await asyncio.sleep(0.05)


async def _added(server: TestServer, client: httpx.AsyncClient, location: Path | str, **more: Any) -> dict[str, Any]:
    """A repository that was added and read."""
    answer = await client.post(_base(server), json={"location": str(location), **more})
    assert answer.status_code == 201, answer.text
    slug = answer.json()["slug"]

    return await _synced(client, f"{_base(server)}/{slug}")


@pytest.mark.contract("KS-2")
async def test_a_repository_is_added_read_watched_and_removed(server: TestServer, project: GitRepo) -> None:
    async with server.client() as client:
        added = await client.post(_base(server), json={"location": str(project.path), "name": "The Shop"})
        assert added.status_code == 201, added.text
        assert (added.json()["slug"], added.json()["state"]) == ("the-shop", "queued")

        found = await _synced(client, f"{_base(server)}/the-shop")
        assert (found["state"], found["reason"], found["head"]) == ("ready", None, project.head)
        assert (found["counts"]["commits"], found["counts"]["files"]) == (3, 3)
        assert found["counts"]["keystone_files"] == 1
        score = found["score"]
        assert (score["ingestion"], score["freshness"], score["keystone_folder"]) == (25, 15, 10)
        assert score["total"] == sum(points for name, points in score.items() if name != "total")
        assert found["is_local"] is True and found["last_synced_at"] is not None

        again = await client.post(f"{_base(server)}/the-shop/sync")
        assert again.status_code == 202, again.text
        await _synced(client, f"{_base(server)}/the-shop")
        log = (await client.get(f"{_base(server)}/the-shop/syncs")).json()["items"]
        assert [(each["trigger"], each["status"], each["commits_added"]) for each in log] == [
            ("manual", "COMPLETED", 0),
            ("add", "COMPLETED", 3),
        ]
        listed = (await client.get(_base(server))).json()["items"]
        assert [each["slug"] for each in listed] == ["the-shop"]

        assert (await client.delete(f"{_base(server)}/the-shop")).status_code == 204
        assert (await client.get(f"{_base(server)}/the-shop")).status_code == 404
        assert (await client.get(_base(server))).json()["items"] == []


async def test_files_and_history_are_read_live(server: TestServer, project: GitRepo) -> None:
    async with server.client() as client:
        await _added(server, client, project.path)
        one = f"{_base(server)}/shop"
        tree = (await client.get(f"{one}/tree", params={"recursive": "true"})).json()["items"]
        file = (await client.get(f"{one}/file", params={"path": "src/billing.py", "start": 2, "end": 3})).json()
        log = (await client.get(f"{one}/log", params={"path": "src/billing.py"})).json()["items"]
        whole = (await client.get(f"{one}/log")).json()["items"]
        blame = (await client.get(f"{one}/blame", params={"path": "src/billing.py"})).json()["items"]
        shown = (await client.get(f"{one}/commits/{project.head[:8]}")).json()

        assert {each["path"] for each in tree if each["kind"] == "file"} >= {"README.md", "src/billing.py"}
        assert file["text"].splitlines()[0] == "    def total(self):"
        assert (file["start_line"], file["end_line"], file["total_lines"]) == (2, 3, 3)
        assert [each["subject"] for each in log] == ["Round totals to cents", "Add invoices"]
        assert len(whole) == 3
        assert blame[-1]["subject"] == "Round totals to cents" and blame[-1]["end_line"] == 3
        assert (shown["sha"], shown["changes"][0]["path"]) == (project.head, "src/billing.py")
        assert "+        return round(sum(self.lines))" in shown["patch"]

        for path, params in (
            ("file", {"path": "missing.py"}),
            ("file", {"path": "src"}),
            ("blame", {"path": "missing.py"}),
            ("tree", {"path": "missing"}),
            ("commits/ffffffff", {}),
            ("commits/not-a-hash", {}),
        ):
            missing = await client.get(f"{one}/{path}", params=params)
            assert missing.status_code in (404, 422), f"{path}: {missing.status_code} {missing.text}"


@pytest.mark.contract("KS-3")
async def test_repositories_are_searched_and_asked(server: TestServer, project: GitRepo) -> None:
    async with server.client() as client:
        await _added(server, client, project.path)
        search = f"{_base(server)}/search"
        named = (await client.get(search, params={"q": "Invoice", "slugs": "shop"})).json()["items"]
        commits = (await client.get(search, params={"q": "accountants asked for totals", "types": "commit"})).json()
        one = (await client.get(search, params={"q": "totals", "limit": 1, "least": 0})).json()["items"]
        files = (await client.get(f"{_base(server)}/files", params={"q": "round the totals of invoices"})).json()
        asked = await client.post(f"{_base(server)}/ask", json={"question": "Why were invoices added?"})

        assert (named[0]["path"], named[0]["exact"], named[0]["repository"]) == ("src/billing.py", True, "shop")
        assert commits["items"][0]["title"] == "Add invoices"
        assert {each["type"] for each in commits["items"]} == {"commit"}
        assert len(one) == 1
        assert (files["items"][0]["path"], files["items"][0]["repository"]) == ("src/billing.py", "shop")
        assert asked.status_code == 200, asked.text
        answer = asked.json()
        assert "accountants" in answer["markdown"] and "[1]" in answer["markdown"]
        assert {each["repository"] for each in answer["citations"]} == {"shop"}
        assert (answer["dropped"], answer["removed"]) == (0, 0)

        for path, params in (
            (search, {"q": "x", "slugs": "nobody"}),
            (search, {"q": "x", "slugs": "shop,Not A Slug"}),
        ):
            assert (await client.get(path, params=params)).status_code == 404
        unknown = await client.get(search, params={"q": "x", "types": "memory"})
        assert unknown.status_code == 422 and unknown.json()["error"]["fields"][0]["field"] == "types"


@pytest.mark.slow
async def test_another_workspaces_repositories_are_neither_searched_nor_asked(
    sqlite_server: TestServer, project: GitRepo
) -> None:
    server = sqlite_server
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Other")
    async with server.client() as client:
        await _added(server, client, project.path)
        elsewhere = _base(server, other.id)
        named = await client.get(f"{elsewhere}/search", params={"q": "Invoice", "slugs": "shop"})
        every = await client.get(f"{elsewhere}/search", params={"q": "Invoice"})
        asked = await client.post(f"{elsewhere}/ask", json={"question": "Why invoices?", "slugs": ["shop"]})
        empty = await client.post(f"{elsewhere}/ask", json={"question": "Why invoices?"})
    assert (named.status_code, asked.status_code, empty.status_code) == (404, 404, 422)
    assert every.json() == {"items": [], "next_cursor": None}


async def test_what_was_read_out_of_a_repository_is_shown(sqlite_server: TestServer, project: GitRepo) -> None:
    server = sqlite_server
    one = f"{_base(server)}/shop"
    async with server.client() as client:
        await _added(server, client, project.path)
        again = await client.post(f"{one}/synthesis")
        assert again.status_code == 202, again.text
        found = await _synced(client, one, "repository.synthesis")
        findings = (await client.get(f"{one}/findings")).json()["items"]
        milestones = (await client.get(f"{one}/findings", params={"kind": "milestone"})).json()["items"]
    assert found["synthesis"]["status"] == "completed" and found["score"]["synthesis"] == 25
    assert {"architecture", "milestone"} <= {each["kind"] for each in findings}
    assert all(each["citations"] for each in findings)
    assert [each["title"] for each in milestones] == [each["title"] for each in findings if each["kind"] == "milestone"]


async def test_a_path_that_the_operator_did_not_name_is_refused(sqlite_server: TestServer, tmp_path: Path) -> None:
    private = GitRepo(tmp_path / "private")
    private.commit("Secret", {"a.txt": "a"})
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "link").symlink_to(private.path)
    async with sqlite_server.client() as client:
        places = [private.path, tmp_path / "code" / "link", tmp_path / "code" / ".." / "private", tmp_path / "nothing"]
        answers = [await client.post(_base(sqlite_server), json={"location": str(place)}) for place in places]
    assert [answer.status_code for answer in answers] == [403] * 4, [answer.text for answer in answers]
    assert "HOLDFAST_REPOSITORY_PATHS" in answers[0].json()["error"]["message"]


@pytest.mark.parametrize(
    "location", ["file:///etc", "ext::sh -c touch% /tmp/x", "-upload-pack=x", "ftp://example.org/a.git", "https://"]
)
async def test_a_location_that_is_no_git_url_is_refused(sqlite_server: TestServer, location: str) -> None:
    async with sqlite_server.client() as client:
        answer = await client.post(_base(sqlite_server), json={"location": location})
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["fields"][0]["field"] == "location"


@pytest.mark.slow
async def test_names_of_operations_are_no_slugs(sqlite_server: TestServer, project: GitRepo) -> None:
    async with sqlite_server.client() as client:
        taken = await client.post(_base(sqlite_server), json={"location": str(project.path), "slug": "search"})
        named = await client.post(_base(sqlite_server), json={"location": str(project.path), "name": "Search"})
        twice = await client.post(_base(sqlite_server), json={"location": str(project.path), "slug": "search-2"})
    assert taken.status_code == 422 and taken.json()["error"]["fields"][0]["field"] == "slug"
    assert named.json()["slug"] == "search-2"
    assert (twice.status_code, twice.json()["error"]["code"]) == (409, "slug_taken")


async def test_what_waits_for_a_repository_can_be_stopped(sqlite_server: TestServer, project: GitRepo) -> None:
    server = sqlite_server
    await server.services.jobs.stop()
    async with server.client() as client:
        await client.post(_base(server), json={"location": str(project.path)})
        waiting = (await client.get(f"{_base(server)}/shop")).json()
        stopped = (await client.post(f"{_base(server)}/shop/cancel")).json()
        again = (await client.post(f"{_base(server)}/shop/sync")).json()
    assert [(each["kind"], each["state"]) for each in waiting["work"]] == [("repository.sync", "queued")]
    assert (stopped["state"], stopped["work"]) == ("failed", []) and "cancelled" in stopped["reason"]
    assert (again["state"], again["work"][0]["state"]) == ("queued", "queued")
    assert again["work"][0]["job_id"] != waiting["work"][0]["job_id"]


@pytest.mark.slow
async def test_webhooks_are_signed_with_a_secret_of_the_workspace(sqlite_server: TestServer, project: GitRepo) -> None:
    server = sqlite_server
    async with server.client() as client:
        found = await _added(server, client, project.path)
        missing = await client.put(f"{_base(server)}/shop/webhook", json={"secret": "HOOK"})
        await client.put(f"/api/workspaces/{server.start.workspace_id}/secrets/HOOK", json={"value": "a-long-secret"})
        signed = await client.put(f"{_base(server)}/shop/webhook", json={"secret": "HOOK"})
        none = await client.put(f"{_base(server)}/shop/webhook", json={"secret": None})
    assert missing.status_code == 422, missing.text
    assert signed.json() == {"slug": "shop", "url": f"{server.url}/api/webhooks/{found['id']}", "secret": "HOOK"}
    assert none.json()["secret"] is None


@pytest.mark.slow
async def test_a_repository_is_not_found_by_another_workspaces_path(
    sqlite_server: TestServer, project: GitRepo
) -> None:
    server = sqlite_server
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Other")
    async with server.client() as client:
        await _added(server, client, project.path)
        answer = await client.get(f"{_base(server, other.id)}/shop")
        removal = await client.delete(f"{_base(server, other.id)}/shop")
        assert (answer.status_code, removal.status_code) == (404, 404)
        assert (await client.get(f"{_base(server)}/shop")).status_code == 200


@pytest.mark.slow
async def test_a_reader_may_look_but_not_change(sqlite_server: TestServer, project: GitRepo) -> None:
    server = sqlite_server
    reader = await server.mint("read", name="reader")
    async with server.client() as client, server.client(reader.secret) as looking:
        await _added(server, client, project.path)
        one = f"{_base(server)}/shop"
        assert (await looking.get(one)).status_code == 200
        assert (await looking.get(f"{one}/file", params={"path": "README.md"})).status_code == 200
        for method, path in (("POST", "/sync"), ("POST", "/cancel"), ("DELETE", "")):
            assert (await looking.request(method, one + path)).status_code == 403
