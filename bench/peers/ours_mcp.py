"""Holdfast as agents meet it: a started server with its own model, told over MCP by one client on a kept connection."""

import http.client
import json
import os
import time
from contextlib import ExitStack
from typing import Any

from bench.peers.given import LIMIT, Given, Store, serve
from bench.server import holdfast

PROTOCOL = "2026-07-28"
KEPT_SECONDS = 2.0
"""A connection is used again within that time; while the others have their turn, the server may end it."""
UNLIMITED = {"HOLDFAST_REQUESTS_PER_MINUTE": "100000000", "HOLDFAST_MCP_CALLS_PER_MINUTE": "100000000"}
"""The limiter counts as always; the load just never reaches the limit."""


class HoldfastOverMcp(Store):
    """One memory in the first workspace of a new server for each text."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._stack = ExitStack()
        server = self._stack.enter_context(holdfast(given.directory / "holdfast", {**os.environ, **UNLIMITED}))
        self._told = server.told
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        self._used = 0.0
        # The others load the model before they are asked too.
        self._call("xerotier.memory.recall", {"query": "anything"})

    def add(self, number: int) -> None:
        """Save a memory; none of them repeats another."""
        saved = self._call("xerotier.memory.save", {"content": self._given.texts[number]})
        if saved["status"] != "saved":
            raise RuntimeError(f"not saved: {saved['reason']}")

    def search(self, number: int) -> list[str]:
        """What recall finds."""
        found = self._call("xerotier.memory.recall", {"query": self._given.queries[number], "limit": LIMIT})
        return [str(each["content"]) for each in found["memories"]]

    def close(self) -> None:
        """End the server."""
        self._connection.close()
        self._stack.close()

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        headers = {
            "Authorization": f"Bearer {self._told['api_key']}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
            "X-Xerotier-Workspace": self._told["workspace_id"],
        }
        if time.monotonic() - self._used > KEPT_SECONDS:
            self._connection.close()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        self._connection.request("POST", f"/{self._told['project_id']}/v1/mcp", body, headers)
        answer = self._connection.getresponse()
        told = json.loads(answer.read())
        self._used = time.monotonic()
        if answer.status != 200 or told.get("error") or told["result"].get("isError"):
            raise RuntimeError(f"{answer.status}: {str(told)[:500]}")
        return dict(told["result"]["structuredContent"])


if __name__ == "__main__":
    serve(HoldfastOverMcp)
