"""Owns putting chunks together again: one message, its tool calls and its usage, unknown fields included."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import UpstreamFailed
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.messages.words import count
from holdfast.engines.llm.model import Json, Tally

MAX_BYTES = 32 * 1024 * 1024
MAX_WEIGHT = 256 * 1024 * 1024
"""What lists and objects of an answer may take in memory, which is far more than their text."""
MAX_FIELDS = 1_000
MAX_CALLS = 1_000
MAX_CHOICES = 128
"""As many as OpenAI makes. Each piece of an answer looks for its place among them."""
NAMELESS = "nameless"
_HEADER_BYTES = 64


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A tool call that a model asked for."""

    id: str
    name: str
    arguments: str


class Pieces:
    """An object whose texts come in pieces; joined once, so that a long one does not cost its square."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._others: Json = {}
        self.characters = 0
        self.weight = 0

    def add(self, delta: Json) -> None:
        """Texts are appended, lists extended, objects merged; anything else replaces."""
        for key, value in delta.items():
            if isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
                self.characters += len(value)
            elif isinstance(value, (list, dict)):
                self.weight += weight(value)
                self._grow(key, value)
            elif value is not None or key not in self._others:
                self._others[key] = value
        check_fields(len(self._texts) + len(self._others))

    def _grow(self, key: str, value: list[Any] | Json) -> None:
        """Add to a list or an object of our own, in place: one in many pieces would cost its square otherwise."""
        known = self._others.get(key)
        if not isinstance(known, type(value)):
            known = self._others[key] = type(value)()
        known.extend(value) if isinstance(known, list) else known.update(value)

    def set(self, key: str, value: str) -> None:
        """A text that comes whole, and may be told again."""
        self._texts[key] = [value]

    def text(self, key: str) -> str:
        return "".join(self._texts.get(key, ()))

    def news(self, key: str, told: int) -> tuple[str, int]:
        """What came of a text behind its first `told` pieces, and how many there are now."""
        texts = self._texts.get(key, [])
        return "".join(texts[told:]), len(texts)

    def whole(self) -> Json:
        return {**self._others, **{key: "".join(texts) for key, texts in self._texts.items()}}


def check_fields(count: int) -> None:
    """Refuse an answer that makes up fields without end."""
    if count > MAX_FIELDS:
        raise UpstreamFailed(f"The upstream's answer has more than {MAX_FIELDS:,} fields.")


def weight(value: object) -> int:
    """About the memory that a value of JSON takes: its text, and a header for each value in it."""
    text = dumps(value)
    return len(text) + _HEADER_BYTES * (text.count(b",") + text.count(b"[") + text.count(b"{"))


class GrowingCall:
    """A tool call while its pieces arrive."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        """The number that the upstream gives it."""
        self.told_id = ""
        """The upstream's id, which may be that of another call too."""
        self.head = Pieces()
        self.function = Pieces()
        self._id = ""

    @property
    def id(self) -> str:
        """Its id; one of our own, which stays, where the upstream tells none or one that is taken."""
        if not self._id:
            self._id = f"call_{secrets.token_hex(8)}"
        return self._id

    def identify(self, id: str, others: Iterable["GrowingCall"]) -> None:
        """Take the upstream's id."""
        if not self.told_id and not self._id and all(other.told_id != id for other in others):
            self._id = id
        self.told_id = id


