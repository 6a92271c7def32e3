"""Bodies are read up to their bound, and kept only where somebody expects them."""

import pytest
from starlette.types import Receive, Scope

from holdfast.surfaces.http.asgi import BodyTooLarge, read_body

SCOPE: Scope = {"type": "http", "headers": []}


def arriving(*chunks: bytes) -> Receive:
    waiting = list(chunks)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    return receive


async def test_a_body_is_read_whole() -> None:
    assert await read_body(SCOPE, arriving(b"a", b"b", b"c"), 3) == b"abc"
    assert await read_body(SCOPE, arriving(b""), 3) == b""


async def test_a_body_that_nobody_expects_is_waited_for_and_not_kept() -> None:
    assert await read_body(SCOPE, arriving(b"a", b"b", b"c"), 3, keep=False) == b""


@pytest.mark.parametrize("keep", [True, False])
async def test_a_body_beyond_its_bound_is_refused_either_way(keep: bool) -> None:
    with pytest.raises(BodyTooLarge):
        await read_body(SCOPE, arriving(b"aa", b"bb"), 3, keep=keep)
