"""Both protocol eras on one endpoint, with the official Python SDK 2.x client."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

from holdfast.features.artifacts.model import READ_BYTES, NewArtifact
from holdfast.features.intelligence.model import NewDecision
from holdfast.features.memory.model import NewMemory
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import ERAS, MODERN, Site, serve_site, until

BRIEF = "xerotier://workspace/current/brief"
DECISIONS = "xerotier://workspace/current/recent-decisions"

both_eras = pytest.mark.parametrize("era", ERAS)


async def _stock(site: Site) -> tuple[str, str]:
    """A memory, an artifact and a decision; the memory's slug and the artifact's id."""
    saved = await site.services.memory.save(
        site.owner, site.workspace, NewMemory("Deploys go out on Tuesdays.", category="fact", title="Deploy day")
    )
    artifact = await site.services.artifacts.create(
        site.owner, site.workspace, NewArtifact("plan", "The plan", "text/markdown", "# Plan\n\nShip it.")
    )
    await site.services.intelligence.decisions.track(
        site.owner, site.workspace, NewDecision("Use SQLite first", "It needs no server.")
    )
    assert saved.memory is not None
    return saved.memory.slug, artifact.id


@both_eras
@pytest.mark.contract("XM-1")
async def test_a_client_lists_and_calls_tools(database: Database, era: str) -> None:
    async with serve_site(database) as site, site.client(await site.key(), era) as client:
        listed = await client.list_tools()
        assert {"test.add", "xerotier.session.init"} <= {tool.name for tool in listed.tools}
        result = await client.call_tool("test.add", {"left": 2, "right": 3})
        assert result.structured_content == {"total": 5}
        assert not result.is_error


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.contract("XM-1")
async def test_every_handshake_revision_is_agreed_on(sqlite_database: SqliteDatabase, version: str) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        answer = await raw.initialize(version)
        assert answer.json()["result"]["protocolVersion"] == version
        assert (await raw.request("ping")).json()["result"] == {}
        called = await raw.request("tools/call", {"name": "test.add", "arguments": {"left": 1}})
        assert called.json()["result"]["content"][0]["text"] == '{"total":1}'


async def test_a_revision_we_do_not_know_is_answered_with_our_newest_handshake(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        answer = await raw.initialize("1999-01-01")
        assert answer.json()["result"]["protocolVersion"] == "2025-11-25"


async def test_gemini_may_leave_the_version_header_out(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize("2025-06-18")
        assert "tools" in (await raw.request("tools/list")).json()["result"]


@both_eras
async def test_a_person_is_asked_through_the_client(database: Database, era: str) -> None:
    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message == "Which word?"
        return types.ElicitResult(action="accept", content={"word": "yes"})

    async with (
        serve_site(database) as site,
        site.client(await site.key(), era, elicitation_callback=answer) as client,
    ):
        result = await client.call_tool("test.ask", {"question": "Which word?"})
        assert result.structured_content == {"answer": {"word": "yes"}}


@both_eras
async def test_declining_or_not_being_able_to_ask_is_no_answer(sqlite_database: SqliteDatabase, era: str) -> None:
    async def decline(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async with serve_site(sqlite_database) as site:
        key = await site.key()
        async with site.client(key, era, elicitation_callback=decline) as client:
            assert (await client.call_tool("test.ask", {"question": "?"})).structured_content == {"answer": None}
        async with site.client(key, era) as client:
            assert (await client.call_tool("test.ask", {"question": "?"})).structured_content == {"answer": None}


@both_eras
@pytest.mark.contract("XM-5")
async def test_session_init_lets_the_person_choose_the_workspace(database: Database, era: str) -> None:
    async with serve_site(database) as site:
        other = await site.services.workspaces.create(site.owner, site.project, "Other")

        async def choose(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            return types.ElicitResult(action="accept", content={"workspace_id": other.id})

        key = await site.key()
        async with site.client(key, era, workspace=None, elicitation_callback=choose) as client:
            result = await client.call_tool("xerotier.session.init", {})
            assert result.structured_content is not None
            assert result.structured_content["workspace"]["workspace_id"] == other.id
            assert result.structured_content["bound"] is (era == "legacy")
            if era == "legacy":
                got = await client.call_tool("xerotier.workspace.get", {})
                assert (got.structured_content or {})["workspace_id"] == other.id


@pytest.mark.contract("XM-5")
async def test_session_init_binds_the_only_workspace_without_asking(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key(), workspace=None) as client:
        unbound = await client.call_tool("xerotier.workspace.get", {})
        assert unbound.is_error
        result = await client.call_tool("xerotier.session.init", {})
        assert (result.structured_content or {})["bound"] is True
        assert not (await client.call_tool("xerotier.workspace.get", {})).is_error


async def test_session_init_cannot_leave_a_pinned_workspace(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await site.services.workspaces.create(site.owner, site.project, "Other")
        async with site.client(await site.key()) as client:
            result = await client.call_tool("xerotier.session.init", {"workspace_id": other.id})
            assert result.is_error
            assert "pins this connection" in result.content[0].text  # type: ignore[union-attr]


@both_eras
async def test_progress_reaches_the_caller_while_the_tool_runs(database: Database, era: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with serve_site(database) as site, site.client(await site.key(), era) as client:
        call = asyncio.create_task(client.call_tool("test.slow", {"left": 4}, progress_callback=note))
        await until(lambda: seen)
        assert seen == [(1, 2, "half")]
        site.slow.go_on.set()
        assert (await call).structured_content == {"total": 4}
        assert seen[-1] == (2, 2, "done")


@both_eras
async def test_cancelling_a_call_stops_the_tool(database: Database, era: str) -> None:
    async with serve_site(database) as site, site.client(await site.key(), era) as client:
        with pytest.raises((MCPError, TimeoutError)):
            await client.call_tool("test.slow", {"left": 4}, read_timeout_seconds=0.7)
        async with asyncio.timeout(10):
            await site.slow.cancelled.wait()
        assert not (await client.call_tool("test.add", {"left": 1})).is_error


@both_eras
@pytest.mark.contract("XM-16")
async def test_every_prompt_is_served(database: Database, era: str) -> None:
    async with serve_site(database) as site:
        await _stock(site)
        async with site.client(await site.key(), era) as client:
            prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
            assert list(prompts) == ["session.init", "brief", "onboard", "save-this"]
            session = await client.get_prompt("session.init")
            assert "xerotier.memory.search" in session.messages[0].content.text  # type: ignore[union-attr]
            brief = await client.get_prompt("brief")
            assert "Use SQLite first" in brief.messages[0].content.text  # type: ignore[union-attr]
            onboard = await client.get_prompt("onboard", {"topic": "deploys"})
            assert "Tuesdays" in onboard.messages[0].content.text  # type: ignore[union-attr]
            save = await client.get_prompt("save-this", {"note": "Remember the milk"})
            said = save.messages[0].content.text  # type: ignore[union-attr]
            assert "Remember the milk" in said and "deploy-day" in said


@both_eras
@pytest.mark.contract("XM-16")
async def test_a_prompt_without_a_workspace_says_how_to_bind_one(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site:
        # A client without sessions works in the only workspace where there is one.
        await site.services.workspaces.create(site.owner, site.project, "Other")
        async with site.client(await site.key(), era, workspace=None) as client:
            with pytest.raises(MCPError) as caught:
                await client.get_prompt("brief")
            assert caught.value.error.code == types.INVALID_REQUEST
            assert caught.value.error.message == (
                "Workspace not bound. Call xerotier.session.init or set X-Xerotier-Workspace header."
            )


@both_eras
@pytest.mark.parametrize("name", ["onboard", "save-this"])
async def test_opencode_may_send_an_unfilled_argument(sqlite_database: SqliteDatabase, era: str, name: str) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key(), era) as client:
        argument = "topic" if name == "onboard" else "note"
        found = await client.get_prompt(name, {argument: "$1"})
        assert "$1" not in found.messages[0].content.text  # type: ignore[union-attr]


@both_eras
@pytest.mark.contract("XM-17")
async def test_every_resource_is_listed_and_read(database: Database, era: str) -> None:
    async with serve_site(database) as site:
        slug, artifact_id = await _stock(site)
        memory, artifact = f"xerotier://memory/{slug}", f"xerotier://artifact/{artifact_id}"
        async with site.client(await site.key(), era) as client:
            first = await client.list_resources()
            # Many clients show the first page only.
            assert [str(resource.uri) for resource in first.resources] == [BRIEF, DECISIONS, memory, artifact]
            assert first.next_cursor is None
            templates = (await client.list_resource_templates()).resource_templates
            assert [template.uri_template for template in templates] == [
                "xerotier://memory/{slug}",
                "xerotier://artifact/{id}",
                DECISIONS + "{?since,limit}",
            ]
            texts = {}
            for uri in (
                BRIEF,
                DECISIONS,
                DECISIONS + "?since=7d&limit=1",
                DECISIONS + "?since=2020-01-31",
                memory,
                artifact,
            ):
                contents = (await client.read_resource(uri)).contents[0]
                assert contents.mime_type == "text/markdown"
                texts[uri] = contents.text  # type: ignore[union-attr]
            assert "Use SQLite first" in texts[BRIEF] and "Use SQLite first" in texts[DECISIONS + "?since=7d&limit=1"]
            assert "Tuesdays" in texts[memory] and "Ship it." in texts[artifact]


@both_eras
@pytest.mark.contract("XM-17")
async def test_artifacts_are_listed_and_read_with_their_own_types(sqlite_database: SqliteDatabase, era: str) -> None:
    types_of = {
        "page.html": "text/html",
        "a.json": "application/json",
        "a.py": "text/x-python",
        "a.svg": "image/svg+xml",
    }
    async with serve_site(sqlite_database) as site:
        ids = {}
        for identifier, type in types_of.items():
            new = NewArtifact(identifier, identifier, type, "{}")
            ids[(await site.services.artifacts.create(site.owner, site.workspace, new)).id] = type
        long = NewArtifact("long.json", "Long", "application/json", "x" * (READ_BYTES + 1))
        long_id = (await site.services.artifacts.create(site.owner, site.workspace, long)).id
        async with site.client(await site.key(), era) as client:
            listed = {each.name: each.mime_type for each in (await client.list_resources()).resources}
            assert {id: listed[id] for id in ids} == ids and listed[long_id] == "application/json"
            for id, type in ids.items():
                contents = (await client.read_resource(f"xerotier://artifact/{id}")).contents[0]
                assert (contents.mime_type, contents.text) == (type, "{}")  # type: ignore[union-attr]
            # What stands in for a content that is too long is text about it, and says how to read it.
            instead = (await client.read_resource(f"xerotier://artifact/{long_id}")).contents[0]
            assert instead.mime_type == "text/markdown"
            assert "xerotier.artifact.read" in instead.text  # type: ignore[union-attr]
            templates = (await client.list_resource_templates()).resource_templates
            assert {each.name: each.mime_type for each in templates}["artifact"] is None


@both_eras
async def test_a_resource_that_is_not_there_is_an_error(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key(), era) as client:
        for uri in ("xerotier://memory/nothing", "xerotier://artifact/art_0", "test://x", DECISIONS + "?since=soon"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)


@both_eras
@pytest.mark.contract("XM-17")
async def test_slugs_and_ids_are_completed(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site:
        slug, artifact_id = await _stock(site)
        async with site.client(await site.key(), era) as client:

            async def completed(uri: str, name: str, value: str) -> list[str]:
                reference = types.ResourceTemplateReference(type="ref/resource", uri=uri)
                return (await client.complete(reference, {"name": name, "value": value})).completion.values

            assert await completed("xerotier://memory/{slug}", "slug", "dep") == [slug]
            assert await completed("xerotier://memory/{slug}", "slug", "zz") == []
            assert await completed("xerotier://artifact/{id}", "id", "art_") == [artifact_id]
            reference = types.PromptReference(type="ref/prompt", name="onboard")
            topics = await client.complete(reference, {"name": "topic", "value": "dep"})
            assert topics.completion.values == [slug]


async def test_more_memories_than_a_page_holds_are_listed_page_by_page(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        for number in range(110):
            await site.services.memory.save(
                site.owner, site.workspace, NewMemory(f"Fact number {number} of {number * 7919} is on record.")
            )
        async with site.client(await site.key()) as client:
            listed: list[str] = []
            sizes: list[int] = []
            cursor: str | None = None
            while True:
                page = await client.list_resources(cursor=cursor)
                listed += [str(resource.uri) for resource in page.resources]
                sizes.append(len(page.resources))
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert len(listed) == len(set(listed)) == 112
            assert sizes == [100, 12]


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
@pytest.mark.contract("XM-17")
async def test_a_subscriber_of_the_handshake_era_hears_of_changes(database: Database) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    async with serve_site(database) as site:
        slug, _ = await _stock(site)
        async with site.client(await site.key(), message_handler=hear) as client:
            memory = f"xerotier://memory/{slug}"
            await client.session.subscribe_resource(memory)
            await client.session.subscribe_resource(DECISIONS + "?limit=3")
            await until(lambda: site.surface.live._standing)
            await site.services.memory.retract(site.owner, site.workspace, slug)
            await until(lambda: memory in heard)
            await site.services.intelligence.decisions.track(
                site.owner, site.workspace, NewDecision("Another", "Because.")
            )
            await until(lambda: DECISIONS + "?limit=3" in heard)
            assert BRIEF not in heard


@pytest.mark.contract("XM-17")
async def test_a_client_that_takes_no_form_of_answer_is_told_which_it_must_take(
    sqlite_database: SqliteDatabase,
) -> None:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list", "Accept": "text/html"}
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}
        answer = await raw.http.post(site.url, json=body, headers=headers)
    assert answer.status_code == 406
    assert answer.json()["id"] == 7
    assert "text/event-stream" in answer.json()["error"]["message"]


async def test_a_listener_of_the_stateless_era_hears_of_changes(database: Database) -> None:
    async with serve_site(database) as site:
        slug, _ = await _stock(site)
        memory = f"xerotier://memory/{slug}"
        async with (
            site.client(await site.key(), MODERN) as client,
            client.listen(resource_subscriptions=[memory, BRIEF], resources_list_changed=True) as events,
        ):
            await site.services.memory.retract(site.owner, site.workspace, slug)
            found = []
            async with asyncio.timeout(20):
                async for event in events:
                    found.append(event)
                    if len(found) == 3:
                        break
            assert ResourceUpdated(memory) in found and ResourceUpdated(BRIEF) in found
