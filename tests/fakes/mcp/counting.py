"""A small MCP server over stdio with nothing but the standard library: it counts its runs, waits, fails and changes.

Each run is told, before its work, to the address in COUNT_URL or to a file in COUNT_DIR, so that a test sees what truly
happened, whoever was killed meanwhile. `SPAWN` leaves processes that no session holds together.
"""

import json
import os
import sys
import threading
import time
import urllib.parse
import urllib.request
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"left": {"type": "integer"}, "right": {"type": "integer"}},
            "required": ["left"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "count",
        "description": "Count one run.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
    {
        "name": "wipe",
        "description": "Delete everything.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"destructiveHint": True},
    },
    {
        "name": "slow",
        "description": "Count one run, tell progress, and go on until cancelled or for so many seconds.",
        "inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}, "name": {"type": "string"}}},
    },
    {"name": "fail", "description": "Report an error.", "inputSchema": {"type": "object", "properties": {}}},
    {
        "name": "die",
        "description": "Exit in the middle of a call.",
        "inputSchema": {"type": "object", "properties": {}},
    },
    {
        "name": "long",
        "description": "Answer with so many characters.",
        "inputSchema": {"type": "object", "properties": {"characters": {"type": "integer"}}},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "env",
        "description": "Show a variable of the environment.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    },
]
_out = threading.Lock()
_cancelled: set[Any] = set()


def tools() -> list[dict[str, Any]]:
    """The tools as an environment variable may change them: more, fewer, or with other words."""
    changed = json.loads(os.environ.get("CHANGED", "{}"))
    found = [{**tool, **changed.get(tool["name"], {})} for tool in TOOLS if changed.get(tool["name"], {}) is not None]
    more: list[dict[str, Any]] = json.loads(os.environ.get("MORE", "[]"))
    return found + more


def send(message: dict[str, Any]) -> None:
    with _out:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def note(kind: str, name: str) -> None:
    folder = os.environ.get("COUNT_DIR")
    if folder:
        with open(os.path.join(folder, "runs"), "a") as runs:
            runs.write(f"{kind} {name}\n")
    url = os.environ.get("COUNT_URL")
    if url:
        with urllib.request.urlopen(f"{url}/{urllib.parse.quote(kind)}/{urllib.parse.quote(name)}", timeout=60) as told:
            told.read()


def spawn(seconds: str) -> None:
    """Leave a process in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/sleep", ["/bin/sleep", seconds])
        os._exit(0)


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def call(id: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    name, given = params["name"], params.get("arguments") or {}
    if name == "add":
        total = given["left"] + given.get("right", 0)
        return text(str(total), structuredContent={"total": total})
    if name == "env":
        return text(os.environ.get(given.get("name", ""), ""))
    if name == "long":
        return text("x" * given.get("characters", 10))
    if name == "fail":
        return text("It went wrong.", isError=True)
    if name == "die":
        note(name, "")
        sys.stderr.write("dying as asked\n")
        sys.stderr.flush()
        os._exit(3)
    note(name, str(given.get("name", "")))
    if name == "slow":
        until = time.monotonic() + given.get("seconds", 30)
        token = (params.get("_meta") or {}).get("progressToken")
        steps = 0
        while time.monotonic() < until:
            if id in _cancelled:
                note("cancelled", str(given.get("name", "")))
                return None
            steps += 1
            if token is not None:
                progress = {"progressToken": token, "progress": steps, "message": f"step {steps}"}
                send({"method": "notifications/progress", "params": progress})
            time.sleep(0.05)
    return text("done")


def answer(id: Any, params: dict[str, Any]) -> None:
    result = call(id, params)
    if result is not None:
        send({"id": id, "result": result})


def main() -> None:
    if os.environ.get("SPAWN"):
        spawn(os.environ["SPAWN"])
    sys.stderr.write("counting is ready\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "counting", "version": "1"}
            send({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
        elif method == "tools/list":
            send({"id": id, "result": {"tools": tools()}})
        elif method == "tools/call":
            threading.Thread(target=answer, args=(id, message["params"]), daemon=True).start()
        elif method == "notifications/cancelled":
            _cancelled.add(message["params"]["requestId"])
        elif method == "ping":
            send({"id": id, "result": {}})
        elif id is not None:
            send({"id": id, "error": {"code": -32601, "message": "no such method"}})


if __name__ == "__main__":
    main()
