"""Who gets in, and what everybody else is told: all of it before any protocol work."""

import uuid

import pytest

from holdfast.core.settings import Settings
from holdfast.features.audit.model import AuditFilter
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.surfaces.mcp.harness import ERAS, Raw, Site, serve_site

both_eras = pytest.mark.parametrize("era", ERAS)


async def _ask(raw: Raw, era: str) -> tuple[int, dict[str, object]]:
    """The first request of an era."""
    answer = await raw.initialize() if era == "legacy" else await raw.modern_request("tools/list")
    return answer.status_code, answer.json()


@pytest.mark.contract("XM-19")
async def test_a_stranger_is_refused_before_anything_is_read(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(None) as raw:
        for method in ("POST", "GET", "DELETE", "PUT"):
            answer = await raw.http.request(method, site.url, content=b"{not json")
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
        wrong = {"Authorization": "Bearer xero_nobody_0000"}
        assert (await raw.post({"nonsense": True}, wrong)).status_code == 401


@both_eras
@pytest.mark.contract("XM-19")
async def test_a_key_without_the_inference_scope_is_refused_by_name_and_audited(database: Database, era: str) -> None:
    async with serve_site(database) as site:
        key = await site.key(scopes=("read", "management"))
        async with site.raw(key) as raw:
            status, body = await _ask(raw, era)
        assert status == 403
        assert "inference" in str(body)
        events = await site.services.audit.list(site.owner, AuditFilter(outcome="denied"))
        assert [event.action for event in events.items] == ["mcp"]


@both_eras
@pytest.mark.contract("XM-2")
async def test_both_spellings_of_a_workspace_are_accepted(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site:
        key = await site.key()
        spelled = str(uuid.UUID(site.workspace.removeprefix("ws_")))
        for workspace in (site.workspace, spelled):
            async with site.client(key, era, workspace=workspace) as client:
                got = await client.call_tool("xerotier.workspace.get", {})
                assert (got.structured_content or {})["workspace_id"] == site.workspace


@both_eras
@pytest.mark.contract("XM-2")
async def test_a_workspace_of_somebody_else_answers_like_one_that_does_not_exist(database: Database, era: str) -> None:
    async with serve_site(database) as site:
        allowed = await site.services.workspaces.create(site.owner, site.project, "Allowed")
        key = await site.key(workspaces=[allowed.id])
        answers = []
        for workspace in (site.workspace, "ws_" + "0" * 32, "nonsense"):
            async with site.raw(key, workspace=workspace) as raw:
                status, body = await _ask(raw, era)
                answers.append((status, str(body).replace(workspace, "…")))
        assert len(set(answers)) == 1
        assert answers[0][0] == 404


async def test_a_workspace_of_another_project_is_not_here(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await site.services.identity.create_project(site.owner, "Elsewhere")
        workspace = await site.services.workspaces.create(site.owner, other.id, "Far")
        async with site.raw(await site.key(), workspace=workspace.id) as raw:
            assert (await raw.initialize()).status_code == 404


async def test_a_project_key_does_not_open_another_project(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await site.services.identity.create_project(site.owner, "Elsewhere")
        key = await site.key()
        statuses = []
        for project in (other.id, "proj_" + "0" * 32):
            async with site.raw(key, workspace=None) as raw:
                raw.url = f"{site.root}/{project}/v1/mcp"
                statuses.append((await raw.initialize()).status_code)
        assert statuses == [404, 404]


async def test_pages_from_elsewhere_are_refused(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        for origin, status in (
            ("https://evil.example", 403),
            ("http://localhost.evil.example", 403),
            ("null", 403),
            ("http://localhost:3000", 200),
            ("http://127.0.0.1:8787", 200),
        ):
            answer = await raw.request("initialize", INITIALIZE, {"Origin": origin})
            assert (origin, answer.status_code) == (origin, status)


INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


@pytest.mark.contract("XM-18")
async def test_a_disabled_endpoint_does_not_exist(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database, settings=Settings(mcp_enabled=False)) as site:
        async with site.raw(await site.key()) as raw:
            assert (await raw.initialize()).status_code == 404
        async with site.raw(None) as raw:
            assert (await raw.initialize()).status_code == 404


async def test_calls_beyond_the_limit_are_told_when_to_come_back(sqlite_database: SqliteDatabase) -> None:
    settings = Settings(mcp_calls_per_minute=3)
    async with serve_site(sqlite_database, settings=settings) as site, site.raw(await site.key()) as raw:
        statuses = [(await raw.initialize()).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        refused = await raw.initialize()
        assert int(refused.headers["retry-after"]) >= 1


async def test_what_is_not_a_message_is_refused_politely(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize()

        async def status(content: bytes, **headers: str) -> int:
            merged = {"Content-Type": "application/json", **raw.session_headers(), **headers}
            return (await raw.http.post(site.url, content=content, headers=merged)).status_code

        assert await status(b"{") == 400
        assert await status(b"[]") == 400
        assert await status(b'{"jsonrpc":"1.0","id":1,"method":"ping"}') == 400
        assert await status(b'{"jsonrpc":"2.0","id":null,"method":"ping"}') == 400
        assert await status(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', **{"Content-Type": "text/plain"}) == 400
        assert await status(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', Accept="application/json") == 406
        assert await status(b" " * (5 * 1024 * 1024)) == 413
        assert (await raw.http.put(site.url)).status_code == 405
        unknown = await raw.request("no/such/method")
        assert unknown.json()["error"]["code"] == -32601


async def _sessions(site: Site) -> int:
    return await site.services.database.read(
        lambda tx: int((tx.one("SELECT COUNT(*) AS n FROM mcp_session") or {"n": 0})["n"])
    )


async def test_a_session_ends_when_the_client_says_so(database: Database) -> None:
    async with serve_site(database) as site, site.raw(await site.key()) as raw:
        await raw.initialize()
        assert await _sessions(site) == 1
        assert (await raw.http.delete(site.url, headers=raw.session_headers())).status_code == 200
        assert (await raw.request("tools/list")).status_code == 404
        assert await _sessions(site) == 0


@pytest.mark.contract("XM-18")
async def test_an_idle_session_expires_and_a_used_one_does_not(database: Database) -> None:
    clock = MovableClock()
    settings = Settings(mcp_session_ttl_seconds=60, mcp_calls_per_minute=600_000)
    async with serve_site(database, clock=clock, settings=settings) as site, site.raw(await site.key()) as raw:
        await raw.initialize()
        for _ in range(5):
            clock.advance(seconds=50)
            assert (await raw.request("ping")).status_code == 200
        clock.advance(seconds=61)
        assert (await raw.request("ping")).status_code == 404
        assert await site.clients.sweep() == 1
        assert await _sessions(site) == 0


async def test_sessions_are_capped(sqlite_database: SqliteDatabase) -> None:
    settings = Settings(mcp_max_sessions=2, mcp_calls_per_minute=600_000)
    async with serve_site(sqlite_database, settings=settings) as site, site.raw(await site.key()) as raw:
        statuses = [(await raw.initialize()).status_code for _ in range(3)]
        assert statuses == [200, 200, 503]


async def test_one_key_cannot_use_up_everybodys_sessions(database: Database) -> None:
    settings = Settings(mcp_max_sessions_each=2, mcp_calls_per_minute=600_000)
    async with serve_site(database, settings=settings) as site:
        async with site.raw(await site.key()) as greedy:
            answers = [await greedy.initialize() for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 429]
            assert "This credential has 2 sessions open" in answers[-1].text
        async with site.raw(await site.key()) as modest:
            assert (await modest.initialize()).status_code == 200
