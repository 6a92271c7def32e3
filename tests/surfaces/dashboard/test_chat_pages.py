"""The chat's pages over the wire: nobody's words run, sources and parts open, foreign chats are not found."""

import json
from collections.abc import AsyncIterator

import pytest

from holdfast.features.chat.model import ChatMessage, ThreadMessage
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.dashboard.views.chat.shown import shown
from tests.support.attacks.markup import PAYLOADS
from tests.support.features.chats import ScriptedModel, call, said, take
from tests.support.pages.dashboard import CHAT, seed
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


def _message(text: str, **more: object) -> ChatMessage:
    said_there = {"role": "assistant", "content": text}
    return ChatMessage("msg_1", "c", 1, None, "", "assistant", said_there, "", 0, **more)  # type: ignore[arg-type]


async def test_the_sources_of_an_answer_become_links_and_its_numbers_marks(server: TestServer) -> None:
    workspace = await server.services.workspaces.get(server.owner, server.start.workspace_id)
    text = (
        "It runs on Fridays [1] and `list[1]` is code [9].\n\nSources:\n[1] Deploys (memory the-deploy)\n"
        "[2] Web – https://example.com/a?b=1&c=2\n[3] Plain words"
    )
    made = shown(workspace, ThreadMessage(_message(text), ["msg_1"]))
    assert [(each.number, each.title, each.beside) for each in made.sources] == [
        (1, "Deploys", True),
        (2, "Web", False),
        (3, "Plain words", False),
    ]
    assert made.sources[0].url == "/w/default/beside/source?type=memory&id=the-deploy"
    assert made.html.count('class="cite"') == 1
    assert "list[1]" in made.html and "code [9]" in made.html and "Sources" not in made.html


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//evil.example", '"><script>'])
async def test_a_source_of_another_scheme_is_no_link(server: TestServer, address: str) -> None:
    workspace = await server.services.workspaces.get(server.owner, server.start.workspace_id)
    made = shown(workspace, ThreadMessage(_message(f"So [1].\n\nSources:\n- [1] Name – {address}"), ["msg_1"]))
    assert [each.url for each in made.sources] == [""]
    assert "<script" not in made.html and "href" not in made.html


async def test_no_attack_survives_in_words_results_titles_or_questions(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        for number, attack in enumerate(PAYLOADS):
            model = ScriptedModel(
                [
                    call("save_memory", "a", content=attack),
                    call("create_artifact", "b", identifier="x", title=attack[:200], type="text/plain", content=attack),
                ],
                call("ask_user", "c", question=attack, options=[attack]),
            )
            await take(server, model, said(attack), chat_id=f"c{number}")  # type: ignore[arg-type]
            page = await owner.get(f"/chat/default/c{number}")
            assert page.status_code == 200
            lowered = page.text.lower()
            for sign in (
                "<script>window",
                "onerror=window.__owned=1>",
                "<svg onload",
                "<iframe src=j",
                'href="javascript:',
            ):
                assert sign not in lowered, (attack, sign)
            rows = await owner.get("/chat", params={"q": attack.split()[0]}, headers={"HX-Request": "true"})
            assert "<script>window" not in rows.text.lower(), attack


async def test_a_part_that_is_opened_as_a_page_leads_to_the_page(server: TestServer) -> None:
    await seed(server)
    async with await server.browser(server.start.owner_id) as owner:
        for tab, page in (("client", "connect"), ("memory", "memory"), ("documents", "documents")):
            answer = await owner.get(f"/w/default/manager/{tab}")
            assert answer.headers["location"] == f"/w/default/{page}"
        part = await owner.get("/w/default/manager/memory?q=deploy", headers={"HX-Request": "true"})
        assert "The deploy runs on Fridays" in part.text and "<html" not in part.text
        assert (await owner.get("/w/default/manager/elsewhere")).status_code == 404
        assert (await owner.get("/w/default/beside/source?type=secret&id=x")).status_code == 404
        assert (await owner.get("/w/default/beside/source?type=memory&id=nothing")).status_code == 404


async def test_chats_of_others_are_neither_listed_found_nor_changed(server: TestServer) -> None:
    await seed(server)
    other = await server.another_tenant()
    stranger = await server.services.identity.create_user(other.owner, email="s@example.com", name="S", role="owner")
    async with await server.browser(stranger.id, other.owner) as client:
        assert "deploy" not in (await client.get("/chat")).text
        assert "deploy run" not in (await client.get("/chat?q=deploy", headers={"HX-Request": "true"})).text.lower()
        for act in ("rename", "delete", "restore"):
            refused = await client.post(f"/chat/{server.start.workspace_id}/{CHAT}/{act}", data={"title": "Mine"})
            assert refused.status_code == 404, act
    async with await server.browser(server.start.owner_id) as owner:
        assert (await owner.get(f"/chat/default/{CHAT}")).status_code == 200


async def test_a_long_chat_shows_its_end_and_leads_to_what_was_before(server: TestServer) -> None:
    messages = said(*(f"Line {number} of many" for number in range(141)))
    await take(server, ScriptedModel("The end."), messages, chat_id="long")  # type: ignore[arg-type]
    async with await server.browser(server.start.owner_id) as owner:
        page = (await owner.get("/chat/default/long")).text
        assert "The end." in page and "Line 5 of many" not in page
        link = page.split('hx-get="/chat/default/long?')[1].split('"')[0].replace("&amp;", "&")
        part = await owner.get(f"/chat/default/long?{link}", headers={"HX-Request": "true"})
        assert "Line 80 of many" in part.text and "Line 5 of many" not in part.text and "The end." not in part.text
        more = part.text.split('hx-get="/chat/default/long?')[1].split('"')[0].replace("&amp;", "&")
        first = await owner.get(f"/chat/default/long?{more}", headers={"HX-Request": "true"})
        assert "Line 0 of many" in first.text


async def test_a_reminder_and_a_card_show_what_was_behind_an_answer(server: TestServer) -> None:
    await seed(server)
    model = ScriptedModel(call("recall_memory", query="deploy"), "On Fridays.")
    await take(server, model, said("When does the deploy run?"), chat_id="c")  # type: ignore[arg-type]
    async with await server.browser(server.start.owner_id) as owner:
        page = (await owner.get("/chat/default/c")).text
    assert "Looked into memory" in page and "reminded of 1 memory" in page
    assert json.dumps({"query": "deploy"}, indent=2).replace('"', "&#34;") in page
