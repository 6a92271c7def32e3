"""Owns the built-in agent's MCP servers: programs that it starts, greets, and calls over lines of JSON-RPC."""

import hashlib
import json
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from holdfast.engines.runners.inside.failing import ToolFailed
from holdfast.engines.runners.inside.stopping import Interrupted, Stopping
from holdfast.engines.runners.inside.tools import AgentTool

_PROTOCOL = "2025-11-25"
_START_SECONDS = 120.0
_MOST_LINE = 16 << 20
_MOST_PAGES = 100
_MOST_NAME = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class ServerGone(Exception):
    """It hung up, or never answered."""


class Servers:
    """All of them, started at once."""

    def __init__(self, entries: Mapping[str, Any], tell: Callable[[dict[str, Any]], None], stopping: Stopping) -> None:
        self.missing: dict[str, str] = {}
        """Those that did not start, and why."""
        self._servers: list[_Server] = []
        for name, entry in entries.items():
            try:
                self._servers.append(_Server(name, entry, stopping))
            except OSError as problem:
                self._miss(name, str(problem), tell)
        for server in list(self._servers):
            # Each was greeted when it was started, so they come up side by side.
            try:
                server.listed()
            except ServerGone as problem:
                self._servers.remove(server)
                self._miss(server.name, str(problem), tell)

    def tools(self) -> list[AgentTool]:
        """Every tool of every server, by names that models take."""
        found: dict[str, AgentTool] = {}
        for server in self._servers:
            for each in server.tools:
                name = _name(server.name, each["name"])
                schema = each.get("inputSchema") or {"type": "object", "properties": {}}
                run = _calling(server, each["name"])
                found.setdefault(name, AgentTool(name, str(each.get("description") or ""), schema, run))
        return list(found.values())

    def _miss(self, name: str, why: str, tell: Callable[[dict[str, Any]], None]) -> None:
        self.missing[name] = why
        tell({"type": "thought", "text": f"The server {name} did not start: {why}"})


def _calling(server: "_Server", tool: str) -> Callable[[dict[str, Any]], str]:
    return lambda arguments: server.call(tool, arguments)


def _name(server: str, tool: str) -> str:
    name = _NOT_IN_NAMES.sub("_", f"mcp__{server}__{tool}")
    if len(name) <= _MOST_NAME:
        return name
    return f"{name[: _MOST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class _Server:
    """One server: a thread reads what it says, whoever asks waits for the answer to his own question."""

    def __init__(self, name: str, entry: Mapping[str, Any], stopping: Stopping) -> None:
        self.name = name
        self.tools: list[dict[str, Any]] = []
        self._stopping = stopping
        self._changed = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._next_id = 0
        self._is_gone = False
        self._process = subprocess.Popen(
            [entry["command"], *entry["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        threading.Thread(target=self._read, daemon=True).start()
        hello = {
            "protocolVersion": _PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "holdfast-agent", "version": "1"},
        }
        self._greeting = self._ask("initialize", hello)

    def listed(self) -> None:
        """Wait for its greeting, and read its tools."""
        self._answer(self._greeting, _START_SECONDS)
        self._send({"method": "notifications/initialized"})
        cursor = None
        for _ in range(_MOST_PAGES):
            page = self._answer(self._ask("tools/list", {"cursor": cursor} if cursor else {}), _START_SECONDS)
            for tool in page.get("tools") or ():
                if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                    self.tools.append(tool)
            cursor = page.get("nextCursor")
            if not cursor:
                return

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool; some wait for a person, so there is no limit of time."""
        try:
            id = self._ask("tools/call", {"name": tool, "arguments": arguments})
            with self._stopping.breaking(self._wake):
                result = self._answer(id, None)
        except ServerGone as problem:
            raise ToolFailed(f"The server {self.name}: {problem}") from None
        text = _text(result)
        if result.get("isError"):
            raise ToolFailed(text or "The tool failed and did not say why.")
        return text or "(no output)"

    def _ask(self, method: str, params: dict[str, Any]) -> int:
        with self._changed:
            self._next_id += 1
            id = self._next_id
        self._send({"id": id, "method": method, "params": params})
        return id

    def _answer(self, id: int, seconds: float | None) -> dict[str, Any]:
        with self._changed:
            self._changed.wait_for(lambda: id in self._answers or self._is_gone or self._is_stopping(id), seconds)
            message = self._answers.pop(id, None)
        if message is None:
            raise ServerGone("it ended" if self._is_gone else f"it did not answer within {seconds:g} seconds")
        if "error" in message:
            error = message["error"] if isinstance(message["error"], dict) else {}
            raise ServerGone(f"it refused: {error.get('message', 'no reason given')}")
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    def _is_stopping(self, id: int) -> bool:
        try:
            self._stopping.check()
        except Interrupted:
            self._send({"method": "notifications/cancelled", "params": {"requestId": id, "reason": "interrupted"}})
            raise
        return False

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        # Where it is gone, whoever waits for an answer hears so.
        with suppress(OSError):
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(_MOST_LINE):
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                self._take(message)
        with self._changed:
            self._is_gone = True
            self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        id = message.get("id")
        if "method" in message:
            if id is not None:
                error = {"code": -32601, "message": "This client offers nothing that can be asked for."}
                self._send({"id": id, "result": {}} if message["method"] == "ping" else {"id": id, "error": error})
        elif isinstance(id, int):
            with self._changed:
                self._answers[id] = message
                self._changed.notify_all()


def _text(result: dict[str, Any]) -> str:
    parts: list[str] = []
    for part in result.get("content") or ():
        if isinstance(part, dict):
            parts.append(str(part.get("text")) if "text" in part else f"[{part.get('type')}]")
    if not parts and result.get("structuredContent") is not None:
        parts.append(json.dumps(result["structuredContent"]))
    return "\n".join(parts)
