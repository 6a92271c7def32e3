"""The Keystone mount as it is documented: a program that knows only the document, over plain HTTP."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import iso
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.services import Start
from tests.surfaces.keystone.harness import Keystone, serve_keystone
from tests.surfaces.keystone.ingested import WHY, ingest, small_repository

pytestmark = pytest.mark.contract("KS-1")

AUTH = "Issue session tokens from the database\n\nAuthentication tokens were signed before; now they can be revoked."
RETRY = "Retry uploads three times\n\nThe storage drops connections under load."


async def stock(at: Keystone) -> None:
    await at.add("my-api", AUTH, "Bump the linter", name="My API", keystone_files=6)
    await at.add("my-frontend", RETRY, last_synced_at=None, synthesis_status="pending", synthesis_progress=0)


def only_text(result: dict[str, Any]) -> str:
    (content,) = result["content"]
    assert content["type"] == "text" and not result.get("isError"), result
    return str(content["text"])


async def test_the_handshake_is_answered_to_the_letter(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:
        answer = await http.initialize()
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
        assert answer.json() == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {
                "protocolVersion": "2025-03-26",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "keystone", "version": "1.0.0"},
            },
        }
        assert "mcp-session-id" not in answer.headers
        body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        noted = await http.client.post(at.url, json=body)
        assert (noted.status_code, noted.content) == (202, b"")


async def test_there_are_exactly_four_tools_with_the_documented_inputs(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:
        tools = {tool["name"]: tool for tool in (await http.send("tools/list")).json()["result"]["tools"]}
    assert list(tools) == ["list_projects", "ask", "search_memory", "get_project_status"]
    inputs = {name: tool["inputSchema"] for name, tool in tools.items()}
    kinds = {
        name: {
            field: (found["type"], found.get("items", {}).get("type")) for field, found in schema["properties"].items()
        }
        for name, schema in inputs.items()
    }
    assert kinds == {
        "list_projects": {},
        "ask": {"projectSlugs": ("array", "string"), "question": ("string", None)},
        "search_memory": {"projectSlugs": ("array", "string"), "query": ("string", None)},
        "get_project_status": {"projectSlug": ("string", None)},
    }
    assert all(sorted(schema.get("required", [])) == sorted(schema["properties"]) for schema in inputs.values())
    assert all(tool["description"] and tool["annotations"]["readOnlyHint"] for tool in tools.values())


async def test_list_projects_gives_the_bare_array(database: Database, clock: MovableClock) -> None:
    async with serve_keystone(database, clock=clock) as at, at.http(await at.key()) as http:
        assert json.loads(only_text(await http.result("list_projects"))) == []
        await stock(at)
        assert json.loads(only_text(await http.result("list_projects"))) == [
            {
                "slug": "my-api",
                "name": "My API",
                "githubFullName": "acme/my-api",
                "synthesisStatus": "completed",
                "lastSyncedAt": iso(clock.now()),
            },
            {
                "slug": "my-frontend",
                "name": "My Frontend",
                "githubFullName": "acme/my-frontend",
                "synthesisStatus": "pending",
                "lastSyncedAt": None,
            },
        ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", iso(clock.now()))


async def test_more_projects_than_a_page_are_all_listed(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:
        for number in range(205):
            await at.add(f"p{number:03}", full_name="")
        listed = json.loads(only_text(await http.result("list_projects")))
        assert [each["slug"] for each in listed] == [f"p{number:03}" for number in range(205)]
        assert listed[0]["githubFullName"] is None


async def test_search_memory_gives_matches_with_what_they_are(database: Database) -> None:
    async with serve_keystone(database) as at, at.http(await at.key()) as http:
        await stock(at)
        arguments = {"projectSlugs": ["my-api", "my-frontend"], "query": "how authentication tokens are issued"}
        matches = json.loads(only_text(await http.result("search_memory", arguments)))
        best = matches[0]
        assert set(best) == {"repo", "sourceId", "content", "metadata", "similarity"}
        assert (best["repo"], best["sourceId"]) == ("my-api", f"commit:{0:040x}")
        assert "Authentication tokens were signed" in best["content"]
        assert best["metadata"]["type"] == "commit" and best["metadata"]["author"] == "Ada Lovelace"
        assert all(0.3 <= match["similarity"] <= 1 for match in matches)
        nothing = {"projectSlugs": ["my-frontend"], "query": "zebra quilt"}
        assert json.loads(only_text(await http.result("search_memory", nothing))) == []


async def test_search_memory_gives_at_most_twelve(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:
        await at.add("my-api", *(f"Retry uploads of kind {number} three times" for number in range(30)))
        found = await http.result("search_memory", {"projectSlugs": ["my-api"], "query": "retry uploads three times"})
        similarities = [match["similarity"] for match in json.loads(only_text(found))]
        assert len(similarities) == 12 and similarities == sorted(similarities, reverse=True)


async def test_get_project_status_gives_the_documented_object(database: Database, clock: MovableClock) -> None:
    async with serve_keystone(database, clock=clock) as at, at.http(await at.key()) as http:
        await at.add("my-api", keystone_files=6, vectors=318)
        status = json.loads(only_text(await http.result("get_project_status", {"projectSlug": "my-api"})))
        assert status == {
            "slug": "my-api",
            "githubFullName": "acme/my-api",
            "memoryScore": 100,
            "breakdown": {
                "total": 100,
                "ingestion": 25,
                "synthesis": 25,
                "coverage": 25,
                "freshness": 15,
                "keystoneFolder": 10,
            },
            "synthesisStatus": "completed",
            "synthesisProgress": 100,
            "lastSyncedAt": iso(clock.now()),
            "ingestionCompleted": True,
            "embeddingCount": 318,
            "keystoneFolder": {"detected": True, "fileCount": 6},
        }


@pytest.mark.contract("KS-5")
async def test_the_score_follows_the_table_at_every_boundary(database: Database, clock: MovableClock) -> None:
    day, now = 86_400_000, clock.now()
    cases: dict[str, tuple[dict[str, Any], dict[str, int]]] = {}
    for vectors, points in ((0, 0), (1, 8), (49, 8), (50, 17), (199, 17), (200, 25)):
        # Passages that wait for their vector count nothing.
        cases[f"vectors-{vectors}"] = ({"vectors": vectors, "entries": 5_000}, {"coverage": points})
    for days, points, later in ((7, 15, 10), (30, 10, 5), (90, 5, 0)):
        cases[f"days-{days}"] = ({"last_synced_at": now - days * day}, {"freshness": points})
        cases[f"later-{days}"] = ({"last_synced_at": now - days * day - 1}, {"freshness": later})
    cases["never"] = ({"last_synced_at": None, "ingested": False}, {"freshness": 0, "ingestion": 0})
    cases["synced"] = ({}, {"freshness": 15, "ingestion": 25, "synthesis": 25, "keystoneFolder": 0})
    for status in ("pending", "running", "failed"):
        cases[status] = ({"synthesis_status": status}, {"synthesis": 0})
    cases["folder"] = ({"keystone_files": 1}, {"keystoneFolder": 10})
    async with serve_keystone(database, clock=clock) as at, at.http(await at.key()) as http:
        for slug, (known, expected) in cases.items():
            await at.add(slug, **known)
            status = json.loads(only_text(await http.result("get_project_status", {"projectSlug": slug})))
            breakdown = status["breakdown"]
            assert {part: breakdown[part] for part in expected} == expected, slug
            assert status["memoryScore"] == breakdown["total"] == sum(breakdown.values()) - breakdown["total"]


@pytest.mark.contract("KS-3")
async def test_ask_gives_one_text_in_markdown_with_its_sources(database: Database, tmp_path: Path) -> None:
    repository = small_repository(tmp_path / "my-api")
    async with serve_keystone(database, data_dir=tmp_path) as at, at.http(await at.key()) as http:
        await at.add("my-frontend", RETRY)
        await ingest(at.services, at.owner, at.start.workspace_id, repository, "my-api")
        text = only_text(await http.result("ask", {"projectSlugs": ["my-api", "my-frontend"], "question": WHY}))
        assert "[1]" in text and "Signed cookies could not be revoked" in text
        page = await at.services.usage.entries(at.owner)
        assert [(entry.source, entry.operation) for entry in page.items] == [("mcp", "ask")]


async def test_a_slug_of_nobody_and_of_somebody_else_are_told_apart_by_nothing(database: Database) -> None:
    async with serve_keystone(database) as at:
        organization = await at.services.identity.create_organization(at.owner, "Other")
        owner = local_principal(organization.id)
        project = await at.services.identity.create_project(owner, "Other")
        workspace = await at.services.workspaces.create(owner, project.id, "Other")
        theirs = Start(project.id, workspace.id, "", organization.id, None)
        await at.add("their-api", AUTH, owner=theirs)
        await at.add("my-api", AUTH)
        told: dict[str, set[str]] = {}
        async with at.http(await at.key()) as http:
            for slug in ("their-api", "no-such-api", "Not A Slug", "x\u0000y", "a" * 500):
                calls: list[tuple[str, dict[str, Any], str]] = [
                    ("get_project_status", {"projectSlug": slug}, "projectSlug"),
                    ("search_memory", {"projectSlugs": ["my-api", slug], "query": "tokens"}, "projectSlugs[1]"),
                    ("ask", {"projectSlugs": [slug], "question": "Which tokens?"}, "projectSlugs[0]"),
                ]
                for name, arguments, field in calls:
                    result = await http.result(name, arguments)
                    text = result["content"][0]["text"]
                    assert result["isError"] is True and field in text and "list_projects" in text
                    # What is as long as a key is not said again, whosever it is.
                    same = text.replace(repr(slug[:80]), "it").replace("'[redacted]'", "it")
                    told.setdefault(name, set()).add(same)
            assert {name: len(texts) for name, texts in told.items()} == dict.fromkeys(told, 1)
            assert [each["slug"] for each in json.loads(only_text(await http.result("list_projects")))] == ["my-api"]
        async with at.http(await at.key(owner=owner)) as http:
            assert [each["slug"] for each in json.loads(only_text(await http.result("list_projects")))] == ["their-api"]


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("ask", {"projectSlugs": ["my-api"]}, "question"),
        ("ask", {"projectSlugs": ["my-api"], "question": "   "}, "question"),
        ("ask", {"projectSlugs": ["my-api"], "question": "x" * 5_000}, "question"),
        ("ask", {"projectSlugs": [], "question": "Why?"}, "projectSlugs"),
        ("ask", {"projectSlugs": "my-api", "question": "Why?"}, "projectSlugs"),
        ("search_memory", {"query": "why"}, "projectSlugs"),
        ("search_memory", {"projectSlugs": [7], "query": "why"}, "projectSlugs"),
        ("search_memory", {"projectSlugs": ["s"] * 21, "query": "why"}, "projectSlugs"),
        ("get_project_status", {"projectSlug": None}, "projectSlug"),
        ("get_project_status", {"project_slug": "my-api"}, "project_slug"),
        ("list_projects", {"limit": 3}, "limit"),
    ],
)
async def test_wrong_arguments_are_named(
    sqlite_database: SqliteDatabase, name: str, arguments: dict[str, Any], field: str
) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:
        result = await http.result(name, arguments)
        assert result["isError"] is True and field in result["content"][0]["text"]
