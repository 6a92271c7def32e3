"""A request is the same request however its bytes are cut into packets."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.surfaces.http.protocol.chunks import Chunks
from holdfast.surfaces.http.protocol.heads import HeadReader
from tests.support.properties import examples

HEAD = st.builds(
    lambda method, target, fields, early: (
        (b"\r\n" if early else b"") + b"\r\n".join((method + b" /" + target + b" HTTP/1.1", *fields)) + b"\r\n\r\n"
    ),
    st.sampled_from((b"GET", b"POST", b"DELETE")),
    st.binary(max_size=40).map(lambda raw: raw.hex().encode()),
    st.lists(st.sampled_from((b"Host: localhost", b"X-A:", b"X-B: \t b ", b"Accept: */*, \xff")), max_size=6),
    st.booleans(),
)
NOISE = st.binary(max_size=6) | st.sampled_from((b"\r\n", b"\n", b"\r", b"\x00", b" ", b":"))


def pieces(raw: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    return [raw[start:end] for start, end in itertools.pairwise(at)]


def heads(parts: list[bytes]) -> list[bytes] | str:
    """The heads that a reader finds, or that it refuses."""
    reader, found = HeadReader(), []
    try:
        for part in parts:
            at = 0
            while at < len(part):
                head = reader.read(part, at)
                if head is None:
                    break
                found.append(head[0])
                at = head[2]
    except HoldfastError as error:
        return error.code
    return found


def body(parts: list[bytes]) -> tuple[bytes, bytes, bool] | str:
    """What a chunked body holds, what is left behind it, and whether it is complete."""
    chunks, held, left = Chunks(), b"", b""
    try:
        for part in parts:
            if chunks.done:
                left += part
                continue
            piece, at = chunks.read(part, 0)
            held += piece
            left += part[at:]
    except HoldfastError as error:
        return error.code
    return held, left, chunks.done


@examples(200)
@given(st.lists(HEAD, min_size=1, max_size=3), st.lists(st.integers(0, 2000), max_size=12))
def test_heads_are_the_same_however_they_are_cut(requests: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(requests)
    whole = heads([raw])
    assert whole == [request.removeprefix(b"\r\n") for request in requests]
    assert heads(pieces(raw, cuts)) == whole
    assert heads([raw[at : at + 1] for at in range(len(raw))]) == whole


@examples(200)
@given(HEAD, NOISE, st.integers(0, 300), st.lists(st.integers(0, 2000), max_size=12))
def test_spoilt_heads_are_refused_or_taken_however_they_are_cut(
    request: bytes, noise: bytes, where: int, cuts: list[int]
) -> None:
    at = where % (len(request) + 1)
    # Complete in any case, so that the answer does not depend on what is still to come.
    raw = request[:at] + noise + request[at:] + b"\r\n\r\n"
    assert isinstance(heads([raw]), str) == isinstance(heads(pieces(raw, cuts)), str)


CHUNK = st.builds(
    lambda data, extension: b"%x%b\r\n%b\r\n" % (len(data), extension, data),
    st.binary(min_size=1, max_size=60),
    st.sampled_from((b"", b";a", b';a="b c"')),
)


@examples(200)
@given(
    st.lists(CHUNK, max_size=8),
    st.sampled_from((b"", b"X-A: b\r\n")),
    st.sampled_from((b"", b"GET ")),
    st.lists(st.integers(0, 2000), max_size=12),
)
def test_chunks_are_the_same_however_they_are_cut(
    chunks: list[bytes], trailer: bytes, behind: bytes, cuts: list[int]
) -> None:
    raw = b"".join(chunks) + b"0\r\n" + trailer + b"\r\n" + behind
    whole = body([raw])
    assert isinstance(whole, tuple) and whole[1:] == (behind, True)
    assert body(pieces(raw, cuts)) == whole
    assert body([raw[at : at + 1] for at in range(len(raw))]) == whole


@examples(200)
@given(st.lists(CHUNK, max_size=4), NOISE, st.integers(0, 300), st.lists(st.integers(0, 2000), max_size=12))
def test_spoilt_chunks_are_refused_or_taken_however_they_are_cut(
    chunks: list[bytes], noise: bytes, where: int, cuts: list[int]
) -> None:
    good = b"".join(chunks) + b"0\r\n\r\n"
    at = where % (len(good) + 1)
    raw = good[:at] + noise + good[at:]
    assert body(pieces(raw, cuts)) == body([raw])
