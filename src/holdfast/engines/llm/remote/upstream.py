"""Owns one upstream of either wire: parsed chunks for the loop, untouched bytes for passthrough."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Literal

import orjson

from holdfast.core.credential import Credential
from holdfast.core.errors import UpstreamFailed
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.messages.messages_request import messages_body
from holdfast.engines.llm.messages.words import THINKING_BLOCKS
from holdfast.engines.llm.model import Json
from holdfast.engines.llm.remote.connection import (
    Timeouts,
    UpstreamAnswer,
    UpstreamConnections,
    parse_base_url,
    request_bytes,
    request_head,
)
from holdfast.engines.llm.remote.names import ToolNames, names_of, rewrite
from holdfast.engines.llm.remote.reading import Batch, chat_batches, error_text, messages_batches, whole_answer
from holdfast.engines.llm.remote.texts import Texts, chat_texts, messages_texts, no_texts

_MAX_ERROR_BYTES = 64 * 1024
ERROR_BODY_SECONDS = 5.0
"""How long a refusal's words are waited for; its status is known by then, and another upstream may be well."""
_MOST_HEADS = 64
_DAY_SECONDS = 86_400.0
_RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
# Its credential or its bill: never the client's fault.
_OURS = frozenset({401, 402, 403})
_REDIRECTS = frozenset({300, 301, 302, 303, 305, 307, 308})

