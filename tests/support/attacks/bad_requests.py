"""Owns requests that no client should send: a seeded grammar of HTTP with mutations, for fuzzing over a raw socket."""

from collections.abc import Iterator
from random import Random

_METHODS = (
    *(b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"TRACE"),
    *(b"CONNECT", b"get", b"M-SEARCH", b"PRI", b"", b"G\x00T", b"A" * 40),
)
_TARGETS = (
    *(b"/healthz", b"/api/me", b"/api/workspaces", b"/", b"/sign-in", b"/readyz", b"/proj_x/v1/mcp", b"/api/mcp"),
    *(
        b"/proj_x/e/v1/chat/completions",
        b"/api/webhooks/repo_1",
        b"*",
        b"//api/me",
        b"/api/%2e%2e/me",
        b"/%00",
        b"/%zz",
    ),
    *(b"/%c0%ae%c0%ae/x", b"/api/workspaces/%ff", b"http://localhost/healthz", b"http://evil/healthz", b"localhost:80"),
    *(b"/a?" + b"x" * 500, b"/" + b"a" * 9000, b"/\xff", b"/a b", b"/#x", b"\\api\\me", b"/api/workspaces?limit=%00"),
)
_VERSIONS = (b"HTTP/1.1",) * 8 + (
    b"HTTP/1.0",
    b"HTTP/0.9",
    b"HTTP/2.0",
    b"HTTP/1.2",
    b"http/1.1",
    b"",
    b"HTTP/11",
    b"H",
)
_FIELDS = (
    *(b"Host: localhost", b"Host: evil.example", b"Host: a, b", b"Host:", b"Content-Length: 5", b"Content-Length: 0"),
    *(b"Content-Length: +5", b"Content-Length: 5,5", b"Content-Length: 99999999999999999999", b"Content-Length: -1"),
    *(b"Content-Length : 5", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding:"),
    *(
        b"Transfer-Encoding: \x0bchunked",
        b"Transfer-Encoding : chunked",
        b"Connection: close",
        b"Connection: keep-alive",
    ),
    *(
        b"Connection: upgrade",
        b"Upgrade: websocket",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAMAAABk",
        b"Expect: 100-continue",
    ),
    *(
        b"Expect: tea",
        b"Authorization: Bearer x",
        b"Authorization: Basic",
        b"Cookie: holdfast_session=x",
        b"Cookie: \xff=;;",
    ),
    *(b"X-A: " + b"a" * 2000, b" folded", b"\tfolded", b"nonsense", b": nameless", b"X\x00: a", b"X: \x00", b"X: a\rb"),
    *(
        b"Origin: null",
        b"Origin: http://[",
        b"Content-Type: multipart/form-data",
        b"Accept: \x80",
        b"X-Request-Id: \xc3\xa9",
    ),
    *(b"Idempotency-Key: " + b"k" * 300, b"X-Forwarded-For: 1.2.3.4", b"Mcp-Session-Id: x", b"Range: bytes=-1"),
    *(b"traceparent: 00-0-0-0", b"X-Xerotier-Workspace: ws_1", b"Last-Event-ID: 9", b"TE: trailers", b"Trailer: Host"),
)
_BODIES = (
    *(
        b"",
        b"abcde",
        b"{}",
        b'{"name": "x"}',
        b"\x00" * 50,
        b"5\r\nabcde\r\n0\r\n\r\n",
        b"0\r\n\r\n",
        b"5\nabcde\n0\n\n",
    ),
    *(
        b"zz\r\n",
        b"-1\r\n",
        b"ffffffffffffffff\r\n",
        b"5;" + b"x" * 400 + b"\r\n",
        b"0\r\nA: b\r\n\r\n",
        b"0\r\n A\r\n\r\n",
    ),
    *(b"1\r\na\r\n" * 30, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"[" * 3000),
)
_NOISE = (
    b"\x00",
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b":",
    b"\xff",
    b"\x7f",
    b"%",
    b"\x16\x03\x01",
    b"GET ",
)


def bad_requests(seed: int) -> Iterator[bytes]:
    """Requests without end, the same for the same seed. Most are malformed, some are not."""
    random = Random(seed)
    while True:
        yield _request(random)


def _request(random: Random) -> bytes:
    end = random.choice((b"\r\n",) * 12 + (b"\n", b"\r", b"\r\r\n"))
    line = random.choice(_METHODS[:8] * 3 + _METHODS) + b" " + random.choice(_TARGETS) + b" " + random.choice(_VERSIONS)
    fields = [b"Host: localhost"] if random.random() < 0.85 else []
    fields += random.choices(_FIELDS, k=random.choice((0, 1, 1, 2, 3, 5, 120 if random.random() < 0.02 else 4)))
    random.shuffle(fields)
    body = random.choice(_BODIES)
    if body and random.random() < 0.5:
        fields.append(b"Content-Length: %d" % len(body))
    raw = end.join((line, *fields)) + end + end + body
    for _ in range(random.choice((0, 0, 1, 1, 2, 4))):
        raw = _mutated(random, raw)
    return raw


def _mutated(random: Random, raw: bytes) -> bytes:
    at = random.randrange(len(raw) + 1)
    kind = random.randrange(6)
    if kind == 0:
        return raw[:at] + random.choice(_NOISE) + raw[at:]
    if kind == 1:
        return raw[:at] + raw[at + random.randrange(1, 9) :]
    if kind == 2:
        return raw[:at] + random.randbytes(random.randrange(1, 9)) + raw[at:]
    if kind == 3:
        return raw[:at]
    if kind == 4:
        return raw[:at] + raw[at : at + random.randrange(1, 60)] * 2 + raw[at:]
    return raw[:at] + bytes(random.choice((b"\x00", b"\r", b"\n", b" "))) + raw[at + 1 :]
