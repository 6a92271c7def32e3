"""Proves that what the server's tools gave is there when a turn goes on with a tool of the client's own."""

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from holdfast.features.chat.turn import continuation
from holdfast.storage.database import Database
from tests.fakes.llm.model import FakeModel, Turn, calls, model, says
from tests.support.server import TestServer, serving
from tests.surfaces.openai.endpoint import connect

Json = dict[str, Any]
QUESTION: Json = {"role": "user", "content": "How tall is the tower, and may I climb it?"}
FOUND, CLIMBED = "1776", "Open until noon."
TOOL: Json = {"name": "look_up", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}
CALL = ("look_up", {"place": "tower", "why": "to climb"})
SUM = ("calculator", {"expression": "2*888"})
AFTER = [calls(SUM, content="First a sum."), calls(CALL, content="Now the place.")]
BESIDE = [calls(SUM, CALL)]
WAYS = ["chat", "responses-resent", "responses-named"]


@dataclass
class Client:
    """A client that runs its own tool and knows nothing of those that run here."""

    http: httpx.AsyncClient
    url: str
    way: str = "chat"
    chat_id: str | None = None
    stream: bool = False

    async def begin(self, question: Json = QUESTION) -> Json:
        """Ask; the body that goes on with what the client's tool gave."""
        if self.way == "chat":
            message = await self.ask({"messages": [question]})
            (call,) = message["tool_calls"]
            # As clients do: the arguments read and written again.
            call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":"))
            return {"messages": [question, message, {"role": "tool", "tool_call_id": call["id"], "content": CLIMBED}]}
        resending = self.way == "responses-resent"
        first = await self.ask({"input": [question], "store": not resending})
        (call,) = [item for item in first["output"] if item["type"] == "function_call"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": CLIMBED}
        if resending:
            return {"input": [question, *first["output"], output], "store": False}
        return {"input": [output], "previous_response_id": first["id"]}

    async def ask(self, body: Json) -> Json:
        """The message or the response that answers."""
        body = {**body, "stream": self.stream, **({"x_chat_id": self.chat_id} if self.chat_id else {})}
        if self.way == "chat":
            body |= {"web_search_options": {"x_tools": ["calculator"]}}
            body |= {"tools": [{"type": "function", "function": TOOL}]}
            path = "/chat/completions"
        else:
            hosted = {"type": "web_search_preview", "x_tools": ["calculator"]}
            body, path = {**body, "tools": [hosted, {"type": "function", **TOOL}]}, "/responses"
        answer = await self.http.post(f"{self.url}{path}", json=body)
        assert answer.status_code == 200, answer.text
        if not self.stream:
            whole = answer.json()
            return dict(whole["choices"][0]["message"] if self.way == "chat" else whole)
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
        events = [json.loads(line) for line in lines if line != "[DONE]"]
        return _joined(events) if self.way == "chat" else dict(events[-1]["response"])


def _joined(events: list[Json]) -> Json:
    message: Json = {"role": "assistant", "content": ""}
    for choice in (choice for event in events for choice in event.get("choices") or ()):
        message["content"] += choice["delta"].get("content") or ""
        for piece in choice["delta"].get("tool_calls") or ():
            known = message.setdefault("tool_calls", [])
            if "id" in piece:
                known.append({key: piece[key] for key in ("id", "type", "function")})
            else:
                known[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    return message


def results(upstream: FakeModel) -> list[str]:
    """What the model saw of tools at last."""
    return [message["content"] for message in upstream.requests[-1]["messages"] if message["role"] == "tool"]


def assert_all_was_seen(upstream: FakeModel) -> None:
    found, climbed = results(upstream)
    assert FOUND in found and climbed == CLIMBED
    assert upstream.refused == []


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("chat_id", [None, "c1"], ids=["free", "chat"])
@pytest.mark.parametrize("rounds", [AFTER, BESIDE], ids=["after", "beside"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_turn_goes_on_with_everything_that_was_found(
    sqlite_server: TestServer,
    upstream: FakeModel,
    sqlite_chat: str,
    way: str,
    rounds: list[Turn],
    chat_id: str | None,
    stream: bool,
) -> None:
    upstream.script = [*rounds, says("Yes, and it is 1776 feet tall.")]
    async with sqlite_server.client() as http:
        client = Client(http, sqlite_chat, way, chat_id, stream)
        await client.ask(await client.begin())
    assert_all_was_seen(upstream)
    assert len(upstream.requests) == len(rounds) + 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_restart_in_between_loses_nothing(database: Database, way: str) -> None:
    async with model(*AFTER, says("Yes.")) as upstream:
        async with serving(database) as server, server.client() as http:
            key = server.key
            body = await Client(http, await connect(server, upstream), way).begin()
        async with serving(database) as server, server.client(key) as http:
            url = f"{server.url}/{server.start.project_id}/main/v1"
            await Client(http, url, way).ask(body)
        assert_all_was_seen(upstream)


async def test_several_calls_of_the_clients_one_after_the_other_keep_all(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    again = calls(("calculator", {"expression": "40+2"}))
    upstream.script = [*AFTER, again, calls(("look_up", {"place": "gate"})), says("Yes.")]
    async with sqlite_server.client() as http:
        client = Client(http, sqlite_chat)
        body = await client.begin()
        second = await client.ask(body)
        told = {"role": "tool", "tool_call_id": second["tool_calls"][0]["id"], "content": "Through the gate."}
        await client.ask({"messages": [*body["messages"], second, told]})
    seen = results(upstream)
    assert [word in text for word, text in zip((FOUND, CLIMBED, "42", "Through"), seen, strict=True)] == [True] * 4
    assert upstream.refused == []


async def test_nobody_else_gets_what_was_found(server: TestServer, upstream: FakeModel, chat: str) -> None:
    """The very same words and calls, from another key, another conversation, another chat, another workspace."""
    other = await server.mint(name="other")
    workspace = await server.services.workspaces.create(server.owner, server.start.project_id, "Elsewhere")
    upstream.script = list(AFTER)
    upstream.otherwise = says("Yes.")
    async with server.client() as http, server.client(other.secret) as stranger:
        body = await Client(http, chat).begin()
        elsewhere = server.client(**{"X-Xerotier-Workspace": workspace.id})
        changed = {"messages": [{"role": "user", "content": "Another question."}, *body["messages"][1:]]}
        for client, asked in (
            (Client(stranger, chat), body),
            (Client(elsewhere, chat), body),
            (Client(http, chat, chat_id="c2"), body),
            (Client(http, chat), changed),
        ):
            await client.ask(asked)
            assert results(upstream) == [CLIMBED]
        await Client(http, chat).ask(body)
        await elsewhere.aclose()
    assert_all_was_seen(upstream)


async def test_what_is_kept_is_bounded(
    server: TestServer, upstream: FakeModel, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuation, "MAX_BYTES", 2_000)
    monkeypatch.setattr(continuation, "MAX_WORKSPACE_BYTES", 6_000)
    long = calls(("calculator", {"expression": "+".join(["1"] * 480)}), ("calculator", {"expression": "2" * 5_000}))
    upstream.script = [long, calls(CALL)] * 8
    upstream.otherwise = says("Yes.")
    async with server.client() as http:
        client = Client(http, chat)
        bodies = [await client.begin({"role": "user", "content": f"Question {number}"}) for number in range(8)]
        kept = []
        for body in bodies:
            await client.ask(body)
            kept.append(len(results(upstream)))
    assert (kept[0], kept[-1]) == (1, 3)
    assert upstream.refused == []
    rows = await server.services.database.read(lambda tx: tx.all("SELECT size FROM continuation", {}))
    assert all(row["size"] <= 2_000 for row in rows) and sum(row["size"] for row in rows) <= 6_000


async def test_deleting_a_chat_forgets_what_was_kept_for_it(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    server = sqlite_server
    upstream.script = list(AFTER)
    async with server.client() as http:
        await Client(http, sqlite_chat, chat_id="c1").begin()
        gone = await http.delete(f"/api/workspaces/{server.start.workspace_id}/chats/c1")
    assert gone.status_code == 204
    assert await server.services.database.read(lambda tx: tx.all("SELECT digest FROM continuation", {})) == []
