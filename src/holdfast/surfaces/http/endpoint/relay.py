"""Owns relaying an upstream's answer: its bytes go to the client as they come, and its ends are kept to be read."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.errors import HoldfastError, UpstreamFailed
from holdfast.engines.llm.remote.connection import UpstreamAnswer
from holdfast.engines.llm.remote.upstream import Relayed
from holdfast.features.usage.model import UsageKind
from holdfast.features.usage.service import Usage
from holdfast.surfaces.http.endpoint.request import EndpointRequest

# Answers up to this size are sent in one piece; larger ones pass through in the pieces that came.
_WHOLE_BYTES = 8 * 1024 * 1024
_TAIL_BYTES = 16 * 1024
_HEAD_BYTES = 4 * 1024
_MOST_HELD_BYTES = 64 * 1024
# What uvicorn says itself, or what is about the upstream's own address.
_OURS = frozenset({b"date", b"server", b"alt-svc", b"strict-transport-security"})
_RENAMED = {b"x-request-id": b"x-upstream-request-id", b"request-id": b"x-upstream-request-id"}


@dataclass(frozen=True, slots=True)
class TokensUsed:
    """What a call took."""

    input: int
    output: int


@dataclass(slots=True)
class Passed:
    """What was passed on so far: all of a short answer, or how a long one began and ended."""

    whole: bytes | None = None
    head: bytes = b""
    tail: bytes = b""
    events: int = 0


class UpstreamCutShort(Exception):
    """The upstream failed in the middle of a body that can't say so; the connection is all that can tell."""


def count_tokens(usage: Usage, request: EndpointRequest, model: str, tokens: TokensUsed) -> None:
    """Count what one call took, at the price of its model. No row for each: thousands a second may pass."""
    endpoint = request.connected.endpoint
    amounts: dict[UsageKind, float] = {
        "model_calls": 1,
        "tokens_in": tokens.input,
        "tokens_out": tokens.output,
        "cost": endpoint.cost(model, tokens.input, tokens.output),
    }
    usage.count_all(request.principal, amounts, source="chat", project_id=endpoint.project_id, model=model)


async def pass_answer(
    request: EndpointRequest,
    relayed: Relayed,
    error_event: Callable[[HoldfastError], bytes],
    passed: Passed | None = None,
) -> None:
    """Answer with what comes; `error_event` writes what a stream ends with when the upstream breaks off.

    Who gives `passed` can read there what a client got before it hung up."""
    passed = passed or Passed()
    ours = request.raw_headers()
    # Of what we tell ourselves, such as a limit, the client gets ours alone.
    said = _OURS.union([name for name, _ in ours]) if ours else _OURS
    headers = [
        (_RENAMED.get(name, name), value) for name, value in relayed.headers if name in _RENAMED or name not in said
    ]
    # Without a length the body is chunked and of any size.
    events, length = relayed.answer.is_events, 0
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            length = int(value)
    headers += ours
    start = {"type": "http.response.start", "status": relayed.status, "headers": headers}
    if not events and length <= _WHOLE_BYTES:
        begun, is_whole = await _begun(relayed.answer)
        await request.send(start)
        if is_whole:
            passed.whole = begun
            await request.send({"type": "http.response.body", "body": begun})
            return
        await request.send({"type": "http.response.body", "body": begun, "more_body": True})
        del begun
    else:
        await request.send(start)
    await _pass_on(request, relayed.answer, error_event if events else None, passed)


async def _begun(answer: UpstreamAnswer) -> tuple[bytes, bool]:
    """The whole body; or, of one without a length that turns out to be larger, what came of it so far."""
    pieces, size = [], 0
    while piece := await answer.read():
        pieces.append(piece)
        size += len(piece)
        if size > _WHOLE_BYTES:
            return b"".join(pieces), False
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), True


async def _pass_on(
    request: EndpointRequest,
    answer: UpstreamAnswer,
    error_event: Callable[[HoldfastError], bytes] | None,
    passed: Passed,
) -> None:
    """Send each piece as it comes."""
    send = request.send
    last = held = b""
    try:
        while piece := await answer.read():
            passed.events += piece.count(b"data:")
            if len(passed.head) < _HEAD_BYTES:
                passed.head += piece[:_HEAD_BYTES]
            passed.tail = piece[-_TAIL_BYTES:] if len(piece) >= _TAIL_BYTES else (passed.tail + piece)[-_TAIL_BYTES:]
            if error_event is not None and (held or not piece.endswith(b"\n")):
                piece, held = _whole_lines(held + piece)
                if not piece:
                    continue
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        last = held
    except UpstreamFailed as problem:
        if error_event is None:
            raise UpstreamCutShort from problem
        # The blank line ends whatever event was cut, whose half line is left out; clients raise what the next one says.
        last = b"\n\n" + error_event(problem)
    await send({"type": "http.response.body", "body": last})


def _whole_lines(data: bytes) -> tuple[bytes, bytes]:
    """What no client can read yet is held, so that it need not read half an event where no more comes."""
    end = data.rfind(b"\n") + 1
    return (data[:end], data[end:]) if len(data) - end <= _MOST_HELD_BYTES else (data, b"")
