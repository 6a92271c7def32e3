"""Owns Codex: what it is started with, and its conversation with the app-server."""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from holdfast import __version__
from holdfast.engines.runners.base import (
    HOME,
    WORKTREE,
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
from holdfast.engines.runners.protocols.conversation import Reason
from holdfast.engines.runners.protocols.rpc import RpcConversation, as_object
from holdfast.engines.runners.protocols.speech import JsonLines, plain, short_arguments, short_result
from holdfast.engines.runners.surroundings import FOREVER_SECONDS, surroundings
from holdfast.engines.runtime.base import Running

_CONFIG = ".codex/config.toml"
_KEY = "HOLDFAST_MODEL_KEY"
_MOST_ID = 200
_STATUS: dict[object, Reason] = {"completed": "done", "interrupted": "interrupted"}


class CodexRunner:
    """Codex, unchanged."""

    name = "codex"

    def __init__(self, agents: InstalledAgents) -> None:
        self._agents = agents

    def plan(self, assignment: Assignment) -> LaunchPlan:
        """What to start; RunnerMissing where it is not installed."""
        agent = self._agents.find(self.name)
        return LaunchPlan(
            command=(agent.program, "app-server"),
            env={
                **surroundings(HOME),
                "CODEX_HOME": f"{HOME}/.codex",
                _KEY: assignment.model_key,
                **assignment.env,
            },
            mounts=(agent.mount,),
            home_files={_CONFIG: _config(assignment).encode()},
            least_memory_bytes=512 << 20,
        )

    async def drive(self, running: Running, assignment: Assignment) -> Driving:
        """Begin the conversation."""
        conversation = CodexConversation(JsonLines("Codex", running))
        await conversation.open(assignment)
        return conversation


def _config(assignment: Assignment) -> str:
    """Its settings; text in quotes is the same in TOML as in JSON."""
    lines = [
        f"model = {json.dumps(assignment.model)}",
        'model_provider = "holdfast"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[model_providers.holdfast]",
        'name = "Holdfast"',
        f"base_url = {json.dumps(assignment.model_url + '/v1')}",
        'wire_api = "responses"',
        f"env_key = {json.dumps(_KEY)}",
        # Its shells see the variables that we gave it; none of them is a secret to it.
        "[shell_environment_policy]",
        'inherit = "all"',
        "ignore_default_excludes = true",
        f"[projects.{json.dumps(WORKTREE)}]",
        # Of the worktree nothing counts as settings: whoever wrote the repository is not who runs it.
        'trust_level = "untrusted"',
        "[features]",
        "tool_search_always_defer_mcp_tools = false",
    ]
    for name, entry in assignment.servers.items():
        lines += [
            f"[mcp_servers.{json.dumps(name)}]",
            f"command = {json.dumps(entry.command)}",
            f"args = {json.dumps(list(entry.args))}",
            "startup_timeout_sec = 120",
            f"tool_timeout_sec = {FOREVER_SECONDS}",
        ]
    return "\n".join(lines) + "\n"


class CodexConversation(RpcConversation):
    """Threads, turns and items, as the app-server tells them."""

    def __init__(self, lines: JsonLines) -> None:
        # It leaves the version out, and wants it left out.
        super().__init__(lines, version={})
        self._thread = ""
        self._turn = ""
        self._is_speaking = False
        self._stops_at_start = False
        self._steering: deque[str] = deque()
        self._held: tuple[Reason, str] | None = None
        self._problem = ""

    async def open(self, assignment: Assignment) -> None:
        """Greet it, open a thread or go on with one, and say the first thing."""
        await self._call(
            "initialize", {"clientInfo": {"name": "holdfast", "title": "Holdfast", "version": __version__}}
        )
        self._notify("initialized", {})
        # The sandbox is ours, and who decides is the gate; so it asks nobody and confines nothing itself.
        how: dict[str, Any] = {"cwd": WORKTREE, "approvalPolicy": "never", "sandbox": "danger-full-access"}
        if assignment.instructions.strip():
            how["developerInstructions"] = assignment.instructions
        if assignment.resume is None:
            opened = await self._call("thread/start", how)
        else:
            opened = await self._call("thread/resume", {"threadId": assignment.resume, "excludeTurns": True, **how})
        self._thread = plain(as_object(opened.get("thread")).get("id"), _MOST_ID)
        self._early.append(CanResume(self._thread))
        self.begin(assignment.prompt)

    def _begin(self, text: str) -> None:
        self._turn, self._problem, self._stops_at_start = "", "", False
        self._request("turn/start", {"threadId": self._thread, "input": _input(text)})

    def _say_while_busy(self, text: str) -> None:
        if not self._turn:
            super()._say_while_busy(text)
            return
        self._steering.append(text)
        self._request("turn/steer", {"threadId": self._thread, "expectedTurnId": self._turn, "input": _input(text)})

    def _stop_turn(self) -> None:
        if not self._turn:
            # It has not said yet how it calls this turn.
            self._stops_at_start = True
            return
        self._request("turn/interrupt", {"threadId": self._thread, "turnId": self._turn})

    def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Its own questions for permission; what they would guard is behind the sandbox and the gate."""
        if method == "mcpServer/elicitation/request":
            # A form of a server is for a person to fill in; the question whether to call a tool has none.
            schema = as_object(params.get("requestedSchema"))
            is_plain = params.get("mode") != "url" and not as_object(schema.get("properties"))
            return {"action": "accept" if is_plain else "decline", "content": {} if is_plain else None, "_meta": None}
        if method in ("item/commandExecution/requestApproval", "item/fileChange/requestApproval"):
            return {"decision": "accept"}
        if method in ("applyPatchApproval", "execCommandApproval"):
            return {"decision": "approved"}
        if method == "item/permissions/requestApproval":
            return {"permissions": as_object(params.get("permissions")), "scope": "turn"}
        if method == "item/tool/requestUserInput":
            return {"answers": {}}
        return None

    def _answered(self, method: str, result: dict[str, Any]) -> Iterable[RunnerEvent]:
        if method == "turn/start":
            self._began(as_object(result.get("turn")))
        elif method == "turn/steer":
            self._steering.popleft()
            return self._settle()
        return ()

    def _refused(self, method: str, why: str) -> Iterable[RunnerEvent]:
        if method == "turn/start":
            return self._over("error", why)
        if method == "turn/steer":
            # The turn was over before it heard this; then it is the beginning of the next one.
            self._waiting.append(self._steering.popleft())
            return self._settle()
        return ()

    def _told(self, method: str, params: dict[str, Any]) -> Iterable[RunnerEvent]:
        if params.get("threadId") != self._thread:
            # Those that work for it have threads of their own.
            return ()
        if method == "turn/started":
            self._began(as_object(params.get("turn")))
        elif method == "item/agentMessage/delta":
            self._is_speaking = True
            return (Said(plain(params.get("delta")), whole=False),)
        elif method == "item/started":
            return _started(as_object(params.get("item")))
        elif method == "item/completed":
            return self._completed(as_object(params.get("item")))
        elif method == "error" and params.get("willRetry") is not True:
            self._problem = plain(as_object(params.get("error")).get("message"), 2_000)
        elif method == "turn/completed":
            return self._finished(as_object(params.get("turn")))
        return ()

    def _began(self, turn: dict[str, Any]) -> None:
        self._turn = plain(turn.get("id"), _MOST_ID)
        if self._stops_at_start and self._turn:
            self._stops_at_start = False
            self._stop_turn()

    def _finished(self, turn: dict[str, Any]) -> Iterable[RunnerEvent]:
        reason = _STATUS.get(turn.get("status"), "error")
        problem = plain(as_object(turn.get("error")).get("message"), 2_000) or self._problem
        self._held = reason, problem if reason == "error" else ""
        self._turn = ""
        return self._settle()

    def _settle(self) -> Iterable[RunnerEvent]:
        """The turn's end, once it is known what it heard."""
        if self._held is None or self._steering:
            return ()
        (reason, text), self._held = self._held, None
        return self._over(reason, text)

    def _completed(self, item: dict[str, Any]) -> Iterable[RunnerEvent]:
        kind = item.get("type")
        if kind == "agentMessage":
            is_told, self._is_speaking = self._is_speaking, False
            return (Said("" if is_told else plain(item.get("text")), whole=True),)
        if kind == "reasoning":
            texts = [*(item.get("summary") or ()), *(item.get("content") or ())]
            return [Thought(plain(text)) for text in texts]
        return _ended(item)


def _input(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, "text_elements": []}]


