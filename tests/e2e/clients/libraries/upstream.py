"""Owns the model behind the libraries: it answers by what it is asked, so that every library meets the same one."""

import json
from collections.abc import Callable
from typing import Any

from tests.fakes.llm.model import Json, Turn, calls, says

PERSON = {"name": "Ada", "age": 36}


def answer(body: Json) -> Turn:
    """What the model says to a Chat Completions request: the word that its question begins with decides."""
    question = _said(body, "user")[-1]
    return _ANSWERS[question.split(":")[0]](body)


def _plain(body: Json) -> Turn:
    return says("Hello from the model.")


def _remember(body: Json) -> Turn:
    """Quotes everything that was said, which proves that a second turn carries the first."""
    said = [text for role in ("user", "assistant") for text in _said(body, role)]
    return says(" | ".join(said))


def _weather(body: Json) -> Turn:
    """Calls the client's own tool, then tells what it gave."""
    results = _results(body)
    return says(f"The tool said {results[-1]}.") if results else calls((_tool(body, "weather"), {"city": "Oslo"}))


def _sum(body: Json) -> Turn:
    """Calls a tool that runs on the server, then tells what it gave."""
    results = _results(body)
    return says(f"It is {results[-1]}.") if results else calls(("calculator", {"expression": "6*7"}))


def _both(body: Json) -> Turn:
    """Calls the server's tool first and the client's next; what it says last needs both results."""
    results = _results(body)
    wanted = (("calculator", {"expression": "6*7"}), (_tool(body, "weather"), {"city": "Oslo"}))
    return says("Both: " + " and ".join(results) + ".") if len(results) == 2 else calls(wanted[len(results)])


def _person(body: Json) -> Turn:
    """Fills in the shape that it is asked for: as its text, or as the arguments of the tool that has that shape."""
    shaped = [tool["function"]["name"] for tool in body.get("tools", []) if _has_shape(tool["function"])]
    return calls((shaped[0], PERSON)) if shaped else says(json.dumps(PERSON))


_ANSWERS: dict[str, Callable[[Json], Turn]] = {
    "plain": _plain,
    "remember": _remember,
    "weather": _weather,
    "sum": _sum,
    "both": _both,
    "person": _person,
}


def _tool(body: Json, part: str) -> str:
    """The client's tool of about that name, however the library calls it."""
    return next(name for tool in body["tools"] if part in (name := str(tool["function"]["name"])))


def _has_shape(function: Json) -> bool:
    return set(PERSON) <= set(function.get("parameters", {}).get("properties", {}))


def _results(body: Json) -> list[str]:
    return [_short(text) for text in _said(body, "tool")]


def _short(text: str) -> str:
    """A result without what is around it: the calculator's is an object, some libraries add quotation marks."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return text
    value = value["result"] if isinstance(value, dict) else value
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _said(body: Json, role: str) -> list[str]:
    return [_text(message.get("content")) for message in body["messages"] if message["role"] == role]


def _text(content: Any) -> str:
    return "".join(part.get("text", "") for part in content) if isinstance(content, list) else content or ""