# A client's credential, cookies and our own headers never travel on.
_SENT_ON = frozenset(
    {b"accept", b"content-type", b"idempotency-key", b"openai-beta", b"traceparent", b"tracestate", b"user-agent"}
)
_SENT_ON_TO = {
    "openai": _SENT_ON,
    "anthropic": _SENT_ON | {b"anthropic-version", b"anthropic-beta", b"anthropic-user-profile-id"},
}
# Models that do not think refuse the first, plain servers the second; the limit has two names, and some know but one.
_ADAPTED = {
    "reasoning_effort": "",
    "stream_options": "",
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
_MOST_UNWANTED = 16
_VERSION = (b"anthropic-version", b"2023-06-01")
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"set-cookie",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


_Said = tuple[str, str | None]
"""A field, and its value where that is a word: a model may know the field without knowing each word."""
Kind = Literal["openai", "anthropic"]
"""The wire that an upstream speaks: Chat Completions or Messages."""


@dataclass(frozen=True, slots=True)
class UpstreamSpec:
    """Where a model is and how to ask it."""

    base_url: str
    model: str
    key: Credential | None = None
    priority: int = 0
    """Lower is asked first."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    strict_names: bool = True
    """Whether tool names are rewritten to letters, digits, `_` and `-`, which is all that most upstreams take."""
    kind: Kind = "openai"


@dataclass(frozen=True, slots=True)
class Relayed:
    """An upstream's answer for a client: the bytes as they come, already without hop-by-hop headers."""

    status: int
    headers: list[tuple[bytes, bytes]]
    answer: UpstreamAnswer

    @property
    def body(self) -> AsyncGenerator[bytes, None]:
        """The pieces, to be asked for once. Closing the iterator early hangs up."""
        return self.answer.chunks()


@dataclass(frozen=True, slots=True)
class BegunAnswer:
    """A begun answer for the loop or a translation. Read its chunks, or close it."""

    answer: UpstreamAnswer
    names: ToolNames
    kind: Kind

    async def whole(self) -> Json | None:
        """All of it, in the upstream's words, where it came at once; None where it streams, and is still to be read."""
        return await whole_answer(self.answer)

    async def chunks(self, whole: Json | None = None) -> AsyncGenerator[Json, None]:
        """The chunks, to be asked for once; of the whole, where that was asked for before."""
        async with contextlib.aclosing(self._read(no_texts(), whole)) as batches:
            async for batch in batches:
                for chunk in batch.heard:
                    # Nothing else is heard without texts.
                    if isinstance(chunk, dict):
                        yield chunk

    def batches(self, whole: Json | None = None) -> AsyncGenerator[Batch, None]:
        """The same, those together that came together, and mere texts as such; to be asked for once."""
        return self._read(chat_texts() if self.kind == "openai" else messages_texts(), whole)

    def _read(self, texts: Texts, whole: Json | None) -> AsyncGenerator[Batch, None]:
        read = chat_batches if self.kind == "openai" else messages_batches
        return read(self.answer, self.names, texts, whole)

    def close(self) -> None:
        """Hang up, unless all of it came."""
        self.answer.close()


class UpstreamRefused(UpstreamFailed):
    """The upstream answered with an error. `status` is what our client should see."""

    code = "upstream_refused"

    def __init__(self, answered: int, body: Json | None, retry_after: float | None = None) -> None:
        said = error_text(body)
        if answered in (401, 403):
            # Its text may quote our key, and the fault is the operator's.
            text = f"The upstream refused our credential ({answered}); an operator has to check the endpoint's key."
        else:
            text = f"The upstream answered {answered}" + (f": {said}" if said else ".")
        headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
        super().__init__(text, headers=headers)
        self.answered = answered
        self.retry_after = retry_after
        self.retryable = answered in _RETRYABLE
        self.elsewhere = self.retryable or answered in _OURS
        """Whether another upstream may do better: it is busy or broken, or we set it up wrongly."""
        self.body = None if answered in (401, 403) else body
        if answered in (400, 404, 409, 413, 415, 422, 429):
            self.status = answered


class UpstreamRedirects(UpstreamFailed):
    """The upstream points elsewhere. Neither its key nor the client's request goes there unasked."""

    code = "upstream_redirects"

    def __init__(self, authority: str, status: int) -> None:
        super().__init__(
            f"The upstream at {authority} redirects ({status}) and is not followed; an admin has to name the address "
            "that answers as the endpoint's base_url."
        )


class Upstream:
    """One upstream. It tries once; `Upstreams` tries again and elsewhere."""

    def __init__(self, spec: UpstreamSpec, connections: UpstreamConnections) -> None:
        self.spec = spec
        self._connections = connections
        self._origin, self._path = parse_base_url(spec.base_url)
        # Without compression the bytes can be passed on and read for their usage alike.
        self._always = [(b"accept-encoding", b"identity")]
        if spec.key is not None:
            key = spec.key.sent_to(self._origin.place)
            told = (b"authorization", f"Bearer {key}") if spec.kind == "openai" else (b"x-api-key", key)
            self._always.append((told[0], told[1].encode()))
        self._sent_on = _SENT_ON_TO[spec.kind]
        self._heads: dict[tuple[str, str], bytes] = {}
        self._unwanted: set[_Said] = set()

    @property
    def name(self) -> str:
        return self.spec.model

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        """The chunks of one answer; asks the upstream to stream and to tell its usage."""
        opened = await self.open_chat(body)
        async with contextlib.aclosing(opened.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def open_chat(self, body: Json, *, whole: bool = False) -> BegunAnswer:
        """Begin an answer, streamed or `whole`: its first bytes have come, or UpstreamFailed is raised."""
        names = names_of(body) if self.spec.strict_names else ToolNames(())
        named = rewrite(body, names)
        if self.spec.kind == "anthropic":
            answer = await self._begin("/messages", messages_body(named), whole=whole)
        else:
            answer = await self._begin_adapted(_without_thoughts(named), whole=whole)
        return BegunAnswer(answer, names, self.spec.kind)

    async def _begin_adapted(self, body: Json, *, whole: bool) -> UpstreamAnswer:
        """Ask for a chat in words that this model takes, which whoever asks cannot know.

        A field that it refuses by its name is left out or said otherwise, from then on.
        """
        made = {key: value for key, value in body.items() if key != "stream_options"}
        if not whole:
            options = body.get("stream_options")
            made["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        tried: set[_Said] = set()
        while True:
            asked = _adapted(made, self._unwanted | tried)
            try:
                answer = await self._begin("/chat/completions", asked, whole=whole)
            except UpstreamRefused as refused:
                # What was said otherwise, and is refused once more, is wrong in itself.
                blamed = next((said for said in _blamed(refused, made) if said not in tried), None)
                if blamed is None:
                    raise
                tried.add(blamed)
            else:
                # Only an answer shows that the field was at fault, and not what the client wrote in it.
                if len(self._unwanted) < _MOST_UNWANTED:
                    self._unwanted |= tried
                return answer

    async def _begin(self, path: str, body: Json, *, whole: bool) -> UpstreamAnswer:
        accept = b"application/json" if whole else b"text/event-stream"
        headers = {b"content-type": b"application/json", b"accept": accept}
        answer = await self.open("POST", path, headers, {**body, "stream": not whole})
        if answer.status != 200:
            raise await refusal(answer)
        await answer.ready()
        answer.check()
        return answer

    async def relay(
        self, method: str, path: str, headers: Mapping[bytes, bytes], body: Json | bytes | None = None
    ) -> Relayed:
        """Send a client's request on and give the answer's bytes untouched, whatever its status."""
        return relayed(await self.open(method, path, headers, body))

    async def open(
        self, method: str, path: str, headers: Mapping[bytes, bytes], body: Json | bytes | None = None
    ) -> UpstreamAnswer:
        """Send a request under the base URL. A body that is an object gets this upstream's model."""
        if isinstance(body, dict):
            body = dumps({**body, "model": self.spec.model})
        sent = [pair for pair in headers.items() if pair[0] in self._sent_on]
        if self.spec.kind == "anthropic" and b"anthropic-version" not in headers:
            sent.append(_VERSION)
        data = request_bytes(self._head(method, path), sent, body)
        answer = await self._connections.send(self._origin, data, self.spec.timeouts)
        if answer.status in _REDIRECTS:
            answer.close()
            raise UpstreamRedirects(self._origin.authority, answer.status)
        return answer

    def _head(self, method: str, path: str) -> bytes:
        """What every request to a path begins with; there are few of them."""
        head = self._heads.get((method, path))
        if head is None:
            head = request_head(self._origin, method, self._path + path, self._always)
            if len(self._heads) < _MOST_HEADS:
                self._heads[method, path] = head
        return head


def is_for_others(status: int) -> bool:
    """Whether an answer is worth asking another upstream, or the same one again."""
    return status in _RETRYABLE or status in _OURS


def relayed(answer: UpstreamAnswer) -> Relayed:
    """An answer as a client may see it."""
    headers = [(name, value) for name, value in answer.headers if name not in _HOP_BY_HOP]
    return Relayed(answer.status, headers, answer)


async def refusal(answer: UpstreamAnswer) -> UpstreamRefused:
    """The error that an answer tells: by its status alone where its words do not come."""
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            raw = await answer.whole(_MAX_ERROR_BYTES)
        body = orjson.loads(raw)
    except (TimeoutError, UpstreamFailed, orjson.JSONDecodeError):
        body = None
    return UpstreamRefused(answer.status, body if isinstance(body, dict) else None, retry_after(answer))


def retry_after(answer: UpstreamAnswer) -> float | None:
    """Seconds of OpenAI's retry-after-ms, or of a Retry-After header, which may name a moment; a day at most."""
    for name, unit in ((b"retry-after-ms", 0.001), (b"retry-after", 1.0)):
        said = answer.header(name) or b""
        try:
            seconds = float(said) * unit
        except ValueError:
            seconds = _seconds_until(said, answer.header(b"date") or b"")
        if seconds >= 0:
            return min(seconds, _DAY_SECONDS)
    return None


def _seconds_until(moment: bytes, now: bytes) -> float:
    """From the upstream's own time, where it says that, to the moment that it names; nan where it names none."""
    at = _timestamp(moment)
    clock = _timestamp(now)
    return max(0.0, at - (time.time() if math.isnan(clock) else clock)) if not math.isnan(at) else math.nan


def _timestamp(date: bytes) -> float:
    try:
        return parsedate_to_datetime(date.decode("latin-1")).timestamp()
    except ValueError:
        return math.nan


def _blamed(refused: UpstreamRefused, body: Json) -> Iterator[_Said]:
    """The fields that a refusal names and that can be said otherwise."""
    if refused.answered in (400, 422):
        text = error_text(refused.body)
        yield from (_said(body, name) for name in _ADAPTED if name in body and name in text)


def _said(body: Json, name: str) -> _Said:
    value = body[name]
    return name, value if isinstance(value, str) else None


def _adapted(body: Json, unwanted: Collection[_Said]) -> Json:
    """The body as this model takes it."""
    names = [name for name in _ADAPTED if name in body and _said(body, name) in unwanted]
    if not names:
        return body
    made = {key: value for key, value in body.items() if key not in names}
    for name in names:
        if _ADAPTED[name]:
            made.setdefault(_ADAPTED[name], body[name])
    return made


def _without_thoughts(body: Json) -> Json:
    """The body without thoughts that an Anthropic model signed: nobody else takes them."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not any(
        isinstance(each, dict) and THINKING_BLOCKS in each for each in messages
    ):
        return body
    kept = [
        {key: value for key, value in each.items() if key != THINKING_BLOCKS} if isinstance(each, dict) else each
        for each in messages
    ]
    return {**body, "messages": kept}