def _started(item: dict[str, Any]) -> Iterable[RunnerEvent]:
    found = _call(item)
    if found is None:
        return ()
    name, arguments = found
    return (ToolStarted(plain(item.get("id"), _MOST_ID), plain(name, 200), short_arguments(arguments)),)


def _call(item: dict[str, Any]) -> tuple[str, Any] | None:
    kind = item.get("type")
    if kind == "commandExecution":
        return "shell", {"command": item.get("command")}
    if kind == "fileChange":
        paths = [as_object(change).get("path") for change in item.get("changes") or ()]
        return "apply_patch", {"paths": paths}
    if kind == "mcpToolCall":
        return f"mcp__{item.get('server')}__{item.get('tool')}", item.get("arguments")
    if kind in ("webSearch", "imageView", "dynamicToolCall"):
        return str(kind), {name: item.get(name) for name in ("query", "path", "tool", "arguments") if name in item}
    return None


def _ended(item: dict[str, Any]) -> Iterable[RunnerEvent]:
    if _call(item) is None:
        return ()
    text: object = item.get("aggregatedOutput") or ""
    if item.get("type") == "mcpToolCall":
        parts = as_object(item.get("result")).get("content") or ()
        text = "\n".join(plain(as_object(part).get("text") or as_object(part).get("type")) for part in parts)
        text = text or plain(as_object(item.get("error")).get("message"))
    return (ToolEnded(plain(item.get("id"), _MOST_ID), item.get("status") == "completed", short_result(text)),)
