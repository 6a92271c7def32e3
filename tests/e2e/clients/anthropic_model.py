"""Owns a model that answers Anthropic's clients by what they ask, behind either wire."""

import json
from typing import Any

from tests.fakes.llm import messages as claude
from tests.fakes.llm.model import Turn, calls, says

Json = dict[str, Any]
PERSON = {"name": "Ada", "age": 36}
WEATHER = {"city": "Oslo"}
SUM = {"expression": "6*7"}


class Model:
    """The word that the last question begins with decides; one of them is answered only the second time."""

    def __init__(self) -> None:
        self.busy = 0

    def chat(self, body: Json) -> Turn:
        """An answer of Chat Completions."""
        asked = [_text(message["content"]) for message in body["messages"] if message["role"] == "user"]
        results = [message for message in body["messages"] if message["role"] == "tool"]
        word, tools = asked[-1], [tool["function"]["name"] for tool in body.get("tools", [])]
        if self._is_busy(word):
            return Turn(status=503, headers={"retry-after": "1"})
        if word == "cut":
            return says("One two three.", cut_after=3)
        if (called := _called(word, tools, len(results))) is not None:
            return calls(called)
        return says(_said(word, [_text(message["content"]) for message in results]), pieces=4)

    def messages(self, body: Json) -> claude.Answer:
        """An answer of Messages."""
        blocks = [
            {**block, "role": message["role"]} for message in body["messages"] for block in _blocks(message["content"])
        ]
        asked = [block["text"] for block in blocks if block["type"] == "text" and block["role"] == "user"]
        results = [_text(block["content"]) for block in blocks if block["type"] == "tool_result"]
        word, tools = asked[-1], [tool["name"] for tool in body.get("tools", [])]
        if self._is_busy(word):
            return claude.Answer(status=529, error="overloaded_error", headers={"retry-after": "1"})
        if word == "cut":
            return claude.says("One two three.", cut_after=4)
        if (called := _called(word, tools, len(results))) is not None:
            use = {"type": "tool_use", "id": f"toolu_{len(blocks)}", "name": called[0], "input": called[1]}
            return claude.Answer([use], stop_reason="tool_use")
        return claude.says(_said(word, results))

    def _is_busy(self, word: str) -> bool:
        # One request is asked three times by the router; then the client asks once more.
        self.busy += word.startswith("busy")
        return word == "busy" or (word == "busy once" and self.busy <= 6)


def _called(word: str, tools: list[str], done: int) -> tuple[str, Json] | None:
    """The next call of a task, by whatever name the client gave its tools."""
    shaped = [name for name in tools if name in ("json", "final_result", "Person")]
    if word == "person" and shaped:
        return shaped[0], PERSON
    own = [name for name in tools if "weather" in name]
    wanted = {
        "weather": [(own[0], WEATHER)] if own else [],
        "sum": [("calculator", SUM)],
        "both": [("calculator", SUM), *([(own[0], WEATHER)] if own else [])],
    }.get(word, [])
    return wanted[done] if done < len(wanted) else None


def _said(word: str, results: list[str]) -> str:
    if word == "person":
        return json.dumps(PERSON)
    return f"After {len(results)}: {word}." if results else f"Answer to {word}."


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: Any) -> str:
    return "".join(block.get("text", "") for block in _blocks(content))
