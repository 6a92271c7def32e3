"""The pages of repositories: added, asked, and the cited lines one click away."""

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.code.git import GitRepo
from tests.support.pages.dashboard import CODE, work_done
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    repo = GitRepo(tmp_path / "code" / "shop")
    repo.commit("Add invoices", {"src/billing.py": CODE, "README.md": "# Shop\n\nSells giraffes to zoos.\n"})
    paths = (str(tmp_path / "code"),)
    async with serving(sqlite_database, data_dir=tmp_path / "data", repository_paths=paths) as running:
        yield running


async def test_a_repository_is_added_asked_and_its_cited_lines_open(server: TestServer, tmp_path: Path) -> None:
    slug = (await server.services.workspaces.get(server.owner, server.start.workspace_id)).slug
    url = f"/w/{slug}/repos"
    async with await server.browser(server.start.owner_id) as owner:
        assert "No repository yet" in (await owner.get(url)).text
        added = await owner.post(url, data={"location": str(tmp_path / "code" / "shop")})
        assert added.status_code == 303, added.text[-800:]
        one = added.headers["location"]
        await work_done(server)
        assert "/ 100" in (await owner.get(url)).text
        answered = await owner.post(one + "/ask", data={"question": "How does Invoice compute its total?"})
        assert answered.status_code == 200, answered.text[-800:]
        cited = re.search(r'href="([^"]+/files\?[^"]+#L\d+)"', answered.text)
        assert cited, answered.text[-3000:]
        lines = await owner.get(unescape(cited[1]))
        assert lines.status_code == 200 and 'class="cited"' in lines.text
        code = await owner.get(one + "/files?path=src/billing.py&start=2&end=3")
        assert "<script>alert" not in code.text and 'id="L2" class="cited"' in code.text
        assert (await owner.post(one + "/ask", data={"question": ""})).status_code == 422
        assert (await owner.get(one + "/files?path=nowhere.py")).status_code == 404


async def test_a_place_that_is_not_allowed_is_refused_with_the_reason(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        refused = await owner.post(f"/w/{server.start.workspace_id}/repos", data={"location": "/etc"})
        assert refused.status_code in (403, 422) and 'role="alert"' in refused.text
        assert (await owner.get(f"/w/{server.start.workspace_id}/repos/none")).status_code == 404


async def test_whoever_may_not_write_sees_no_form_and_an_admins_field_only_as_one(server: TestServer) -> None:
    member = await server.services.identity.create_user(server.owner, email="mo@example.com", name="Mo")
    async with await server.browser(server.start.owner_id) as owner, await server.browser(member.id) as mo:
        assert 'name="key_from"' in (await owner.get("/w/default/repos")).text
        page = (await mo.get("/w/default/repos")).text
        assert 'name="location"' in page and 'name="key_from"' not in page
