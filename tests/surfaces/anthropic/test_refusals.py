"""Proves what an Anthropic client is told of a refusal: status, type, id, limits, and when to come back."""

from typing import Any

import anthropic
import httpx
import pytest
from anthropic import AsyncAnthropic

from holdfast.features.endpoints.models import EndpointModels
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm import messages as claude
from tests.fakes.llm.messages import FakeMessages
from tests.fakes.llm.model import FakeModel, Turn, says
from tests.support.server import TestServer, serving
from tests.surfaces.anthropic.wires import base_url, texts

Json = dict[str, Any]
PACKED = {"content-encoding": "gzip"}
VERSION = {"anthropic-version": "2023-06-01"}
HELLO: Json = {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}


def told(answer: httpx.Response) -> tuple[int, str]:
    """The status and the type of a refusal that has the whole shape."""
    body = answer.json()
    assert set(body) == {"type", "error", "request_id"}, body
    assert body["type"] == "error" and set(body["error"]) == {"type", "message"}
    assert body["error"]["message"]
    assert answer.headers["request-id"] == body["request_id"]
    return answer.status_code, body["error"]["type"]


@pytest.mark.contract("XA-12")
async def test_each_kind_of_refusal_has_its_status_and_type(
    sqlite_server: TestServer, translated: AsyncAnthropic
) -> None:
    server = sqlite_server
    url = f"{base_url(server, 'translated')}/v1/messages"
    reader = await server.mint("read", name="reader")
    other = await server.another_tenant()
    thief = await server.mint(owner=other.owner, project_id=other.project_id)
    async with server.client() as own, server.client(reader.secret) as weak, server.client(thief.secret) as foreign:
        answers = [
            (401, "authentication_error", await server.stranger().post(url, json=HELLO)),
            (403, "permission_error", await weak.post(url, json=HELLO)),
            (404, "not_found_error", await foreign.post(url, json=HELLO)),
            (404, "not_found_error", await own.post(f"{base_url(server, 'nowhere')}/v1/messages", json=HELLO)),
            (404, "not_found_error", await own.post(f"{url}/batches", json=HELLO)),
            (404, "not_found_error", await own.get(url)),
            (404, "not_found_error", await own.get(url.replace("/messages", "/files"), headers=VERSION)),
            (404, "not_found_error", await own.post(url.replace("/v1/", "/v1/v1/"), json=HELLO, headers=VERSION)),
            (404, "not_found_error", await own.post(url, json=HELLO, headers={"X-Xerotier-Workspace": "ws_no"})),
            (400, "invalid_request_error", await own.post(url, content=b"{")),
            (
                400,
                "invalid_request_error",
                await own.post(url, content=b"\x1f\x8b", headers={"content-encoding": "gzip"}),
            ),
            (400, "invalid_request_error", await own.post(url, json=[])),
            (400, "invalid_request_error", await own.post(url, json={**HELLO, "messages": []})),
            (400, "invalid_request_error", await own.post(url, json={**HELLO, "messages": ["Hello"]})),
            (413, "request_too_large", await own.post(url, content=b" " * (33 * 1024 * 1024))),
        ]

    for status, kind, answer in answers:
        assert told(answer) == (status, kind), answer.text
    assert "/messages/count_tokens" in answers[4][2].text, "what is served instead is not said"
    assert "POST" in answers[5][2].text
    assert "/messages/count_tokens" in answers[6][2].text and "/v1 twice" in answers[7][2].text


