"""The pages of repositories: added, asked, and the cited lines one click away."""

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

from holdfast.features.repositories.service import Repositories
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.code.git import GitRepo
from tests.support.server import TestServer, serving

_CODE = "class Invoice:\n    def total(self):\n        # <script>alert(1)</script>\n        return sum(self.lines)\n"


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    repo = GitRepo(tmp_path / "code" / "shop")
    repo.commit("Add invoices", {"src/billing.py": _CODE, "README.md": "# Shop\n\nSells giraffes to zoos.\n"})
    paths = (str(tmp_path / "code"),)
    async with serving(sqlite_database, data_dir=tmp_path / "data", repository_paths=paths) as running:
        yield running


async def _read(server: TestServer, slug: str) -> None:
    repositories = server.services[Repositories]
    async with asyncio.timeout(60):
        while not (await repositories.get(server.owner, slug)).ingested:
            await asyncio.sleep(0.05)


async def test_a_repository_is_added_asked_and_its_cited_lines_open(server: TestServer, tmp_path: Path) -> None:
    slug = (await server.services.workspaces.get(server.owner, server.start.workspace_id)).slug
    url = f"/w/{slug}/repos"
    async with await server.browser(server.start.owner_id) as owner:
        assert "No repository yet" in (await owner.get(url)).text
        added = await owner.post(url, data={"location": str(tmp_path / "code" / "shop")})
        assert added.status_code == 303, added.text[-800:]
        one = added.headers["location"]
        await _read(server, one.rsplit("/", 1)[-1])
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
