"""Chats over REST: listing, reading, renaming, deleting, exporting, and answering a model's question."""

from dataclasses import dataclass
from typing import cast

import httpx
import pytest

from tests.support.features.chats import ScriptedModel, call, said, take
from tests.support.server import TestServer
from tests.support.world import World


@dataclass(frozen=True, slots=True)
class Talks:
    """A server and a client of it, with the path of its chats."""

    server: TestServer
    client: httpx.AsyncClient

    @property
    def path(self) -> str:
        return f"/api/workspaces/{self.server.start.workspace_id}/chats"

    @property
    def world(self) -> World:
        # A server has what a turn needs of a world.
        return cast("World", self.server)


@pytest.mark.contract("XS-T7")
async def test_a_question_is_answered_over_rest_and_the_chat_goes_on(server: TestServer) -> None:
    async with server.client() as client:
        talks = Talks(server, client)
        paused = await take(
            talks.world, ScriptedModel(call("ask_user", question="How many?", style="rating")), said("Go")
        )
        correlation_id = paused.side("x_ask_user.question")["correlation_id"]
        asked = (await client.get(f"{talks.path}/c1/questions")).json()["items"]
        assert [(each["correlation_id"], each["state"]) for each in asked] == [(correlation_id, "pending")]
        path = f"{talks.path}/c1/questions/{correlation_id}/answer"
        wrong = await client.post(path, json={"answer": 9})
        assert wrong.status_code == 422
        assert "from 1 to 5" in wrong.text
        answered = await client.post(path, json={"answer": 4})
        assert (answered.status_code, answered.json()["state"], answered.json()["answer"]) == (200, "answered", 4)
        assert (await client.post(path, json={"answer": 5})).status_code == 409
        model = ScriptedModel("Four it is.")
        resumed = await take(talks.world, model, said("Go"))
        assert resumed.text == "Four it is."
        assert model.seen[-1]["content"] == '{"answer":4}'


@pytest.mark.contract("XS-3")
async def test_chats_are_listed_read_renamed_exported_and_deleted(server: TestServer) -> None:
    async with server.client() as client:
        talks = Talks(server, client)
        made = await client.post(talks.path, json={"id": "early", "title": "Early"})
        assert (made.status_code, made.json()["messages"]) == (201, 0)
        assert (await client.post(talks.path, json={"id": "early"})).status_code == 409
        assert (await client.post(talks.path, json={"id": "no spaces"})).status_code == 422
        uploaded = await client.post(
            talks.path.replace("/chats", "/documents"),
            files={"file": ("a.txt", b"A tide table", "text/plain")},
            data={"chat_id": "early"},
        )
        assert uploaded.is_success, uploaded.text
        attached = (await client.get(f"{talks.path}/early/attachments")).json()["items"]
        assert [each["filename"] for each in attached] == ["a.txt"]
        await take(talks.world, ScriptedModel("Hello.", "Fine.", "Well."), said("Hi"))
        first = await take(talks.world, ScriptedModel("Fine."), said("Hi", "Hello.", "And you?"))
        await take(talks.world, ScriptedModel("Well."), said("Hi", "Hello.", "How so?"))
        listed = (await client.get(talks.path)).json()["items"]
        assert {each["id"] for each in listed} == {"early", "c1"}
        chat = (await client.get(f"{talks.path}/c1")).json()
        assert (chat["title"], chat["messages"], chat["tokens_in"], chat["tokens_out"]) == ("Hi", 6, 300, 30)
        page = (await client.get(f"{talks.path}/c1/messages?limit=4")).json()
        assert [each["message"]["content"] for each in page["items"]] == ["Hi", "Hello.", "And you?", "Fine."]
        rest = (await client.get(f"{talks.path}/c1/messages", params={"cursor": page["next_cursor"]})).json()
        assert [each["number"] for each in rest["items"]] == [5, 6]
        assert rest["items"][0]["parent_id"] == page["items"][1]["id"]
        branch = await client.get(f"{talks.path}/c1/messages", params={"branch": first.metadata["message_id"]})
        assert [each["number"] for each in branch.json()["items"]] == [1, 2, 3, 4]
        assert (await client.patch(f"{talks.path}/c1", json={"title": "Greetings"})).json()["title"] == "Greetings"
        exported = await client.get(f"{talks.path}/c1/export")
        assert 'filename="chat-c1.json"' in exported.headers["content-disposition"]
        assert [each["role"] for each in exported.json()["messages"]] == ["user", "assistant"] * 3
        text = (await client.get(f"{talks.path}/c1/export?format=markdown")).text
        for words in ("# Greetings", "Fine.", "(a branch after 2)", "Well."):
            assert words in text
        assert (await client.delete(f"{talks.path}/c1")).status_code == 204
        for path in ("", "/messages", "/export", "/questions", "/attachments"):
            assert (await client.get(f"{talks.path}/c1{path}")).status_code == 404


async def test_chats_are_found_by_words_followed_along_a_branch_and_restored_over_rest(server: TestServer) -> None:
    other = await server.another_tenant()
    async with server.client() as client:
        talks = Talks(server, client)
        await take(talks.world, ScriptedModel("The heron nests in April."), said("When does it nest?"))
        await take(talks.world, ScriptedModel("In May."), said("When does it nest, really?"))
        found = (await client.get("/api/chat-messages?q=HERON")).json()["items"]
        assert [(each["chat_id"], each["role"]) for each in found] == [("c1", "assistant")]
        assert (await client.get("/api/chat-messages?q=")).status_code == 422
        foreign = await client.get("/api/chat-messages", params={"q": "heron", "workspace_id": other.workspace_id})
        assert foreign.status_code == 404
        assert [each["id"] for each in (await client.get("/api/chats")).json()["items"]] == ["c1"]
        thread = (await client.get(f"{talks.path}/c1/thread", params={"at": found[0]["message_id"]})).json()["items"]
        assert [each["message"]["content"] for each in thread] == ["When does it nest?", "The heron nests in April."]
        assert len(thread[0]["siblings"]) == 2
        assert thread[0]["question"] is None
        assert (await client.delete(f"{talks.path}/c1")).status_code == 204
        assert (await client.get("/api/chat-messages?q=heron")).json()["items"] == []
        restored = await client.post(f"{talks.path}/c1/restore")
        assert (restored.status_code, restored.json()["messages"]) == (200, 4)
        assert (await client.post(f"{talks.path}/c2/restore")).status_code == 404


async def test_reading_needs_a_scope_and_writing_needs_inference(sqlite_server: TestServer) -> None:
    reader = await sqlite_server.mint("read")
    path = f"/api/workspaces/{sqlite_server.start.workspace_id}/chats"
    async with sqlite_server.client(reader.secret) as client:
        assert (await client.get(path)).status_code == 200
        assert (await client.post(path, json={})).status_code == 403
