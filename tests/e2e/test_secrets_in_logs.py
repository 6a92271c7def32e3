"""Credentials in any part of a request reach no log, span, metric or audit entry of a started server, and no echo."""

import gzip
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.e2e.test_up import HOLDFAST, environment

pytestmark = pytest.mark.slow

CREDENTIALS = {
    "a project's key": "xero_0197aaaabbbbccccddddeeeeffff0000_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9nP2r",
    "an organization's key": "ks_live_" + "0f1e2d3c4b5a6978" * 4,
    "a link, a cookie, a token": "e-H2G0PO_HagDv1o0Vbe8lHPEYLr0mNrSKF9SsNLcTA",
    "a JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "a GitHub token": "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6",
}
PLACES = {
    "a path": "GET /{} HTTP/1.1\r\nHost: localhost",
    "a path, escaped": "GET /{escaped} HTTP/1.1\r\nHost: localhost",
    "a path, escaped twice": "GET /{twice} HTTP/1.1\r\nHost: localhost",
    "an id": "GET /api/workspaces/{}/memories HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}",
    "an operation": "GET /api/{} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}",
    "a page for approvals": "GET /approve/{} HTTP/1.1\r\nHost: localhost",
    "a webhook's address": "POST /api/webhooks/{} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0",
    "a project's path": "GET /proj_{}/v1/mcp HTTP/1.1\r\nHost: localhost",
    "an endpoint's path": "GET /proj_x/{}/v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}",
    "a query": "GET /api/me?key={} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}",
    "a query without a name": "GET /nothing?{} HTTP/1.1\r\nHost: localhost",
    "a sign-in link": "GET /sign-in?link={} HTTP/1.1\r\nHost: localhost",
    "a callback": "GET /sign-in/oidc/callback?code={}&state={} HTTP/1.1\r\nHost: localhost",
    "an authorization": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}",
    "a cookie": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nCookie: holdfast_session={}",
    "a request id": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {}",
    "a host": "GET /api/me HTTP/1.1\r\nHost: {}",
    "an origin": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nOrigin: https://{}",
    "a trace": "GET /api/me HTTP/1.1\r\nHost: localhost\r\ntraceparent: 00-{}-b7ad6b7169203331-01",
    "a workspace": "GET /proj_x/v1/mcp HTTP/1.1\r\nHost: localhost\r\n"
    "Authorization: Bearer {key}\r\nX-Xerotier-Workspace: {}",
    "a method": "{} / HTTP/1.1\r\nHost: localhost",
    "a malformed head": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer {}\r\nX: \x00",
    "a malformed target": "GET {} HTTP/1.1\r\nHost: localhost",
    "an unknown version": "GET /{} HTTP/3.0\r\nHost: localhost",
    "a header's name": "GET /api/me HTTP/1.1\r\nHost: localhost\r\n{}: x",
    "a refused write": "POST /api/organizations/{}/projects HTTP/1.1\r\nHost: localhost\r\n"
    "Authorization: Bearer {key}\r\nContent-Length: 0",
    "an operation that is denied": "DELETE /api/users/{} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}",
}


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Keeps every trace that is sent to it."""
    kept: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.append(gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def say(port: int, raw: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 60) as wire:
        wire.sendall(raw)
        answer = b""
        while piece := wire.recv(65536):
            answer += piece
        return answer


CARRIED_ON = ("a sign-in link", "a page for approvals")
"""What its own browser gets back, as it must: a link in the page that it opens, a page to return to in a cookie."""


def test_no_credential_in_a_request_reaches_a_log_a_span_a_metric_the_audit_or_an_echo(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [*HOLDFAST, "up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--json"]
    with collector() as (traces, spans), log.open("wb") as stderr:
        env = environment(HOLDFAST_LOG_LEVEL="debug", HOLDFAST_OTLP_ENDPOINT=traces)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env) as process:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            port = int(ready["url"].rsplit(":", 1)[1])
            echoed = {}
            for place, shape in PLACES.items():
                for kind, secret in CREDENTIALS.items():
                    escaped = "".join(f"%{ord(letter):02x}" for letter in secret)
                    text = shape.format(secret, secret, key=ready["api_key"], escaped=escaped, twice=quote(escaped))
                    answer = say(port, text.encode("latin-1") + b"\r\nConnection: close\r\n\r\n")
                    if secret.encode() in answer and place not in CARRIED_ON:
                        echoed[place, kind] = answer
            headers = {"Authorization": f"Bearer {ready['api_key']}"}
            metrics = httpx.get(f"{ready['url']}/metrics", trust_env=False, timeout=60).text
            audit = httpx.get(f"{ready['url']}/api/audit?limit=200", headers=headers, trust_env=False, timeout=60).text
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    logged = log.read_text()
    sinks = {"log": logged, "spans": b"".join(spans).decode("latin-1"), "metrics": metrics, "audit": audit}
    found = [
        (sink, kind) for sink, text in sinks.items() for kind, secret in CREDENTIALS.items() if secret[-20:] in text
    ]
    assert found == []
    # Nothing else says it again.
    assert echoed == {}
    # The server's own first key is one more that was used all the time.
    assert ready["api_key"] not in logged and ready["api_key"][-20:] not in "".join(sinks.values())
    # And everything was looked at by somebody.
    assert logged.count('"message":"request"') > len(PLACES) * len(CREDENTIALS) // 2
    assert sinks["spans"].count("url.path") > len(PLACES)
