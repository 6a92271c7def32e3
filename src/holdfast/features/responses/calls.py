"""Owns the calls of a client's own tools while their pieces arrive."""

import json
from collections.abc import Iterator
from typing import Any

from holdfast.core.ids import new_id
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.model import Json
from holdfast.features.responses.items import Called


class ClientCall:
    """One call; `news` is what its last piece added to the arguments."""

    def __init__(self, number: Any, call_id: str, called: Called, index: int) -> None:
        self.number = number
        self.called = called
        self.index = index
        self.fresh = True
        self.news = ""
        self._texts: list[str] = []
        self.item: Json = {
            "id": new_id("ctc" if called.custom else "fc"),
            "type": "custom_tool_call" if called.custom else "function_call",
            "call_id": call_id,
            "name": called.name,
            "input" if called.custom else "arguments": "",
            "status": "in_progress",
        }
        if called.namespace:
            self.item["namespace"] = called.namespace

    def grow(self, arguments: Any) -> None:
        """Some upstreams send an object where the format says text."""
        self.news = arguments if isinstance(arguments, str) else dumps(arguments).decode() if arguments else ""
        self._texts.append(self.news)

    def finish(self) -> None:
        """Every piece came."""
        text = "".join(self._texts)
        self.item |= {"status": "completed", **({"input": _input(text)} if self.called.custom else {"arguments": text})}


class ClientCalls:
    """The calls of one answer."""

    def __init__(self, functions: dict[str, Called]) -> None:
        self._functions = functions
        self._calls: list[ClientCall] = []

    def take(self, piece: Any, index: int) -> ClientCall | None:
        """The call that a piece belongs to, new at `index` of the output or one that is known already."""
        if not isinstance(piece, dict):
            return None
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        call = self._known(piece, function)
        if call is None:
            name = str(function.get("name") or "")
            called = self._functions.get(name) or Called(name)
            call = ClientCall(piece.get("index"), str(piece.get("id") or new_id("call")), called, index)
            self._calls.append(call)
        call.grow(function.get("arguments"))
        return call

    def finished(self) -> Iterator[ClientCall]:
        """Every call, whole."""
        for call in self._calls:
            call.finish()
            yield call

    def _known(self, piece: Json, function: Json) -> ClientCall | None:
        number, id = piece.get("index"), piece.get("id")
        if isinstance(number, int):
            for call in reversed(self._calls):
                if call.number == number:
                    # Otherwise an upstream that numbers every call alike.
                    return call if not id or id == call.item["call_id"] else None
            return None
        return self._calls[-1] if self._calls and not id and not function.get("name") else None


def _input(arguments: str) -> str:
    """The text inside the arguments; as it came where a model wrote no object around it."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return str(value.get("input", "")) if isinstance(value, dict) else arguments
