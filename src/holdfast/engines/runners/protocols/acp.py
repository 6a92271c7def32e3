"""Owns conversations over the Agent Client Protocol, which opencode, goose and others speak."""

from collections.abc import Iterable
from typing import Any

from holdfast import __version__
from holdfast.engines.runners.base import (
    WORKTREE,
    Assignment,
    CanResume,
    RunnerEvent,
    Said,
    Thought,
    ToolEnded,
    ToolStarted,
)
from holdfast.engines.runners.protocols.conversation import Reason
from holdfast.engines.runners.protocols.rpc import RpcConversation, as_object
from holdfast.engines.runners.protocols.speech import JsonLines, plain, short_arguments, short_result

_PROTOCOL = 1
_INITIALIZE_ID = 0
_MOST_ID = 200
_MOST_CALLS = 1_000
_REASONS: dict[object, Reason] = {
    "end_turn": "done",
    "cancelled": "interrupted",
    "refusal": "refused",
    "max_tokens": "limit",
    "max_turn_requests": "limit",
}


def initialize_message() -> dict[str, Any]:
    """The first request of every such conversation."""
    params = {
        "protocolVersion": _PROTOCOL,
        # Its files and its shell are those of the sandbox; it needs none of ours.
        "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
        "clientInfo": {"name": "holdfast", "version": __version__},
    }
    return {"jsonrpc": "2.0", "id": _INITIALIZE_ID, "method": "initialize", "params": params}


class AcpConversation(RpcConversation):
    """An agent that speaks it; `open` has to be called first, with its answer to the first request."""

    def __init__(self, lines: JsonLines, assignment: Assignment, *, instructs: bool = True) -> None:
        super().__init__(lines, first_id=_INITIALIZE_ID + 1)
        self._assignment = assignment
        self._instructs = instructs and assignment.resume is None
        self._session = ""
        self._is_replaying = False
        self._is_speaking = False
        self._announced: dict[str, str] = {}
        self._open_calls: set[str] = set()

    async def open(self, greeting: dict[str, Any]) -> None:
        """Agree on the protocol, open the session or go on with it, and say the first thing."""
        result = as_object(greeting.get("result"))
        if result.get("protocolVersion") != _PROTOCOL:
            raise self._lines.failure("speaks neither version 1 of ACP nor lines of JSON that begin with ready")
        resume = self._assignment.resume
        servers = [
            {"name": name, "command": entry.command, "args": list(entry.args), "env": []}
            for name, entry in self._assignment.servers.items()
        ]
        place = {"cwd": WORKTREE, "mcpServers": servers}
        if resume is None:
            made = await self._call("session/new", place)
            self._session = plain(made.get("sessionId"), _MOST_ID)
        else:
            if as_object(result.get("agentCapabilities")).get("loadSession") is not True:
                raise self._lines.failure("can't go on with an earlier conversation")
            self._session, self._is_replaying = resume, True
            await self._call("session/load", {"sessionId": resume, **place})
            self._is_replaying = False
        self._early.append(CanResume(self._session))
        self.begin(self._assignment.prompt)

    def _begin(self, text: str) -> None:
        parts = [text]
        if self._instructs and self._assignment.instructions.strip():
            # The protocol has no place for them but the first message.
            parts = [self._assignment.instructions.strip(), text]
        self._instructs = False
        prompt = [{"type": "text", "text": part} for part in parts]
        self._request("session/prompt", {"sessionId": self._session, "prompt": prompt})

    def _stop_turn(self) -> None:
        self._notify("session/cancel", {"sessionId": self._session})

    def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method != "session/request_permission":
            return None
        # What it may do is decided by the sandbox and the gate, not by asking it to ask.
        options = [option for option in params.get("options") or () if isinstance(option, dict)]
        for kind in ("allow_always", "allow_once"):
            for option in options:
                if option.get("kind") == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        return {"outcome": {"outcome": "cancelled"}}

    def _answered(self, method: str, result: dict[str, Any]) -> Iterable[RunnerEvent]:
        if method != "session/prompt":
            return ()
        reason = _REASONS.get(result.get("stopReason"), "error")
        return (*self._end_of_text(), *self._end_calls(), *self._over(reason, ""))

    def _refused(self, method: str, why: str) -> Iterable[RunnerEvent]:
        return (
            (*self._end_of_text(), *self._end_calls(), *self._over("error", why)) if method == "session/prompt" else ()
        )

    def _told(self, method: str, params: dict[str, Any]) -> Iterable[RunnerEvent]:
        if method != "session/update" or self._is_replaying:
            return ()
        update = as_object(params.get("update"))
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            self._is_speaking = True
            return (Said(plain(as_object(update.get("content")).get("text")), whole=False),)
        if kind == "agent_thought_chunk":
            return (Thought(plain(as_object(update.get("content")).get("text"))),)
        if kind in ("tool_call", "tool_call_update"):
            return self._call_told(update)
        return ()

    def _call_told(self, update: dict[str, Any]) -> Iterable[RunnerEvent]:
        id = plain(update.get("toolCallId"), _MOST_ID)
        if len(self._announced) >= _MOST_CALLS:
            raise self._lines.failure(f"has more than {_MOST_CALLS:,} calls under way")
        name = self._announced.setdefault(id, _name(update))
        events: list[RunnerEvent] = []
        is_over = update.get("status") in ("completed", "failed")
        # A call is announced before its arguments are known; it is told when they are, or when it ends.
        if id not in self._open_calls and (is_over or update.get("rawInput") or update.get("status") == "in_progress"):
            self._open_calls.add(id)
            events += [*self._end_of_text(), ToolStarted(id, name, short_arguments(update.get("rawInput") or {}))]
        if is_over:
            self._open_calls.discard(id)
            del self._announced[id]
            events.append(ToolEnded(id, update["status"] == "completed", short_result(_output(update))))
        return events

    def _end_calls(self) -> Iterable[RunnerEvent]:
        ended = [ToolEnded(id, False, "It was broken off.") for id in self._announced if id in self._open_calls]
        self._open_calls.clear()
        self._announced.clear()
        return ended

    def _end_of_text(self) -> Iterable[RunnerEvent]:
        if not self._is_speaking:
            return ()
        self._is_speaking = False
        return (Said("", whole=True),)


def _name(update: dict[str, Any]) -> str:
    """The tool's name where it is told apart from what people read of the call."""
    call = as_object(as_object(as_object(update.get("_meta")).get("goose")).get("toolCall"))
    if call.get("toolName"):
        # Later versions name the extension twice.
        extension = f"{call.get('extensionName')}__"
        return plain(extension + str(call["toolName"]).removeprefix(extension), 200)
    return plain(update.get("title") or update.get("kind") or "tool", 200)


def _output(update: dict[str, Any]) -> str:
    texts: list[str] = []
    for part in update.get("content") or ():
        content = as_object(as_object(part).get("content"))
        if isinstance(content.get("text"), str):
            texts.append(content["text"])
        elif as_object(part).get("type") == "diff":
            texts.append(f"changed {as_object(part).get('path')}")
    if not texts and update.get("rawOutput") is not None:
        texts.append(plain(update["rawOutput"]))
    return "\n".join(texts)
