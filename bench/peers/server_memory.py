"""The npm package `@modelcontextprotocol/server-memory` over standard input and output. It knows no vectors: it looks
for the query's text as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.peers.given import Given, Store, serve

PLACE = "node_modules/@modelcontextprotocol/server-memory/dist/index.js"


class ServerMemory(Store):
    """One entity with one observation for each memory."""

    def __init__(self, given: Given) -> None:
        script = Path(sys.prefix) / PLACE
        if not script.exists():
            raise FileNotFoundError(script)
        environment = os.environ | {"MEMORY_FILE_PATH": str(given.directory / "memory.jsonl")}
        pipe = subprocess.PIPE
        self._given = given
        self._asked = 0
        self._process = subprocess.Popen(["node", script], stdin=pipe, stdout=pipe, text=True, env=environment)
        info = {"name": "bench", "version": "1"}
        self._request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def add(self, number: int) -> None:
        """Create an entity."""
        entity = {"name": f"m{number}", "entityType": "memory", "observations": [self._given.texts[number]]}
        self._call("create_entities", {"entities": [entity]})

    def search(self, number: int) -> list[str]:
        """The observations of the entities that contain the query."""
        found = json.loads(self._call("search_nodes", {"query": self._given.queries[number]}))
        return [entity["observations"][0] for entity in found["entities"]]

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        result = self._request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(str(result))
        return str(result["content"][0]["text"])

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self._asked:
                return dict(message["result"])
        raise RuntimeError("server-memory ended")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


if __name__ == "__main__":
    serve(ServerMemory)
