"""Owns ContextForge as a peer: its gateway on SQLite with authentication on, in front of one MCP server.

It lives in an environment of its own: `uv venv V && uv pip install --python V/bin/python mcp-contextforge-gateway`.
"""

import contextlib
import json
import os
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.server import free_port

ADMIN = "admin@example.com"
TOOL = "peer-trivial"
START_SECONDS = 600
NO_LIMIT = str(10**9)


def installed(environment: Path) -> bool:
    """Whether it can be measured."""
    return (environment / "bin/mcpgateway").exists()


@contextlib.contextmanager
def gateway(environment: Path, directory: Path, upstream: int) -> Iterator[tuple[int, str, int]]:
    """Its port, a token and its process, once it offers the tool of the server on the port `upstream`."""
    port = free_port()
    # Limits stay on, as ours do, but so high that none is met; secrets are made for this run.
    settings = os.environ | {
        "DATABASE_URL": f"sqlite:///{directory / 'contextforge.db'}",
        "CACHE_TYPE": "memory",
        "JWT_SECRET_KEY": secrets.token_urlsafe(32),
        "AUTH_ENCRYPTION_SECRET": secrets.token_urlsafe(32),
        "PLATFORM_ADMIN_EMAIL": ADMIN,
        "PLATFORM_ADMIN_PASSWORD": f"Aa1!{secrets.token_urlsafe(24)}",
        "ADMIN_REQUIRE_PASSWORD_CHANGE_ON_BOOTSTRAP": "false",
        "SSRF_ALLOW_LOCALHOST": "true",
        "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        "RATE_LIMITING_REDIS_ENABLED": "false",
        "RATE_LIMIT_MEDIUM_RPM": NO_LIMIT,
        "TOOL_RATE_LIMIT": NO_LIMIT,
    }
    binaries = environment.absolute() / "bin"
    mint = [str(binaries / "python"), "-m", "mcpgateway.utils.create_jwt_token", "-u", ADMIN, "--admin"]
    minted = subprocess.run(mint, env=settings, cwd=directory, capture_output=True, text=True, check=True)
    token = minted.stdout.strip().splitlines()[-1]
    command = [str(binaries / "mcpgateway"), "--host", "127.0.0.1", "--port", str(port)]
    with (directory / "contextforge.log").open("w") as log:
        process = subprocess.Popen(command, env=settings, cwd=directory, stdout=log, stderr=log)
    try:
        _wait(port, process)
        _post(port, token, "/gateways", {"name": "peer", "url": f"http://127.0.0.1:{upstream}/mcp"})
        yield port, token, process.pid
    finally:
        process.terminate()
        process.wait(60)


def _post(port: int, token: str, path: str, body: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    sent = json.dumps(body | {"transport": "STREAMABLEHTTP"}).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", sent, headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        answer.read()


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    began = time.perf_counter()
    while process.poll() is None and time.perf_counter() - began < START_SECONDS:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(0.2)
    raise RuntimeError("ContextForge did not start")
