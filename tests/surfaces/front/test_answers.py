"""Answers leave in as few pieces as they can, and none leaves that says something else than it carries."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from holdfast.surfaces.http.protocol.cycle import Cycle


class Written(asyncio.Transport):
    """A transport that keeps what is written, each piece as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def cycle(written: Written, *, method: str = "GET", keep_alive: bool = True) -> Cycle:
    log = logging.getLogger(__name__)
    return Cycle(
        scope={"type": "http", "method": method},  # type: ignore[typeddict-item]
        transport=written,
        flow=FlowControl(written),
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[(b"date", b"today")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


async def begin(answering: Cycle, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    await answering.send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def go_on(answering: Cycle, body: bytes, *, more: bool = False) -> None:
    await answering.send({"type": "http.response.body", "body": body, "more_body": more})


async def test_a_whole_answer_is_one_piece() -> None:
    written = Written()
    answering = cycle(written)
    await begin(answering, (b"Content-Length", b"2"))
    await go_on(answering, b"{}")
    assert written.pieces == [b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 2\r\n\r\n{}"]
    assert not written.closed


async def test_the_head_of_a_stream_leaves_though_no_event_comes() -> None:
    written = Written()
    answering = cycle(written)
    await begin(answering, (b"content-type", b"text/event-stream"))
    await asyncio.sleep(0)
    assert [piece.partition(b"\r\n")[0] for piece in written.pieces] == [b"HTTP/1.1 200 OK"]
    await go_on(answering, b"data: 1\n\n", more=True)
    await go_on(answering, b"")
    assert written.pieces[1:] == [b"9\r\ndata: 1\n\n\r\n", b"0\r\n\r\n"]


async def test_the_first_event_of_a_stream_leaves_with_its_head() -> None:
    written = Written()
    answering = cycle(written)
    await begin(answering, (b"content-type", b"text/event-stream"))
    await go_on(answering, b"data: 1\n\n", more=True)
    assert len(written.pieces) == 1 and written.pieces[0].endswith(b"chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
    await asyncio.sleep(0)
    assert len(written.pieces) == 1


async def test_an_answer_that_says_it_is_chunked_says_so_once() -> None:
    written = Written()
    answering = cycle(written)
    await begin(answering, (b"transfer-encoding", b"chunked"))
    await go_on(answering, b"hello")
    whole = b"".join(written.pieces)
    assert whole.count(b"transfer-encoding") == 1 and whole.endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_none(status: int) -> None:
    written = Written()
    answering = cycle(written)
    await begin(answering, status=status)
    await go_on(answering, b"")
    assert len(written.pieces) == 1 and written.pieces[0].endswith(b"\r\n\r\n") and b"chunked" not in written.pieces[0]


@pytest.mark.parametrize("headers", [[(b"content-length", b"5")], []])
async def test_a_question_for_the_head_is_answered_without_the_body(headers: list[tuple[bytes, bytes]]) -> None:
    written = Written()
    answering = cycle(written, method="HEAD")
    await begin(answering, *headers)
    await go_on(answering, b"hello")
    assert b"".join(written.pieces).endswith(b"\r\n\r\n") and answering.response_complete


@pytest.mark.parametrize("body", [b"hell", b"hello!"])
async def test_an_answer_of_another_length_than_it_said_is_refused(body: bytes) -> None:
    answering = cycle(Written())
    await begin(answering, (b"content-length", b"5"))
    with pytest.raises(RuntimeError, match="than it said"):
        await go_on(answering, body)


@pytest.mark.parametrize("pair", [(b"x-a", b"1\r\nset-cookie: a"), (b"x-a\r\nx-b", b"1"), (b"x a", b"1")])
async def test_a_header_cannot_bring_another_along(pair: tuple[bytes, bytes]) -> None:
    written = Written()
    with pytest.raises(RuntimeError, match="no header has"):
        await begin(cycle(written), pair)
    assert written.pieces == []


async def test_a_connection_that_ends_says_so_and_is_closed() -> None:
    written = Written()
    answering = cycle(written, keep_alive=False)
    await begin(answering, (b"content-length", b"0"))
    await go_on(answering, b"")
    assert b"connection: close\r\n" in written.pieces[0] and written.closed


async def test_nothing_follows_an_answer_that_is_complete() -> None:
    answering = cycle(Written())
    await begin(answering, (b"content-length", b"0"))
    await go_on(answering, b"")
    with pytest.raises(RuntimeError, match="does not follow"):
        await go_on(answering, b"more")
