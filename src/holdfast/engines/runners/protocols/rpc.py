"""Owns conversations in JSON-RPC, one message a line, in which both sides ask."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.engines.runners.base import RunnerEvent
from holdfast.engines.runners.protocols.conversation import AgentConversation
from holdfast.engines.runners.protocols.speech import JsonLines, plain

_METHOD_UNKNOWN = -32601


class RpcConversation(AgentConversation):
    """An agent that answers requests, tells of itself in notifications, and asks for permissions in requests."""

    def __init__(self, lines: JsonLines, *, first_id: int = 0, version: Mapping[str, str] = {"jsonrpc": "2.0"}) -> None:
        super().__init__(lines)
        self._version = dict(version)
        self._next_id = first_id
        self._pending: dict[int, str] = {}

    async def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask for what is needed before the first turn; RunnerFailed where it is refused."""
        id = self._request(method, params)
        answer = await self._answer_to(lambda message: "method" not in message and message.get("id") == id, method)
        del self._pending[id]
        if "error" in answer:
            raise self._lines.failure(f"refused {method}: {error_text(answer['error'])}")
        return as_object(answer.get("result"))

    def _request(self, method: str, params: dict[str, Any]) -> int:
        id = self._next_id
        self._next_id += 1
        self._pending[id] = method
        self._lines.write({**self._version, "id": id, "method": method, "params": params})
        return id

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._lines.write({**self._version, "method": method, "params": params})

    def _take(self, message: dict[str, Any]) -> Iterable[RunnerEvent]:
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str):
            params = as_object(message.get("params"))
            if "id" not in message:
                return self._told(method, params)
            result = self._asked(method, params)
            if result is None:
                error = {"code": _METHOD_UNKNOWN, "message": f"{plain(method, 100)} is not offered here"}
                self._lines.write({**self._version, "id": id, "error": error})
            else:
                self._lines.write({**self._version, "id": id, "result": result})
            return ()
        asked = self._pending.pop(id, None) if isinstance(id, int) and not isinstance(id, bool) else None
        if asked is None:
            # An answer that nobody waits for; what it says changes nothing here.
            return ()
        if "error" in message:
            return self._refused(asked, error_text(message["error"]))
        return self._answered(asked, as_object(message.get("result")))

    @abstractmethod
    def _told(self, method: str, params: dict[str, Any]) -> Iterable[RunnerEvent]:
        """What a notification tells."""

    @abstractmethod
    def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Our answer; None for what we don't offer."""

    @abstractmethod
    def _answered(self, method: str, result: dict[str, Any]) -> Iterable[RunnerEvent]:
        """What an answer to a request of ours tells."""

    @abstractmethod
    def _refused(self, method: str, why: str) -> Iterable[RunnerEvent]:
        """What the refusal of a request of ours tells."""


def as_object(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one where something else stands."""
    return value if isinstance(value, dict) else {}


def error_text(error: Any) -> str:
    """What an error of JSON-RPC says."""
    found = as_object(error)
    detail = as_object(found.get("data"))
    parts = [plain(found.get("message") or "no reason given", 1_000)]
    parts += [plain(detail[name], 1_000) for name in ("message", "details") if detail.get(name)]
    return ": ".join(parts)
