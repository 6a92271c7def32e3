"""Owns a token budget over several rounds of one model: inputs are cut to fit, and the last round has to answer."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.assembly import tally_of
from holdfast.engines.llm.messages.words import dicts
from holdfast.engines.llm.model import Json, LanguageModel

CHARACTERS_PER_TOKEN = 4
ANSWER_TOKENS = 2_000
"""Kept back for the answer itself."""
LEAST_INPUT = 1_000
WORTH_A_ROUND = 4_000
"""With less than this for its input a round no longer calls tools."""

LEAST_ANSWER = 500
MOST_RATIO = 4.0
"""How many times more tokens than we guess an upstream may count and be believed."""

_ENDED: Json = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
_CUT = "\n[… cut to fit the budget]"
_ANSWER_NOW = "\n\n[The budget of this task is used up. Answer now with what you have.]"


class Budgeted:
    """A model that spends at most so many tokens, input and output together."""

    def __init__(self, model: LanguageModel, tokens: int) -> None:
        self._model = model
        self._tokens = tokens
        self._ratio = 1.0
        self.spent = 0

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        """The model's chunks; an answer that runs over the budget ends with the reason `length`.

        Calls of a model that was told to make none are left out, so that whoever runs them stops. With too little left
        for a question and its answer the model is not asked.
        """
        left = max(0, self._tokens - self.spent)
        body = self._fitted(body, left)
        guess = self._estimate(body)
        may_call = bool(body.get("tools")) and body.get("tool_choice") != "none"
        # Whoever may call tools is asked once more, and needs something for that.
        room = left - guess - (LEAST_INPUT + LEAST_ANSWER if may_call else 0)
        if room < LEAST_ANSWER:
            yield _ENDED
            return
        said, usage = 0, dict[str, Any]()
        async with hearing(self._model, body) as chunks:
            async for chunk in chunks:
                said += written(chunk)
                usage = chunk["usage"] if isinstance(chunk.get("usage"), dict) else usage
                yield chunk if may_call else _without_calls(chunk)
                if self._tokens_of(said) > room:
                    break
        tokens = self._tokens_of(said)
        if usage:
            tally = tally_of(usage)
            self._ratio = max(self._ratio, min(MOST_RATIO, self._ratio * tally.input_tokens / max(1, guess)))
            self.spent += tally.total
        else:
            self.spent += guess + tokens
        if tokens > room:
            yield _ENDED
        if tokens > room and not usage:
            yield {"choices": [], "usage": {"prompt_tokens": guess, "completion_tokens": tokens}}

    def _fitted(self, body: Json, left: int) -> Json:
        allowed = left // 3
        if self._estimate(body) <= allowed or (allowed >= WORTH_A_ROUND and body.get("tools")):
            return self._cut(body, allowed)
        body = self._cut(body, max(LEAST_INPUT, left - ANSWER_TOKENS))
        if not body.get("tools") or body.get("tool_choice") == "none":
            return body
        messages = list(body["messages"])
        if messages[-1].get("role") == "tool":
            messages[-1] = {**messages[-1], "content": f"{messages[-1]['content']}{_ANSWER_NOW}"}
        return {**body, "messages": messages, "tool_choice": "none"}

    def _cut(self, body: Json, tokens: int) -> Json:
        """The body with its longest tool results shortened until it fits, and then what else is long."""
        over = round((self._estimate(body) - tokens) / self._ratio * CHARACTERS_PER_TOKEN)
        if over <= 0:
            return body
        messages = list(body["messages"])
        results = [number for number, message in enumerate(messages) if message.get("role") == "tool"]
        left = _shorten(messages, results, over)
        if left > 0:
            others = [n for n, each in enumerate(messages) if n not in results and isinstance(each.get("content"), str)]
            _shorten(messages, others, left)
        return {**body, "messages": messages}

    def _estimate(self, body: Json) -> int:
        return self._tokens_of(len(dumps([body.get("messages"), body.get("tools")])))

    def _tokens_of(self, size: int) -> int:
        return round(size / CHARACTERS_PER_TOKEN * self._ratio)


@asynccontextmanager
async def hearing(model: LanguageModel, body: Json) -> AsyncIterator[AsyncIterator[Json]]:
    """A model's chunks; leaving ends the work upstream."""
    chunks = model.stream(body)
    try:
        yield chunks
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


def _shorten(messages: list[Json], chosen: list[int], over: int) -> int:
    """Shorten the longest of these messages by so much in all; how much that was not enough."""
    sizes = {number: len(str(messages[number]["content"])) for number in chosen}
    share = _level(list(sizes.values()), sum(sizes.values()) - over)
    for number, size in sizes.items():
        if size > share:
            messages[number] = {**messages[number], "content": str(messages[number]["content"])[:share] + _CUT}
    return over - sum(sizes.values())


def _without_calls(chunk: Json) -> Json:
    choices: Any = chunk.get("choices")
    if not isinstance(choices, list) or not any(_calls(choice) for choice in choices):
        return chunk
    return {**chunk, "choices": [_silenced(choice) for choice in choices]}


def _calls(choice: Any) -> bool:
    is_call = isinstance(choice, dict) and choice.get("finish_reason") in ("tool_calls", "function_call")
    return is_call or (isinstance(choice, dict) and bool((choice.get("delta") or {}).get("tool_calls")))


def _silenced(choice: Json) -> Json:
    delta = {key: value for key, value in (choice.get("delta") or {}).items() if key != "tool_calls"}
    reason = choice.get("finish_reason")
    return {**choice, "delta": delta, "finish_reason": "stop" if reason in ("tool_calls", "function_call") else reason}


def _level(sizes: list[int], total: int) -> int:
    """The length to which the longest are cut, so that all together have this total."""
    left, count = max(0, total), len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            break
        left, count = left - size, count - 1
    return left // count if count else max(sizes, default=0)


def written(chunk: Json) -> int:
    """How many bytes a model wrote in a chunk: words, and the names and arguments of calls."""
    return sum(_size(choice.get("delta") or choice.get("message")) for choice in dicts(chunk.get("choices")))


def _size(said: Any) -> int:
    if not isinstance(said, dict):
        return 0
    texts = [value for key, value in said.items() if key != "role"]
    texts += [part.get("text") for part in dicts(said.get("content"))]
    for call in dicts(said.get("tool_calls")):
        function = call.get("function")
        texts += function.values() if isinstance(function, dict) else ()
    return sum(len(text.encode(errors="replace")) for text in texts if isinstance(text, str))