@pytest.mark.parametrize(
    ("answered", "status", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (401, 502, "api_error"),
        (402, 502, "api_error"),
        (404, 404, "not_found_error"),
        (413, 413, "request_too_large"),
        (429, 429, "rate_limit_error"),
        (500, 502, "api_error"),
        (503, 529, "overloaded_error"),
        (529, 529, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstreams_refusal_is_told_alike_whichever_wire_it_speaks(
    sqlite_server: TestServer,
    translated: AsyncAnthropic,
    relayed: AsyncAnthropic,
    openai_upstream: FakeModel,
    anthropic_upstream: FakeMessages,
    answered: int,
    status: int,
    kind: str,
    stream: bool,
) -> None:
    # So long a wait is not waited for, and nobody is asked twice.
    patience = {"retry-after": "37"}
    openai_upstream.script = [Turn(status=answered, headers=patience)]
    anthropic_upstream.script = [claude.Answer(status=answered, error=kind, headers=patience)]
    for name in ("translated", "relayed"):
        async with sqlite_server.client() as client:
            answer = await client.post(f"{base_url(sqlite_server, name)}/v1/messages", json={**HELLO, "stream": stream})
        assert (name, answer.status_code) == (name, status), answer.text
        assert answer.json()["error"]["type"] == kind
        assert answer.headers["request-id"]
        if status in (429, 529):
            assert answer.headers["retry-after"] == "37"
        if answered == 401:
            assert "scripted" not in answer.text, "an upstream's words about our key"
        elif status < 500:
            assert "scripted" in answer.text


async def test_a_relayed_answer_has_each_header_once(relayed: AsyncAnthropic, anthropic_upstream: FakeMessages) -> None:
    theirs = {
        "request-id": "req_upstream",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:00Z",
        "anthropic-ratelimit-tokens-remaining": "1000",
    }
    anthropic_upstream.script = [claude.says("Hi.", headers=theirs)]
    raw = await relayed.messages.with_raw_response.create(**HELLO)

    for name in (*theirs, "x-request-id"):
        assert len(raw.headers.get_list(name)) == 1, (name, raw.headers.get_list(name))
    assert raw.headers["anthropic-ratelimit-requests-limit"] == "6000", "the limit that holds for this client is ours"
    assert raw.headers["anthropic-ratelimit-tokens-remaining"] == "1000"
    assert raw.headers["x-upstream-request-id"] == "req_upstream"
    assert raw.headers["request-id"] == raw.headers["x-request-id"]


async def test_beyond_the_limit_a_client_is_told_when_to_come_back(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, chat_requests_per_minute=2) as server, server.client() as client:
        url = f"{base_url(server, 'default')}/v1/messages"
        first = await client.post(url, json=HELLO)
        chat = await client.post(f"{base_url(server, 'default')}/v1/chat/completions", json=HELLO)
        third = await client.post(url, json=HELLO)

    assert (first.status_code, chat.status_code) == (200, 200), "both wires count towards one limit"
    assert first.headers["anthropic-ratelimit-requests-remaining"] == "1"
    assert told(third) == (429, "rate_limit_error")
    assert third.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert 1 <= int(third.headers["retry-after"]) <= 60


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 529])
async def test_the_client_tries_again_by_itself_when_it_was_told_to_wait(
    sqlite_server: TestServer, translated: AsyncAnthropic, openai_upstream: FakeModel, status: int
) -> None:
    # The router tries three times by itself; what the client waits is the second that it is told.
    openai_upstream.script = [Turn(status=status, headers={"retry-after": "0"})] * 3 + [says("Now.")]
    message = await translated.with_options(max_retries=1).messages.create(**HELLO)

    assert texts(message) == ["Now."]
    assert len(openai_upstream.requests) == 4


async def test_the_client_raises_the_error_of_each_status(
    translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    raised: list[tuple[int, type[anthropic.APIStatusError]]] = [
        (404, anthropic.NotFoundError),
        (413, anthropic.RequestTooLargeError),
        (422, anthropic.BadRequestError),
        (429, anthropic.RateLimitError),
    ]
    for status, kind in raised:
        openai_upstream.script = [Turn(status=status, headers={"retry-after": "37"})]
        with pytest.raises(kind) as refused:
            await translated.messages.create(**HELLO)
        assert refused.value.request_id == refused.value.response.headers["request-id"]


@pytest.mark.one_process("it is broken in this one")
@pytest.mark.parametrize("path", ["messages", "chat/completions"])
async def test_what_nobody_foresaw_is_told_in_the_shape_of_the_wire(
    sqlite_server: TestServer, translated: AsyncAnthropic, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(EndpointModels, "connect", fails)
    async with sqlite_server.client() as client:
        answer = await client.post(f"{base_url(sqlite_server, 'translated')}/v1/{path}", json=HELLO)

    assert answer.status_code == 500
    if path == "messages":
        assert told(answer) == (500, "api_error")
    else:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
