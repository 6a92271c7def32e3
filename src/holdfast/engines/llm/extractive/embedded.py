"""Owns `holdfast-extractive`: the model of a machine without one, which quotes and computes and never invents."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.ids import new_uuid
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.extractive.extracts import (
    Quote,
    QuotedPassage,
    computed,
    opening,
    parsed,
    passages,
    plain,
    quotes,
)
from holdfast.engines.llm.extractive.rules import is_small_talk, wanted_calls
from holdfast.engines.llm.model import Json
from holdfast.engines.search.text.analyser import query_words, words

NAME = "holdfast-extractive"
HINT = (
    "No language model is connected: this answer was quoted by plain rules. "
    "Connect one with `holdfast endpoints add NAME --base-url URL --model MODEL`."
)
FAILED = " failed: "
"""Stands between the name of a tool and what it said went wrong, on a line of its own."""
NOTHING = "I found nothing about this in the workspace's knowledge."
SMALL_TALK = (
    "Hello. I cannot converse, I only quote what this workspace knows: its memories, decisions, documents and "
    "repositories. Ask about one of them, such as “When do we deploy?”"
)
_LEVELS = (1, 2, 3)
# What Claude Code puts beside a person's words, with links and lists that nobody asked about.
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.S)
"""Places of knowledge that are quoted together; the next only where those before say nothing of the question."""

# What these give is the answer. After any other tool, above all one that failed, the workspace's knowledge may help.
_ANSWER_ALONE = frozenset({"calculator", "save_memory"})

Knowledge = Callable[[str], Awaitable[Sequence[QuotedPassage]]]


@dataclass(frozen=True, slots=True)
class _Given:
    """What a tool gave for the present question."""

    name: str
    arguments: Json
    text: str


class Extractive:
    """Deterministic. It asks for tools that it was offered, by the same protocol as any model, and cites its quotes."""

    def __init__(self, knowledge: Knowledge | None = None) -> None:
        self._knowledge = knowledge

    @property
    def name(self) -> str:
        return NAME

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        """The chunks of one answer, or of the calls that it needs first."""
        stamp = {
            "id": f"chatcmpl-{new_uuid().hex}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": NAME,
        }
        question, given = _present(body.get("messages"))
        tools = body.get("tools") if body.get("tool_choice") != "none" else None
        is_talk = not given and is_small_talk(question)
        calls = wanted_calls(question, tools) if isinstance(tools, list) and not given and not is_talk else []
        if calls:
            deltas, reason = [_calls(calls)], "tool_calls"
        else:
            text = f"{SMALL_TALK}\n\n{HINT}" if is_talk else await self._answer(question, given)
            if _wants_json(body):
                text = dumps({"answer": text}).decode()
            deltas, reason = [{"content": line} for line in text.splitlines(keepends=True)], "stop"
        yield {**stamp, "choices": [_choice({"role": "assistant", "content": None if calls else ""})]}
        for delta in deltas:
            yield {**stamp, "choices": [_choice(delta)]}
        yield {**stamp, "choices": [_choice({}, reason)]}
        yield {**stamp, "choices": [], "usage": _usage(body, deltas)}

    async def _answer(self, question: str, given: Sequence[_Given]) -> str:
        lines: list[str] = []
        found: list[QuotedPassage] = []
        known: Sequence[QuotedPassage] = ()
        is_answered = False
        for each in given:
            line, read = _read(each)
            lines += [line] if line else []
            found += read
            is_answered = is_answered or each.name in _ANSWER_ALONE
        if self._knowledge is not None and question.strip() and not is_answered:
            known = await self._knowledge(question)
        chosen = await asyncio.to_thread(_choose, question, found, known)
        if chosen:
            lines.append(_cited(chosen))
        return "\n\n".join([*(lines or [NOTHING]), HINT])


def _choose(question: str, found: Sequence[QuotedPassage], known: Sequence[QuotedPassage]) -> list[Quote]:
    """Sentences about the question; where there is none, the beginning of what a tool read."""
    for level in _LEVELS:
        chosen = quotes(question, [*found, *(passage for passage in known if passage.place <= level)])
        if chosen:
            return _told_first(question, chosen)
    return opening(found)


def _told_first(question: str, chosen: Sequence[Quote]) -> list[Quote]:
    """What was read stays beside what was told only where it has more of the question's words."""
    wanted = set(query_words(question))
    shared = [len(wanted.intersection(words(quote.text))) for quote in chosen]
    most = max((count for count, quote in zip(shared, chosen, strict=True) if quote.passage.place == 0), default=0)
    pairs = zip(shared, chosen, strict=True)
    return [quote for count, quote in pairs if quote.passage.place == 0 or count > most]


def _read(given: _Given) -> tuple[str, list[QuotedPassage]]:
    """What a tool's result says at once, and what can be quoted from it."""
    text = plain(given.text)
    value = parsed(text)
    if isinstance(value, dict):
        if isinstance(value.get("error"), str):
            return f"{given.name}{FAILED}{' '.join(value['error'].split())}", []
        if given.name == "calculator" and "result" in value:
            return computed(value, given.arguments), []
        if given.name == "save_memory":
            return f"Remembered: {value.get('content', given.arguments.get('content', ''))}", []
        answer = value.get("answer")
        return (answer if isinstance(answer, str) else ""), list(passages(value, given.name))
    url = given.arguments.get("url")
    source = url if isinstance(url, str) else given.name
    return "", [QuotedPassage(source, text, source)]


def _cited(chosen: Sequence[Quote]) -> str:
    """Quotes with numbers, and what the numbers mean."""
    numbers: dict[tuple[str, str], int] = {}
    lines = []
    for quote in chosen:
        key = (quote.passage.title, quote.passage.source)
        lines.append(f"- {quote.text} [{numbers.setdefault(key, len(numbers) + 1)}]")
    lines += ["", "Sources:"]
    for (title, source), number in numbers.items():
        lines.append(f"[{number}] {title}" + (f" ({source})" if source and source != title else ""))
    return "\n".join(lines)


def _present(messages: Any) -> tuple[str, list[_Given]]:
    """The last thing a person said, and what tools gave since."""
    question, given = "", list[_Given]()
    asked: dict[str, tuple[str, Json]] = {}
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        if message.get("role") == "user":
            question, given = _REMINDER.sub("", _text(message.get("content"))), []
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            # Calls of other kinds, such as `custom`, have no function.
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                arguments = parsed(str(function.get("arguments")))
                named = (str(function.get("name") or "tool"), arguments if isinstance(arguments, dict) else {})
                asked[str(call.get("id"))] = named
        if message.get("role") == "tool":
            name, arguments = asked.get(str(message.get("tool_call_id")), ("tool", {}))
            given.append(_Given(name, arguments, _text(message.get("content"))))
    return question, given


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _calls(calls: Sequence[tuple[str, Json]]) -> Json:
    return {
        "tool_calls": [
            {
                "index": index,
                "id": f"call_{new_uuid().hex}",
                "type": "function",
                "function": {"name": name, "arguments": dumps(arguments).decode()},
            }
            for index, (name, arguments) in enumerate(calls)
        ]
    }


def _choice(delta: Json, finish_reason: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def _usage(body: Json, deltas: Sequence[Json]) -> Json:
    """No tokens are spent; a count of about four characters each keeps sums comparable."""
    prompt = len(dumps(body.get("messages"))) // 4 + 1
    completion = len(dumps(deltas)) // 4 + 1
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _wants_json(body: Json) -> bool:
    wanted = body.get("response_format")
    return isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")