class _Choice:
    def __init__(self) -> None:
        self.said = Pieces()
        self.rest: Json = {}
        self.logprobs = Pieces()
        self.finish_reason: str | None = None
        self.calls: list[GrowingCall] = []
        self.grown: list[GrowingCall] = []
        """The calls that the last chunk was about."""

    def add(self, choice: Json) -> None:
        self.grown = []
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")
        for key, value in delta.items() if isinstance(delta, dict) else ():
            if key == "tool_calls":
                for call in value if isinstance(value, list) else ():
                    if isinstance(call, dict):
                        self._call(call)
            elif key == "role":
                self.said.set(key, str(value))
            else:
                self.said.add({key: value})
        if isinstance(choice.get("logprobs"), dict):
            self.logprobs.add(choice["logprobs"])
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]
        for key, value in choice.items():
            if key not in ("delta", "message", "logprobs", "finish_reason"):
                self.rest[key] = value
        check_fields(len(self.rest))

    def _call(self, call: Json) -> None:
        place = self._place(call)
        self.grown.append(place)
        head, function = place.head, place.function
        for key, value in call.items():
            if key == "id" and isinstance(value, str):
                if value and value != place.told_id:
                    place.identify(value, self.calls)
            elif key not in ("index", "type", "function"):
                head.add({key: value})
        told = call.get("function")
        if isinstance(told, dict):
            if isinstance(told.get("name"), str) and told["name"]:
                function.set("name", told["name"])
            arguments = told.get("arguments")
            if isinstance(arguments, str):
                function.add({"arguments": arguments})
            elif isinstance(arguments, dict):  # some upstreams send an object where the format says text
                function.set("arguments", dumps(arguments).decode())

    def _place(self, call: Json) -> GrowingCall:
        """Where a piece of a call belongs: by its index, or else a new call where it has an id or a name."""
        index = call.get("index")
        if isinstance(index, int):
            for known in reversed(self.calls):
                if known.index == index:
                    if call.get("id") and known.told_id not in ("", call["id"]):
                        break  # an upstream that numbers every call alike
                    return known
        elif self.calls and not call.get("id") and not (call.get("function") or {}).get("name"):
            return self.calls[-1]
        if len(self.calls) >= MAX_CALLS:
            raise UpstreamFailed(f"The upstream's answer asks for more than {MAX_CALLS:,} tool calls.")
        made = GrowingCall(index if isinstance(index, int) else None)
        self.calls.append(made)
        return made

    def tool_calls(self) -> list[Json]:
        found = []
        for call in self.calls:
            # Upstreams refuse a history with a call that has no name, even if it was their own.
            name, arguments = call.function.text("name") or NAMELESS, call.function.text("arguments")
            function = {"name": name, "arguments": arguments}
            found.append({**call.head.whole(), "id": call.id, "type": "function", "function": function})
        return found

    def message(self) -> Json:
        message = {"role": "assistant", "content": None, **self.said.whole()}
        if self.calls:
            message["tool_calls"] = self.tool_calls()
            message["content"] = message["content"] or None
        return message

    @property
    def characters(self) -> int:
        return self.said.characters + sum(call.function.characters for call in self.calls)

    @property
    def weight(self) -> int:
        return self.said.weight + self.logprobs.weight + sum(call.head.weight for call in self.calls)


class Assembly:
    """One answer, from its chunks."""

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._rest: Json = {}
        self.usage: Json = {}

    def add(self, chunk: Json) -> None:
        """Take a chunk; UpstreamFailed when the answer grows past all measure."""
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                index = choice.get("index")
                found = self._choices.setdefault(index if isinstance(index, int) else 0, _Choice())
                if len(self._choices) > MAX_CHOICES:
                    raise UpstreamFailed(f"The upstream's answer has more than {MAX_CHOICES} choices.")
                found.add(choice)
                if found.characters > MAX_BYTES or found.weight > MAX_WEIGHT:
                    raise UpstreamFailed("The upstream's answer is too long.")
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]
        for key, value in chunk.items():
            if key not in ("choices", "usage", "object"):
                self._rest[key] = value
        check_fields(len(self._rest))

    @property
    def empty(self) -> bool:
        """Whether nothing was answered at all."""
        return not self._choices

    @property
    def finish_reason(self) -> str | None:
        return self._first.finish_reason

    @property
    def message(self) -> Json:
        """The first choice's message."""
        return self._first.message()

    @property
    def calls(self) -> list[AskedCall]:
        """The first choice's tool calls."""
        return [
            AskedCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in self._first.tool_calls()
        ]

    @property
    def grown(self) -> list[GrowingCall]:
        """The first choice's calls that the last chunk was about."""
        return self._first.grown

    @property
    def growing(self) -> list[GrowingCall]:
        """The first choice's calls, as far as they came."""
        return self._first.calls

    @property
    def _first(self) -> _Choice:
        return self._choices.get(0) or _Choice()

    def completion(self) -> Json:
        """The answer as a `chat.completion`, for clients that do not stream."""
        choices = []
        for index, choice in sorted(self._choices.items()):
            logprobs = choice.logprobs.whole() or None
            choices.append(
                {
                    **choice.rest,
                    "index": index,
                    "message": choice.message(),
                    "logprobs": logprobs,
                    "finish_reason": choice.finish_reason or "stop",
                }
            )
        whole = {**self._rest, "object": "chat.completion", "choices": choices}
        return {**whole, "usage": self.usage} if self.usage else whole


def add_usage(total: Json, usage: Json) -> Json:
    """Usage over several rounds: numbers add up, objects by field, anything else is the newer."""
    summed = dict(total)
    for key, value in usage.items():
        known = summed.get(key)
        if isinstance(value, dict):
            summed[key] = add_usage(known if isinstance(known, dict) else {}, value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            summed[key] = value + (known if isinstance(known, (int, float)) else 0)
        elif value is not None or key not in summed:
            summed[key] = value
    return summed


def tally_of(usage: Json) -> Tally:
    """The two sums that everybody counts."""
    return Tally(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")))
