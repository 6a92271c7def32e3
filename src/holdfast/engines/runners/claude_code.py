"""Owns Claude Code: what it is started with, and its conversation in stream-json."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.engines.runners.base import (
    HOME,
    Assignment,
    CanResume,
    Driving,
    LaunchPlan,
    RunnerEvent,
    Said,
    Thought,
    ToolEnded,
    ToolStarted,
)
from holdfast.engines.runners.installing import InstalledAgents
from holdfast.engines.runners.protocols.conversation import AgentConversation
from holdfast.engines.runners.protocols.rpc import as_object
from holdfast.engines.runners.protocols.speech import JsonLines, plain, short_arguments, short_result
from holdfast.engines.runners.surroundings import FOREVER_SECONDS, surroundings
from holdfast.engines.runtime.base import Running

_SERVERS = ".holdfast/servers.json"
_INSTRUCTIONS = ".holdfast/instructions.md"
_FLAGS = (
    *("--print", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"),
    *("--include-partial-messages", "--permission-prompt-tool", "stdio"),
    # Neither the worktree's settings nor its servers count; hooks in there are the repository's, not the operator's.
    *("--strict-mcp-config", "--setting-sources", ""),
)
_MOST_ID = 200


class ClaudeCodeRunner:
    """Claude Code, unchanged."""

    name = "claude-code"

    def __init__(self, agents: InstalledAgents) -> None:
        self._agents = agents

    def plan(self, assignment: Assignment) -> LaunchPlan:
        """What to start; RunnerMissing where it is not installed."""
        agent = self._agents.find(self.name)
        servers = {
            name: {"type": "stdio", "command": entry.command, "args": list(entry.args)}
            for name, entry in assignment.servers.items()
        }
        told = ("--append-system-prompt-file", f"{HOME}/{_INSTRUCTIONS}") if assignment.instructions.strip() else ()
        resume = () if assignment.resume is None else ("--resume", assignment.resume)
        return LaunchPlan(
            command=(agent.program, *_FLAGS, "--mcp-config", f"{HOME}/{_SERVERS}", *told, *resume),
            env={**surroundings(HOME), **_environment(assignment), **assignment.env},
            mounts=(agent.mount,),
            home_files={
                _SERVERS: json.dumps({"mcpServers": servers}).encode(),
                _INSTRUCTIONS: assignment.instructions.encode(),
            },
            least_memory_bytes=1 << 30,
        )

    async def drive(self, running: Running, assignment: Assignment) -> Driving:
        """Begin the conversation."""
        conversation = ClaudeConversation(JsonLines("Claude Code", running))
        await conversation.open(assignment.prompt)
        return conversation


def _environment(assignment: Assignment) -> Mapping[str, str]:
    # Whatever it would take another model for, it has this one.
    kinds = ("MODEL", "SMALL_FAST_MODEL", "DEFAULT_OPUS_MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_HAIKU_MODEL")
    return {
        "ANTHROPIC_BASE_URL": assignment.model_url,
        "ANTHROPIC_AUTH_TOKEN": assignment.model_key,
        **{f"ANTHROPIC_{kind}": assignment.model for kind in kinds},
        "CLAUDE_CODE_SUBAGENT_MODEL": assignment.model,
        "CLAUDE_CONFIG_DIR": f"{HOME}/.claude",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "DISABLE_AUTOUPDATER": "1",
        # Its first question comes after its servers, and a tool of the gate may wait for a person.
        "MCP_CONNECTION_NONBLOCKING": "false",
        "MCP_TIMEOUT": "120000",
        "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "120000",
        "MCP_TOOL_TIMEOUT": str(FOREVER_SECONDS * 1000),
        "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": "0",
        "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "0",
    }


class ClaudeConversation(AgentConversation):
    """What it says on its lines."""

    def __init__(self, lines: JsonLines) -> None:
        super().__init__(lines)
        self._requests = 0
        self._session = ""
        self._is_speaking = False
        self._is_interrupted = False

    async def open(self, prompt: str) -> None:
        """Greet it, and say the first thing."""
        id = self._control({"subtype": "initialize", "hooks": {}})
        await self._answer_to(lambda message: _answers(message, id), "initialize")
        self.begin(prompt)

    def _begin(self, text: str) -> None:
        self._is_interrupted = False
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        self._lines.write({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": self._session})

    def _stop_turn(self) -> None:
        self._is_interrupted = True
        self._control({"subtype": "interrupt"})

    def _control(self, request: dict[str, Any]) -> str:
        self._requests += 1
        id = f"holdfast-{self._requests}"
        self._lines.write({"type": "control_request", "request_id": id, "request": request})
        return id

    def _take(self, message: dict[str, Any]) -> Iterable[RunnerEvent]:
        kind = message.get("type")
        if kind == "control_request":
            self._answer(message)
            return ()
        if kind == "system" and message.get("subtype") == "init":
            return self._began(message)
        if kind == "stream_event":
            return self._piece(message)
        if kind == "assistant":
            return self._said(_blocks(message))
        if kind == "user":
            return [event for block in _blocks(message) for event in _result(block)]
        if kind == "result":
            return (*self._end_of_text(), *self._result(message))
        return ()

    def _began(self, message: dict[str, Any]) -> Iterable[RunnerEvent]:
        session = plain(message.get("session_id"), _MOST_ID)
        if session == self._session:
            return ()
        self._session = session
        return (CanResume(session),)

    def _answer(self, message: dict[str, Any]) -> None:
        request = as_object(message.get("request"))
        answer: dict[str, Any] = {"subtype": "success", "request_id": message.get("request_id")}
        if request.get("subtype") == "can_use_tool":
            # What it may do is decided by the sandbox and the gate; its own question is no boundary.
            answer["response"] = {"behavior": "allow", "updatedInput": as_object(request.get("input"))}
        else:
            answer |= {"subtype": "error", "error": f"{plain(request.get('subtype'), 100)} is not offered here"}
        self._lines.write({"type": "control_response", "response": answer})

    def _piece(self, message: dict[str, Any]) -> Iterable[RunnerEvent]:
        delta = as_object(as_object(message.get("event")).get("delta"))
        # Those that work for it are heard by it alone.
        if message.get("parent_tool_use_id") is not None or delta.get("type") != "text_delta":
            return ()
        self._is_speaking = True
        return (Said(plain(delta.get("text")), whole=False),)

    def _said(self, blocks: list[dict[str, Any]]) -> Iterable[RunnerEvent]:
        for block in blocks:
            if block.get("type") == "text":
                ended = tuple(self._end_of_text())
                yield from ended or (Said(plain(block.get("text"))),)
            elif block.get("type") == "thinking":
                yield Thought(plain(block.get("thinking")))
            elif block.get("type") == "tool_use":
                name = plain(block.get("name"), 200)
                yield ToolStarted(plain(block.get("id"), _MOST_ID), name, short_arguments(block.get("input")))

    def _result(self, message: dict[str, Any]) -> Iterable[RunnerEvent]:
        text = message.get("result") or "; ".join(str(each) for each in message.get("errors") or ())
        if self._is_interrupted:
            return self._over("interrupted", "")
        if message.get("subtype") == "error_max_turns":
            return self._over("limit", text)
        if message.get("is_error") or message.get("subtype") != "success":
            return self._over("refused" if message.get("stop_reason") == "refusal" else "error", text)
        return self._over("done", text)

    def _end_of_text(self) -> Iterable[RunnerEvent]:
        if not self._is_speaking:
            return ()
        self._is_speaking = False
        return (Said("", whole=True),)


def _answers(message: dict[str, Any], id: str) -> bool:
    return message.get("type") == "control_response" and as_object(message.get("response")).get("request_id") == id


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = as_object(message.get("message")).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _result(block: dict[str, Any]) -> Iterable[RunnerEvent]:
    if block.get("type") != "tool_result":
        return ()
    content = block.get("content")
    if isinstance(content, list):
        content = "\n".join(
            plain(as_object(part).get("text") or f"[{as_object(part).get('type')}]") for part in content
        )
    return (
        ToolEnded(plain(block.get("tool_use_id"), _MOST_ID), block.get("is_error") is not True, short_result(content)),
    )
