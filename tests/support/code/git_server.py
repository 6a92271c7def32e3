"""Owns a small smart-HTTP git server for tests: git's own http-backend, with logins, redirects and bad manners."""

import base64
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.code.git import environment, has_git


def has_http_backend() -> bool:
    """Whether git's server program is here."""
    return _backend() is not None


def _backend() -> Path | None:
    if not has_git():
        return None
    found = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    path = Path(found) / "git-http-backend"
    return path if path.exists() else None


@dataclass
class GitServer:
    """Serves the repositories below `root`. Change its fields while it runs."""

    root: Path
    port: int = 0
    scheme: str = "http"
    login: tuple[str, str] | None = None
    redirect: str = ""
    """Where every question for references is sent on to; `{path}` is what was asked."""
    answer_with: Callable[[BaseHTTPRequestHandler], bool] | None = None
    """Takes the place of git where it returns True: gets the request's handler."""
    hosts: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """What the operator would allow."""
        return f"127.0.0.1:{self.port}"

    def url(self, name: str) -> str:
        """A repository's URL."""
        return f"{self.scheme}://127.0.0.1:{self.port}/{name}"

    def allows(self, header: str) -> bool:
        """Whether a request with this Authorization may read."""
        if self.login is None:
            return True
        return header == "Basic " + base64.b64encode(":".join(self.login).encode()).decode()


@contextmanager
def git_server(root: Path, certificate: Path | None = None) -> Iterator[GitServer]:
    """A server on loopback; with a certificate (and its key in one file) it speaks TLS."""
    served = GitServer(root, scheme="http" if certificate is None else "https")
    backend = _backend()

    class Handler(_Handler):
        server_state = served
        program = str(backend)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: GitServer
    program: str

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        state = self.server_state
        state.requests.append(f"{self.command} {self.path}")
        state.hosts.append(self.headers.get("Host", ""))
        authorization = self.headers.get("Authorization", "")
        if authorization:
            state.authorizations.append(authorization)
        body = self._body()
        if state.redirect and "info/refs" in self.path:
            return self._say(302, b"", Location=state.redirect.format(path=self.path))
        if not state.allows(authorization):
            return self._say(401, b"who?", **{"WWW-Authenticate": 'Basic realm="git"'})
        if state.answer_with is not None and state.answer_with(self):
            return None
        return self._git(body)

    def _git(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        asked = {
            "GIT_PROJECT_ROOT": str(self.server_state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run([self.program], input=body, capture_output=True, env=environment() | asked, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        status, fields = 200, {}
        for line in head.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "status":
                status = int(value.split()[0])
            elif name:
                fields[name] = value
        self._say(status, content, **fields)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _say(self, status: int, content: bytes, **fields: str) -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
