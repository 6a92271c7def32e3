"""Owns the way from a turn's events to those of a response: items that open, grow and close, and the whole object."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import new_id
from holdfast.engines.llm.model import CallEvent, ChunkEvent, Done, Json, LoopEvent, SideEvent
from holdfast.features.responses.calls import ClientCalls
from holdfast.features.responses.event_log import StreamPosition
from holdfast.features.responses.items import Called

# Tools that Responses has an item for; every other one is told by its `x_…` events.
_HOSTED = {"web_search": "web_search_call", "fetch_url": "web_search_call", "file_search": "file_search_call"}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponseEvents:
    """One response while it is made. Every event is numbered; `response` is what it came to so far."""

    def __init__(
        self, response: Json, functions: dict[str, Called], now: Callable[[], int], told: StreamPosition | None = None
    ) -> None:
        self.response = {**response, "status": "in_progress"}
        self.told: list[Json] = []
        """The `x_…` events, for answers that are not streamed."""
        self._now = now
        # An attempt before this one may have told something; numbers and places go on behind it.
        self._number, self._first_index = (told.number, told.index) if told else (0, 0)
        self._output: list[Json] = self.response["output"]
        self._output.clear()
        self._open: _Growing | None = None
        self._calls = ClientCalls(functions)
        self._hosted: list[tuple[str, str, int]] = []

    def begin(self) -> Iterator[Json]:
        """What every response begins with."""
        yield self._event("response.created", response=self._snapshot())
        yield from self.go_on()

    def go_on(self) -> Iterator[Json]:
        """What is told when the work begins, of a response that was queued."""
        yield self._event("response.in_progress", response=self._snapshot())

    def hear(self, event: LoopEvent) -> Iterator[Json]:
        """The events that an event of the turn becomes."""
        if isinstance(event, ChunkEvent):
            yield from self._chunk(event.chunk)
        elif isinstance(event, SideEvent):
            self.told.append(event.data)
            yield {**event.data, "sequence_number": self._next()}
            yield from self._hosted_begins(event.data)
        elif isinstance(event, CallEvent):
            yield from self._hosted_ends(event)
        else:
            yield from self._end(event)

    def fail(self, problem: HoldfastError) -> Iterator[Json]:
        """The end of a response that cannot go on."""
        error = {"code": "rate_limit_exceeded" if problem.status == 429 else "server_error", "message": problem.message}
        self.response |= {"status": "failed", "error": error}
        yield self._event("response.failed", response=self._snapshot())

    # What the model says.

    def _chunk(self, chunk: Json) -> Iterator[Json]:
        if isinstance(chunk.get("model"), str) and not self.response["model"]:
            self.response["model"] = chunk["model"]
        for choice in _dicts(chunk.get("choices")):
            delta: Json = next((choice[key] for key in ("delta", "message") if isinstance(choice.get(key), dict)), {})
            if choice.get("index"):
                continue
            thought = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(thought, str) and thought:
                yield from self._grow("reasoning", thought)
            for part in ("content", "refusal"):
                if isinstance(delta.get(part), str) and delta[part]:
                    yield from self._grow(part, delta[part])
            for call in _dicts(delta.get("tool_calls")):
                yield from self._close()
                yield from self._client_call(call)

    def _grow(self, part: str, text: str) -> Iterator[Json]:
        if self._open is None or self._open.part != part:
            yield from self._close()
            self._open = _Growing(part, len(self._output))
            self._output.append(self._open.item)
            yield self._item("added", self._open.index)
            added = self._open.content()
            yield self._event("response.content_part.added", **self._open.place(), part=added)
        self._open.texts.append(text)
        delta = {"delta": text, **({"logprobs": []} if part == "content" else {})}
        yield self._event(f"response.{self._open.kind}.delta", **self._open.place(), **delta)

    def _close(self, status: str = "completed") -> Iterator[Json]:
        growing, self._open = self._open, None
        if growing is None:
            return
        whole = growing.content()
        field = "refusal" if growing.part == "refusal" else "text"
        done = {field: whole[field], **({"logprobs": []} if growing.part == "content" else {})}
        yield self._event(f"response.{growing.kind}.done", **growing.place(), **done)
        yield self._event("response.content_part.done", **growing.place(), part=whole)
        growing.item |= {"content": [whole], "status": status}
        yield self._item("done", growing.index)

    # Calls that are the client's to make.

    def _client_call(self, piece: Json) -> Iterator[Json]:
        call = self._calls.take(piece, len(self._output))
        if call is None:
            return
        if call.fresh:
            call.fresh = False
            self._output.append(call.item)
            yield self._item("added", call.index)
        if call.news and not call.called.custom:
            place = {"item_id": call.item["id"], "output_index": call.index}
            yield self._event("response.function_call_arguments.delta", **place, delta=call.news)

    def _close_calls(self) -> Iterator[Json]:
        for call in self._calls.finished():
            place = {"item_id": call.item["id"], "output_index": call.index}
            if call.called.custom:
                yield self._event("response.custom_tool_call_input.delta", **place, delta=call.item["input"])
                yield self._event("response.custom_tool_call_input.done", **place, input=call.item["input"])
            else:
                named = {"name": call.item["name"], "arguments": call.item["arguments"]}
                yield self._event("response.function_call_arguments.done", **place, **named)
            yield self._item("done", call.index)

    # Calls that ran here.

    def _hosted_begins(self, data: Json) -> Iterator[Json]:
        kind = _HOSTED.get(str(data.get("name")))
        if kind is None or "arguments" not in data:
            return
        yield from self._close()
        index = len(self._output)
        item: Json = {"id": new_id("fs" if kind == "file_search_call" else "ws"), "type": kind, "status": "in_progress"}
        item |= _asked(data["name"], data["arguments"])
        self._output.append(item)
        self._hosted.append((data["name"], data["arguments"], index))
        yield self._item("added", index)
        place = {"item_id": item["id"], "output_index": index}
        yield self._event(f"response.{kind}.in_progress", **place)
        item["status"] = "searching"
        yield self._event(f"response.{kind}.searching", **place)

    def _hosted_ends(self, event: CallEvent) -> Iterator[Json]:
        for waiting in self._hosted:
            if waiting[:2] == (event.name, event.arguments):
                self._hosted.remove(waiting)
                break
        else:
            return
        item = self._output[waiting[2]]
        found = _parsed(event.outcome.text)
        if item["type"] == "file_search_call":
            item["results"] = [_passage(each) for each in _dicts(found.get("results"))]
        elif event.name == "web_search":
            urls = [each["url"] for each in _dicts(found.get("results")) if isinstance(each.get("url"), str)]
            item["action"]["sources"] = [{"type": "url", "url": url} for url in urls]
        item["status"] = "failed" if event.failed else "completed"
        place = {"item_id": item["id"], "output_index": waiting[2]}
        yield self._event(f"response.{item['type']}.completed", **place, item=dict(item))
        yield self._item("done", waiting[2])

    # The end.

    def _end(self, done: Done) -> Iterator[Json]:
        reason = _INCOMPLETE.get(done.finish_reason)
        yield from self._close("incomplete" if reason else "completed")
        yield from self._close_calls()
        status = "incomplete" if reason else "completed"
        self.response |= {
            "status": status,
            "incomplete_details": {"reason": reason} if reason else None,
            "completed_at": None if reason else self._now() // 1000,
            "usage": _usage(done),
        }
        yield self._event(f"response.{status}", response=self._snapshot())

    def _item(self, what: str, index: int) -> Json:
        return self._event(f"response.output_item.{what}", output_index=index, item=dict(self._output[index]))

    def _event(self, type: str, **fields: Any) -> Json:
        if "output_index" in fields:
            fields["output_index"] += self._first_index
        return {"type": type, "sequence_number": self._next(), **fields}

    def _snapshot(self) -> Json:
        return {**self.response, "output": [dict(item) for item in self._output]}

    def _next(self) -> int:
        self._number += 1
        return self._number - 1


class _Growing:
    """A message or a thought that is being told."""

    def __init__(self, part: str, index: int) -> None:
        self.part = part
        self.index = index
        self.texts: list[str] = []
        self.kind = {"content": "output_text", "refusal": "refusal", "reasoning": "reasoning_text"}[part]
        if part == "reasoning":
            self.item: Json = {"id": new_id("rs"), "type": "reasoning", "summary": [], "content": []}
        else:
            self.item = {"id": new_id("msg"), "type": "message", "role": "assistant", "content": []}
        self.item["status"] = "in_progress"

    def place(self) -> Json:
        return {"item_id": self.item["id"], "output_index": self.index, "content_index": 0}

    def content(self) -> Json:
        text = "".join(self.texts)
        if self.part == "refusal":
            return {"type": "refusal", "refusal": text}
        more: Json = {"annotations": [], "logprobs": []} if self.part == "content" else {}
        return {"type": self.kind, "text": text, **more}


def _asked(name: str, arguments: str) -> Json:
    """What an item says of the call that it stands for."""
    given = _parsed(arguments)
    if name == "file_search":
        return {"queries": [str(given.get("query") or "")], "results": None}
    if name == "web_search":
        query = str(given.get("query") or "")
        return {"action": {"type": "search", "query": query, "queries": [query]}}
    return {"action": {"type": "open_page", "url": given.get("url") or next(iter(given.get("urls") or ()), None)}}


def _passage(found: Json) -> Json:
    return {
        "file_id": found.get("artifact_id"),
        "filename": found.get("filename"),
        "score": found.get("relevance_score"),
        "text": found.get("chunk_text"),
        "attributes": {},
    }


def _parsed(text: str) -> Json:
    """The object that a text is; an empty one for what models write wrongly and tools answer in words."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _usage(done: Done) -> Json:
    usage, tally = done.usage, done.tally
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    thought = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    return {
        "input_tokens": tally.input_tokens,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": tally.output_tokens,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": tally.total,
    }


def _detail(usage: Json, part: str, name: str) -> int:
    details = usage.get(part)
    value = details.get(name) if isinstance(details, dict) else None
    return value if isinstance(value, int) else 0


def _dicts(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
