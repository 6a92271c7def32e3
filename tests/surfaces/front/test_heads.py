"""Heads are bounded as they arrive, and whatever two servers could read differently is refused."""

import pytest

from tests.support.attacks.raw import dial, exchange
from tests.support.server import TestServer

GOOD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def get(*fields: bytes, line: bytes = b"GET /healthz HTTP/1.1") -> bytes:
    return b"\r\n".join((line, b"Host: localhost", *fields)) + b"\r\n\r\n"


def post(*fields: bytes, body: bytes = b"") -> bytes:
    return get(*fields, line=b"POST /healthz HTTP/1.1") + body


async def test_an_endless_header_is_refused_at_32_kib(sqlite_server: TestServer) -> None:
    wire = await dial(sqlite_server.url)
    await wire.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ", *[b"a" * 4096] * 9)
    answer = await wire.answer()
    assert answer is not None
    assert (answer.status, answer.code, answer.headers["connection"]) == (431, "head_too_large", "close")
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]
    assert await wire.closed()
    await wire.close()


@pytest.mark.parametrize(
    "head",
    [
        get(line=b"GET /" + b"a" * (8 * 1024 - len("GET / HTTP/1.1")) + b" HTTP/1.1"),
        get(b"X-A: " + b"a" * (32 * 1024 - len("Host: localhost\r\nX-A: \r\n"))),
        get(*[b"X-A: a"] * 99),
    ],
    ids=["line", "fields", "count"],
)
@pytest.mark.parametrize("pieces", [1, 7])
async def test_the_bounds_are_exact(sqlite_server: TestServer, head: bytes, pieces: int) -> None:
    size = -(-len(head) // pieces)
    wire = await dial(sqlite_server.url)
    await wire.send(*(head[at : at + size] for at in range(0, len(head), size)))
    within = await wire.answer()
    await wire.close()
    one_more = head.replace(b"aa", b"aaa", 1) if b"aa" in head else head.replace(b"X-A: a\r\n", b"X-A: a\r\n" * 2, 1)
    beyond, silent = await exchange(
        sqlite_server.url, *(one_more[at : at + size] for at in range(0, len(one_more), size))
    )
    assert within is not None and within.status in (200, 404)
    assert beyond is not None and (beyond.status, beyond.code, silent) == (431, "head_too_large", True)


REFUSED = {
    "both lengths": post(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "both lengths, the other way round": post(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n"),
    "differing lengths": post(b"Content-Length: 5", b"Content-Length: 6", body=b"abcdef"),
    "repeated lengths": post(b"Content-Length: 5", b"Content-Length: 5", body=b"abcde"),
    "a list of lengths": post(b"Content-Length: 5,5", body=b"abcde"),
    "a length with a sign": post(b"Content-Length: +5", body=b"abcde"),
    "a negative length": post(b"Content-Length: -5", body=b"abcde"),
    "a hexadecimal length": post(b"Content-Length: 0x5", body=b"abcde"),
    "a length with a space in it": post(b"Content-Length: 5 5", body=b"abcde"),
    "a length with a space behind it": post(b"Content-Length: 5 ", body=b"abcde"),
    "an empty length": post(b"Content-Length:", body=b"abcde"),
    "a length that no number holds": post(b"Content-Length: " + b"9" * 40, body=b"abcde"),
    "a length with an underscore": post(b"Content-Length: 1_0", body=b"abcde"),
    "another coding": post(b"Transfer-Encoding: gzip", body=b"0\r\n\r\n"),
    "two codings": post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "chunked twice": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "chunked and identity": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    "chunked misspelt": post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "chunked with a vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "chunked in quotes": post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "an empty coding": post(b"Transfer-Encoding:", body=b"0\r\n\r\n"),
    "chunked in HTTP/1.0": post(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n").replace(b"1.1", b"1.0"),
    "a folded line": get(b"X-A: one", b" two"),
    "a line folded by a tab": get(b"X-A: one", b"\ttwo"),
    "a space before the colon": get(b"X-A : one"),
    "a space before a length's colon": post(b"Content-Length : 5", body=b"abcde"),
    "a line without a colon": get(b"nonsense"),
    "a line without a name": get(b": one"),
    "a space before the first field": GOOD.replace(b"Host", b" Host"),
    "bare line feeds": GOOD.replace(b"\r\n", b"\n"),
    "one bare line feed": GOOD.replace(b"\r\nHost", b"\nHost"),
    "a bare carriage return": get(b"X-A: one\rX-B: two"),
    "carriage returns alone": GOOD.replace(b"\r\n", b"\r"),
    "a NUL in a value": get(b"X-A: o\x00ne"),
    "a NUL in a name": get(b"X-\x00A: one"),
    "an escape in a value": get(b"X-A: \x1b[2J"),
    "a delete in a value": get(b"X-A: \x7f"),
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": get(b"Host: localhost"),
    "a host with a user": GOOD.replace(b"localhost", b"localhost@evil.example"),
    "a host with a path": GOOD.replace(b"localhost", b"localhost/x"),
    "a host with a wordy port": GOOD.replace(b"localhost", b"localhost:http"),
    "two hosts in one": GOOD.replace(b"localhost", b"localhost, evil.example"),
    "two credentials": get(b"Authorization: Bearer a", b"Authorization: Bearer a"),
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/2.0": GOOD.replace(b"1.1", b"2.0"),
    "HTTP/1.2": GOOD.replace(b"1.1", b"1.2"),
    "HTTP/1.01": GOOD.replace(b"1.1", b"1.01"),
    "a version in lower case": GOOD.replace(b"HTTP", b"http"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a handshake of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "two spaces in the line": GOOD.replace(b"GET ", b"GET  "),
    "a tab in the line": GOOD.replace(b"GET ", b"GET\t"),
    "a space behind the line": GOOD.replace(b"1.1\r", b"1.1 \r"),
    "two empty lines before it": b"\r\n\r\n" + GOOD,
    "a method in lower case": GOOD.replace(b"GET", b"get"),
    "a method nobody knows": GOOD.replace(b"GET", b"GRAB"),
    "a target with a byte beyond ASCII": GOOD.replace(b"healthz", b"h\xe9althz"),
    "a target with a fragment": GOOD.replace(b"healthz", b"healthz#x"),
    "a target without a slash": GOOD.replace(b"/healthz", b"healthz"),
    "an asterisk": GOOD.replace(b"GET /healthz", b"OPTIONS *"),
    "another host in the target": GOOD.replace(b"/healthz", b"http://evil.example/healthz"),
    "a user in the target": GOOD.replace(b"/healthz", b"http://a@localhost/healthz"),
    "a target of another scheme": GOOD.replace(b"/healthz", b"ftp://localhost/healthz"),
    "a target without a path": GOOD.replace(b"/healthz", b"http://localhost"),
}


async def test_what_could_be_read_in_two_ways_is_refused_and_ends_the_connection(sqlite_server: TestServer) -> None:
    wrong = {}
    for name, raw in REFUSED.items():
        answer, silent = await exchange(sqlite_server.url, raw + GOOD)
        told = answer and (answer.status, answer.code, answer.headers["connection"])
        # Had anything behind it been understood, a second answer would have come.
        if told != (400, "malformed_request", "close") or not silent:
            wrong[name] = answer
    assert wrong == {}


async def test_it_is_refused_just_so_behind_a_good_request(sqlite_server: TestServer) -> None:
    wrong = {}
    for name, raw in REFUSED.items():
        wire = await dial(sqlite_server.url)
        await wire.send(GOOD + raw + GOOD)
        statuses = [answer.status for answer in (await wire.answer(), await wire.answer()) if answer]
        if statuses != [200, 400] or not await wire.closed():
            wrong[name] = statuses
        await wire.close()
    assert wrong == {}


async def test_it_is_refused_just_so_when_it_comes_byte_by_byte(sqlite_server: TestServer) -> None:
    wrong = {}
    for name, raw in REFUSED.items():
        answer, silent = await exchange(sqlite_server.url, *(raw[at : at + 1] for at in range(len(raw))))
        if answer is None or answer.status != 400 or not silent:
            wrong[name] = answer
    assert wrong == {}


async def test_connect_is_no_method_of_ours(sqlite_server: TestServer) -> None:
    raw = GOOD.replace(b"GET /healthz", b"CONNECT localhost:80")
    answer, silent = await exchange(sqlite_server.url, raw + GOOD)
    assert answer is not None and (answer.status, answer.code, silent) == (405, "method_not_allowed", True)


async def test_only_100_continue_may_be_expected(sqlite_server: TestServer) -> None:
    answer, silent = await exchange(sqlite_server.url, post(b"Expect: a-pony", b"Content-Length: 2", body=b"{}"))
    assert answer is not None and (answer.status, answer.code, silent) == (417, "expectation_failed", True)


ACCEPTED = {
    "as usual": GOOD,
    "an empty line before it": b"\r\n" + GOOD,
    "an absolute target of this host": GOOD.replace(b"/healthz", b"http://localhost/healthz"),
    "a port": GOOD.replace(b"localhost", b"localhost:80"),
    "an address of IPv6": GOOD.replace(b"localhost", b"[::1]:80"),
    "no space behind the colon": GOOD.replace(b"Host: ", b"Host:"),
    "an empty value": get(b"X-A:"),
    "a value beyond ASCII": get(b"X-A: caf\xe9"),
    "a length of nothing": post(b"Content-Length: 0"),
    "a body nobody asked for": post(b"Content-Length: 5", body=b"abcde"),
    "chunked in capitals": post(b"Transfer-Encoding: CHUNKED", body=b"0\r\n\r\n"),
    "chunks": post(b"Transfer-Encoding: chunked", body=b"5;a=b\r\nabcde\r\n0\r\nX-Checksum: 1\r\n\r\n"),
    "an offer of HTTP/2": get(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk"),
    "an offer of HTTP/2 with a body": post(
        b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 5", body=b"abcde"
    ),
    "an offer of WebSockets": get(
        b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: eA=="
    ),
}


async def test_good_requests_are_answered_one_after_the_other(sqlite_server: TestServer) -> None:
    wrong = {}
    for name, raw in ACCEPTED.items():
        wire = await dial(sqlite_server.url)
        await wire.send(raw * 3)
        statuses = [
            answer.status for answer in (await wire.answer(), await wire.answer(), await wire.answer()) if answer
        ]
        if statuses != [200] * 3:
            wrong[name] = statuses
        await wire.close()
    assert wrong == {}


async def test_good_requests_are_answered_when_they_come_byte_by_byte(sqlite_server: TestServer) -> None:
    wrong = {}
    for name, raw in ACCEPTED.items():
        wire = await dial(sqlite_server.url)
        await wire.send(*(raw[at : at + 1] for at in range(len(raw))), raw)
        statuses = [answer.status for answer in (await wire.answer(), await wire.answer()) if answer]
        if statuses != [200] * 2:
            wrong[name] = statuses
        await wire.close()
    assert wrong == {}
