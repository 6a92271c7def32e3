"""Who gets in, what they see then, and that it is known when they came."""

import json
import time
from typing import Any

import jwt
import pytest

from holdfast.features.audit.model import AuditFilter
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.surfaces.keystone.harness import Plain, serve_keystone

pytestmark = pytest.mark.contract("KS-1")

SECRET = "s" * 40


async def slugs(http: Plain) -> list[str]:
    result = await http.result("list_projects")
    return [each["slug"] for each in json.loads(result["content"][0]["text"])]


async def test_nobody_gets_in_without_a_bearer(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at:
        wrong: list[dict[str, str]] = [
            {},
            {"Authorization": "Bearer"},
            {"Authorization": "Basic eDp5"},
            {"Authorization": "Bearer ks_live_" + "0" * 64},
            {"Authorization": "Bearer ks_live_short"},
            {"Authorization": "Bearer a.b.c"},
            {"Cookie": "holdfast_session=x"},
        ]
        for headers in wrong:
            async with at.http(None, **headers) as http:
                for answer in (await http.initialize(), await http.client.get(at.url)):
                    assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Bearer")
                    assert answer.json()["error"]["message"] == "A valid credential is required."


async def test_a_persons_token_is_a_credential(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database, jwt_secret=SECRET) as at:
        await at.add("my-api")
        user = await at.services.identity.create_user(at.owner, email="ada@example.com", name="Ada")
        claims = {"sub": "whoever", "email": user.email, "email_verified": True, "exp": int(time.time()) + 600}
        async with at.http(jwt.encode(claims, SECRET, "HS256")) as http:
            assert await slugs(http) == ["my-api"]
        async with at.http(jwt.encode({**claims, "exp": 1}, SECRET, "HS256")) as http:
            assert (await http.call("list_projects")).status_code == 401


async def test_a_projects_key_sees_its_project_and_its_workspaces(database: Database) -> None:
    async with serve_keystone(database) as at:
        project = await at.services.identity.create_project(at.owner, "Second")
        there = await at.services.workspaces.create(at.owner, project.id, "There")
        beside = await at.services.workspaces.create(at.owner, at.start.project_id, "Beside")
        await at.add("first")
        await at.add("beside", "Deploy on Tuesdays", workspace_id=beside.id)
        await at.add("second", workspace_id=there.id)
        keys: list[tuple[dict[str, Any], list[str]]] = [
            ({}, ["beside", "first", "second"]),
            ({"project_id": at.start.project_id}, ["beside", "first"]),
            ({"project_id": project.id}, ["second"]),
            ({"project_id": at.start.project_id, "workspace_ids": frozenset({beside.id})}, ["beside"]),
        ]
        for more, seen in keys:
            async with at.http(await at.key(**more)) as http:
                assert await slugs(http) == seen
                for slug in ("beside", "first", "second"):
                    status = await http.result("get_project_status", {"projectSlug": slug})
                    assert bool(status.get("isError")) == (slug not in seen)
                    found = await http.result("search_memory", {"projectSlugs": [slug], "query": "deploy"})
                    assert bool(found.get("isError")) == (slug not in seen)


async def test_reading_is_for_readers_and_asking_for_those_who_may_spend(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at:
        await at.add("my-api")
        asked = {"projectSlugs": ["my-api"], "question": "Why?"}
        async with at.http(await at.key("read")) as http:
            names = [tool["name"] for tool in (await http.send("tools/list")).json()["result"]["tools"]]
            assert names == ["list_projects", "search_memory", "get_project_status"]
            assert await slugs(http) == ["my-api"]
            refused = (await http.call("ask", asked)).json()["error"]
            assert "'inference'" in refused["message"]
        async with at.http(await at.key("inference", catalog_search=True, tier="core")) as http:
            assert len((await http.send("tools/list")).json()["result"]["tools"]) == 4
        async with at.http(await at.key("management")) as http:
            assert (await http.initialize()).status_code == 403
        denied = await at.services.audit.list(at.owner, AuditFilter(outcome="denied"))
        assert {row.action for row in denied.items} == {"tool.call", "keystone"}


async def test_when_a_key_was_last_used_is_kept(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    async with serve_keystone(sqlite_database, clock=clock) as at:
        secret = await at.key()
        async with at.http(secret) as http:
            clock.advance(days=1)
            await http.initialize()
            await at.services.keys.flush_last_used()
            (key,) = [key for key in (await at.services.keys.list(at.owner)).items if secret.startswith(key.prefix)]
            assert key.last_used_at == clock.now() and key.prefix == secret[:16]
            await at.services.keys.revoke(at.owner, key.id)
            assert (await http.call("list_projects")).status_code == 401
