"""Owns relaying: a client's request goes to the upstream, and the answer's bytes come back as they are."""

from dataclasses import dataclass

import orjson

from holdfast.core.errors import UpstreamFailed
from holdfast.core.text.jsontext import loads_strange
from holdfast.engines.llm.remote.connection import UpstreamAnswer
from holdfast.engines.llm.remote.upstream import Relayed
from holdfast.engines.llm.remote.upstreams import Upstreams
from holdfast.features.usage.model import UsageKind
from holdfast.features.usage.service import Usage
from holdfast.surfaces.http.protocol.hang_up import while_connected
from holdfast.surfaces.openai.errors import error_object
from holdfast.surfaces.openai.request import Json, OpenAiRequest

# Answers up to this size are sent in one piece; larger ones pass through in the pieces that came.
_WHOLE_BYTES = 8 * 1024 * 1024
_TAIL_BYTES = 16 * 1024
# What uvicorn says itself, or what is about the upstream's own address.
_OURS = frozenset({b"date", b"server", b"alt-svc", b"strict-transport-security"})
_RENAMED = {b"x-request-id": b"x-upstream-request-id"}


@dataclass(frozen=True, slots=True)
class TokensUsed:
    """What a call took."""

    input: int
    output: int


class UpstreamCutShort(Exception):
    """The upstream failed in the middle of a body that can't say so; the connection is all that can tell."""


class Passthrough:
    """Relays, and counts what was used."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    async def relay(
        self, request: OpenAiRequest, upstreams: Upstreams, path: str, body: Json, *, raw: bytes | None = None
    ) -> None:
        """Send the body on and answer with what comes back; the upstream is hung up on when the client goes.

        `raw` are the body's own bytes, for requests whose model is the client's to name.
        """
        request.unhurried()
        sent = dict(request.scope["headers"])
        async with while_connected(request.scope, request.receive):
            relayed = await upstreams.relay("POST", path, sent, body if raw is None else raw)
            try:
                tokens = await _answer(request, relayed, body)
            finally:
                relayed.answer.close()
        if tokens is not None and relayed.status == 200:
            self.count(request, upstreams.name, tokens)

    def count(self, request: OpenAiRequest, model: str, tokens: TokensUsed) -> None:
        """Count what one call took, at the price of its model. No row for each: thousands a second may pass."""
        endpoint = request.connected.endpoint
        amounts: dict[UsageKind, float] = {
            "tokens_in": tokens.input,
            "tokens_out": tokens.output,
            "cost": endpoint.cost(model, tokens.input, tokens.output),
        }
        self._usage.count_all(request.principal, amounts, source="chat", project_id=endpoint.project_id, model=model)


async def _answer(request: OpenAiRequest, relayed: Relayed, body: Json) -> TokensUsed | None:
    headers = [(_RENAMED.get(name, name), value) for name, value in relayed.headers if name not in _OURS]
    # Without a length the body is chunked and of any size.
    events, length = False, 0
    for name, value in headers:
        if name == b"content-type":
            events = value.startswith(b"text/event-stream")
        elif name == b"content-length" and value.isdigit():
            length = int(value)
    headers += request.raw_headers()
    start = {"type": "http.response.start", "status": relayed.status, "headers": headers}
    if not events and length <= _WHOLE_BYTES:
        begun, is_whole = await _begun(relayed.answer)
        await request.send(start)
        if is_whole:
            await request.send({"type": "http.response.body", "body": begun})
            return told_usage(begun)
        await request.send({"type": "http.response.body", "body": begun, "more_body": True})
        del begun
    else:
        await request.send(start)
    return await _pass_on(request, relayed.answer, body, events)


async def _begun(answer: UpstreamAnswer) -> tuple[bytes, bool]:
    """The whole body; or, of one without a length that turns out to be larger, what came of it so far."""
    pieces, size = [], 0
    while piece := await answer.read():
        pieces.append(piece)
        size += len(piece)
        if size > _WHOLE_BYTES:
            return b"".join(pieces), False
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), True


async def _pass_on(request: OpenAiRequest, answer: UpstreamAnswer, body: Json, events: bool) -> TokensUsed:
    """Send each piece as it comes."""
    send = request.send
    tail = b""
    pieces = 0
    last = b""
    try:
        while piece := await answer.read():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            pieces += piece.count(b"data:")
            tail = piece[-_TAIL_BYTES:] if len(piece) >= _TAIL_BYTES else (tail + piece)[-_TAIL_BYTES:]
    except UpstreamFailed as problem:
        if not events:
            raise UpstreamCutShort from problem
        # The blank line ends whatever event was cut; clients raise what the next one says.
        last = b"\n\ndata: " + orjson.dumps({"error": error_object(problem)}) + b"\n\n"
    await send({"type": "http.response.body", "body": last})
    return streamed_usage(tail) or TokensUsed(estimate(body), pieces)


def told_usage(whole: bytes) -> TokensUsed | None:
    """The usage of a whole answer."""
    try:
        value = loads_strange(whole)
    except orjson.JSONDecodeError:
        return None
    return _tokens(value)


def streamed_usage(tail: bytes) -> TokensUsed | None:
    """The usage that the last events of a stream tell; None where the client did not ask for it."""
    if b'"usage"' not in tail:
        return None
    for line in reversed(tail.split(b"\n")):
        if line.startswith(b"data:") and b'"usage"' in line:
            found = told_usage(line[5:])
            if found is not None:
                return found
    return None


def estimate(body: Json) -> int:
    """About how many tokens a request has: four bytes each."""
    return len(orjson.dumps(body.get("messages") or body.get("input") or "")) // 4


def _tokens(value: object) -> TokensUsed | None:
    usage = value.get("usage") if isinstance(value, dict) else None
    if not isinstance(usage, dict):
        return None
    given = usage.get("prompt_tokens", usage.get("input_tokens", 0))
    made = usage.get("completion_tokens", usage.get("output_tokens", 0))
    if isinstance(given, bool) or not isinstance(given, int) or isinstance(made, bool) or not isinstance(made, int):
        return None
    return TokensUsed(max(0, given), max(0, made))
