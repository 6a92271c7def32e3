"""Connections are bounded: in time, in number, in what they may queue; and every one of them ends."""

import asyncio
import json

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.http.protocol import front
from holdfast.surfaces.http.protocol.connections import Connections
from holdfast.surfaces.http.protocol.proxies import Proxies
from tests.support.attacks.raw import Wire, dial, exchange
from tests.support.server import TestServer, serving

GOOD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPLOAD = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"


async def test_a_head_that_never_ends_is_given_up(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, header_timeout_seconds=0.2) as server:
        answer, silent = await exchange(server.url, b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert answer is not None and (answer.status, answer.code, silent) == (408, "request_timeout", True)


async def test_a_head_that_drips_is_given_up_as_soon(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, header_timeout_seconds=0.2) as server:
        wire = await dial(server.url)
        await wire.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        answering = asyncio.ensure_future(wire.answer())
        while not answering.done():
            await wire.send(b"X-A: a\r\n")
            await asyncio.sleep(0.05)
        answer = await answering
        assert answer is not None and answer.status == 408
        await wire.close()


async def test_the_second_head_of_a_connection_has_no_more_time(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, header_timeout_seconds=0.2) as server:
        wire = await dial(server.url)
        await wire.send(GOOD + GOOD[:10])
        first, second = await wire.answer(), await wire.answer()
        assert first is not None and second is not None and (first.status, second.status) == (200, 408)
        assert await wire.closed()
        await wire.close()


@pytest.mark.parametrize("path", ["/healthz", "/api/workspaces", "/sign-in", "/api/webhooks/repo_1"])
async def test_a_body_that_never_comes_is_given_up(sqlite_database: SqliteDatabase, path: str) -> None:
    async with serving(sqlite_database, body_timeout_seconds=0.2) as server:
        wire = await dial(server.url)
        head = UPLOAD.replace(b"/healthz", path.encode())
        await wire.send(head.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {server.key}\r\n\r\n".encode()))
        answer = await wire.answer()
        # Health is answered without its body; the others wait for theirs.
        assert answer is not None and answer.status == (200 if path == "/healthz" else 408)
        if path != "/healthz":
            assert answer.code == "request_timeout" and await wire.closed()
        await wire.close()


async def test_a_body_that_keeps_coming_may_take_its_time(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, body_timeout_seconds=0.8) as server:
        body = json.dumps({"name": "Slow"}).encode()
        head = (
            f"POST /api/workspaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\n"
            f"Content-Length: {len(body) + 5000}\r\n\r\n"
        )
        wire = await dial(server.url)
        await wire.send(head.encode())
        for _ in range(20):
            await wire.send(b" " * 250)
            await asyncio.sleep(0.06)
        await wire.send(body)
        answer = await wire.answer()
        assert answer is not None and answer.status == 201
        await wire.close()


async def test_pipelined_requests_are_answered_in_order_however_many(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server:
        wire = await dial(server.url)
        requests = [GOOD.replace(b"\r\n\r\n", b"\r\nX-Request-Id: r%d\r\n\r\n" % number) for number in range(3000)]
        sending = asyncio.ensure_future(wire.send(b"".join(requests)))
        ids = []
        for _ in requests:
            answer = await wire.answer()
            assert answer is not None
            ids.append(answer.headers["x-request-id"])
        await sending
        assert ids == [f"r{number}" for number in range(3000)]
        await wire.close()


async def test_nothing_behind_a_request_that_closes_is_read(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server:
        answer, silent = await exchange(server.url, GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + GOOD)
        assert answer is not None and (answer.status, silent) == (200, True)


async def test_an_early_answer_to_an_expectation_ends_the_connection(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server:
        # A client that is refused leaves its body out or sends it: neither may be taken for the other.
        expecting = UPLOAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
        wire = await dial(server.url)
        await wire.send(expecting)
        answer = await wire.answer()
        assert answer is not None and answer.status == 200
        assert await wire.closed()
        await wire.close()


async def test_a_body_that_is_awaited_is_asked_for(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server:
        wire = await dial(server.url)
        await wire.send(
            b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
        asked = await wire.answer()
        await wire.send(b"a=b&c")
        answer = await wire.answer()
        assert asked is not None and answer is not None and (asked.status, answer.status) == (100, 401)
        await wire.close()


async def test_what_was_answered_early_does_not_spoil_the_next_request(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server:
        wire = await dial(server.url)
        await wire.send(UPLOAD)
        first = await wire.answer()
        # Were its body taken for requests, there would be many answers.
        await wire.send((GOOD * 100)[:1000] + GOOD)
        second = await wire.answer()
        assert first is not None and second is not None and (first.status, second.status) == (200, 200)
        await wire.send(GOOD.replace(b"/healthz", b"/nothing"))
        third = await wire.answer()
        assert third is not None and third.status == 404
        await wire.close()


async def test_a_client_that_says_nothing_is_hung_up_on(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, idle_timeout_seconds=1) as server:
        silent, waiting = await dial(server.url), await dial(server.url)
        await waiting.send(GOOD)
        assert await waiting.answer() is not None
        assert await silent.closed() and await waiting.closed()
        await silent.close()
        await waiting.close()


async def connections(server: TestServer) -> int:
    async with server.stranger() as client:
        metrics = (await client.get("/metrics")).text
    return int(float(metrics.split("\nholdfast_http_connections ")[1].split("\n")[0]))


async def test_an_answer_that_nobody_reads_is_given_up(
    sqlite_database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "UNREAD_SECONDS", 0.2)
    async with serving(sqlite_database) as server:
        wire = await dial(server.url)
        await wire.send(GOOD.replace(b"/healthz", b"/api/openapi.json") * 400)
        async with asyncio.timeout(60):
            # The one that asks is open itself.
            while await connections(server) > 1:
                await asyncio.sleep(0.05)
        await wire.close()


CHUNKED = (
    b"POST /api/workspaces HTTP/1.1\r\nHost: localhost\r\n"
    b"Authorization: Bearer %b\r\nTransfer-Encoding: chunked\r\n\r\n"
)
BAD_CHUNKS = {
    "no size": (b"\r\n", 400),
    "a size in words": (b"five\r\nabcde\r\n", 400),
    "a size with a sign": (b"+5\r\nabcde\r\n", 400),
    "a size with 0x": (b"0x5\r\nabcde\r\n", 400),
    "a size with a space behind": (b"5 \r\nabcde\r\n", 400),
    "a size with a space before": (b" 5\r\nabcde\r\n", 400),
    "a size that no number holds": (b"fffffffffffffffff\r\n", 400),
    "a size ended by a line feed": (b"5\nabcde\r\n", 400),
    "data ended by a line feed": (b"5\r\nabcde\n", 400),
    "data longer than its size": (b"5\r\nabcdefgh\r\n", 400),
    "a bare carriage return in an extension": (b"5;a\rb\r\nabcde\r\n", 400),
    "a NUL in an extension": (b"5;\x00\r\nabcde\r\n", 400),
    "a long extension": (b"5;" + b"a" * 300 + b"\r\nabcde\r\n", 400),
    "many extensions": ((b"5;" + b"a" * 200 + b"\r\nabcde\r\n") * 30, 431),
    "many small chunks": (b"1\r\na\r\n" * 5000, 400),
    "many trailers": (b"0\r\n" + b"X-A: a\r\n" * 40, 431),
    "a long trailer": (b"0\r\nX-A: " + b"a" * 9000, 400),
    "much of trailers": (b"0\r\n" + (b"X-A: " + b"a" * 3000 + b"\r\n") * 3, 431),
    "a folded trailer": (b"0\r\nX-A: a\r\n b\r\n\r\n", 400),
    "a trailer without a colon": (b"0\r\nnonsense\r\n\r\n", 400),
    "a trailer ended by a line feed": (b"0\r\nX-A: a\n\r\n", 400),
}


async def test_chunks_are_read_strictly_and_bounded(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server:
        wrong = {}
        for name, (body, status) in BAD_CHUNKS.items():
            answer, silent = await exchange(server.url, CHUNKED % server.key.encode() + body + GOOD)
            if answer is None or answer.status != status or not silent:
                wrong[name] = answer
        assert wrong == {}


async def test_a_trailer_is_no_header(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server:
        wire = await dial(server.url)
        head = CHUNKED.replace(b"Authorization: Bearer %b\r\n", b"")
        body = b'e\r\n{"name": "Me"}\r\n0\r\nAuthorization: Bearer %b\r\n\r\n' % server.key.encode()
        await wire.send(head + body)
        answer = await wire.answer()
        assert answer is not None and answer.status == 401
        await wire.close()


async def test_one_address_has_only_so_many_connections(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, max_connections=20, max_connections_per_address=3) as server:
        open_ones = [await dial(server.url) for _ in range(3)]
        for wire in open_ones:
            await wire.send(GOOD)
            assert await wire.answer() is not None
        refused, silent = await exchange(server.url)
        assert refused is not None
        assert (refused.status, refused.code, silent) == (503, "too_many_connections", True)
        await open_ones.pop().close()
        await _until_answered(server.url, open_ones)
        for wire in open_ones:
            await wire.close()


async def _until_answered(url: str, open_ones: list[Wire]) -> None:
    """The server hears of a closed connection a moment after the client closed it."""
    async with asyncio.timeout(30):
        while True:
            wire = await dial(url)
            await wire.send(GOOD)
            answer = await wire.answer()
            if answer is not None and answer.status == 200:
                open_ones.append(wire)
                return
            await wire.close()


async def test_a_named_proxy_may_have_more(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, max_connections_per_address=2, trusted_proxies=("127.0.0.1",)) as server:
        wires = [await dial(server.url) for _ in range(6)]
        for wire in wires:
            await wire.send(GOOD)
        answers = [await wire.answer() for wire in wires]
        assert [answer.status for answer in answers if answer] == [200] * 6
        for wire in wires:
            await wire.close()


class Open:
    """A connection that remembers being hung up on."""

    ended = False

    def hang_up(self) -> None:
        self.ended = True


def test_idle_connections_make_room_and_busy_ones_do_not() -> None:
    connections = Connections(most=4, most_per_address=4, proxies=Proxies(()))
    opened = [Open() for _ in range(4)]
    for number, one in enumerate(opened):
        assert connections.enter(one, f"10.0.0.{number}")
    connections.busy(opened[0])
    newcomer = Open()
    assert connections.enter(newcomer, "10.0.0.9")
    assert [one.ended for one in opened] == [False, True, False, False]
    for one in (*opened, newcomer):
        connections.busy(one)
    assert not connections.enter(Open(), "10.0.0.10")
    assert len(connections) == 4


def test_one_address_never_takes_every_connection() -> None:
    connections = Connections(most=8, most_per_address=1000, proxies=Proxies(()))
    ones = [Open() for _ in range(20)]
    for one in ones:
        if connections.enter(one, "10.0.0.1"):
            connections.busy(one)
    assert len(connections) == 6
    assert connections.enter(Open(), "10.0.0.2")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_hosts_of_one_network_count_as_one_address(one: str, other: str, same: bool) -> None:
    connections = Connections(most=100, most_per_address=1, proxies=Proxies(()))
    assert connections.enter(Open(), one)
    assert connections.enter(Open(), other) is not same
