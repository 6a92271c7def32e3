"""Owns what a request's head may be: its bounds, counted as bytes arrive, and the one way to read its framing."""

import re
from functools import lru_cache

from holdfast.core.errors import HoldfastError

MAX_LINE_BYTES = 8 * 1024
MAX_FIELDS_BYTES = 32 * 1024
MAX_FIELDS = 100
_MAX_HEAD_BYTES = MAX_LINE_BYTES + 2 + MAX_FIELDS_BYTES + 2

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_LINE = rb"[A-Z][A-Z\-]{0,23}+ [\x21\x22\x24-\x7e]++ HTTP/1\.([01])\r\n"
FIELD = _TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n"
# Possessive throughout: what does not match is known after one pass, however it was made.
_HEAD = re.compile(_LINE + rb"((?:" + FIELD + rb")*+)\r\n")
_REQUEST_LINE = re.compile(_LINE)
_STRAY = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n|\Z)|(?<!\r)\n")
_HOST = re.compile(rb"(?:[A-Za-z0-9._\-]*+|\[[0-9A-Fa-f:.]++\])(?::[0-9]{1,5})?")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?]*+)/")
_CHECKED = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect", b"authorization"})
# Shorter heads keep every bound, even in fields of the shortest kind (`a:` and a line end), and need no counting.
_SURELY_SMALL_BYTES = 4 * MAX_FIELDS
_HOST_RULE = "A request names its host once, in the header Host."
_LENGTH_RULE = "Content-Length is one plain number, given once."
_CODING_RULE = "Transfer-Encoding is 'chunked', given once, in HTTP/1.1, and not beside Content-Length."


class MalformedRequest(HoldfastError):
    """Not HTTP as we take it; what two servers could read differently is refused rather than guessed at."""

    code = "malformed_request"
    status = 400


class HeadTooLarge(HoldfastError):
    """More request line, fields or trailers than a request has."""

    code = "head_too_large"
    status = 431


class MethodRefused(HoldfastError):
    """A method that is not ours to carry out, such as CONNECT."""

    code = "method_not_allowed"
    status = 405


class ExpectationFailed(HoldfastError):
    """The header Expect asks for something else than 100-continue."""

    code = "expectation_failed"
    status = 417


Head = tuple[bytes, bytes, int]
"""A whole, well-formed head as it came; N of its version HTTP/1.N; where it ends in what was read last."""


class HeadReader:
    """Collects one connection's heads. Costs in proportion to bytes, and never holds more than a head's bounds."""

    __slots__ = ("_buffer", "_lines", "_searched", "_skipped", "begun")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._clear()

    def _clear(self) -> None:
        self._buffer.clear()
        self._searched = self._lines = 0
        self._skipped = False
        self.begun = False
        """Whether a byte of the next head has come."""

    def read(self, data: bytes, at: int) -> Head | None:
        """The head; None when it goes on in what has not come yet."""
        if not self.begun:
            if data.startswith(b"\r\n", at):
                # Old clients end a body with an extra line end (RFC 9112, 2.2); one is theirs, more are not.
                at += 2
                self._skipped = True
            found = _HEAD.match(data, at, at + _MAX_HEAD_BYTES)
            if found is not None:
                end = found.end()
                if end - at > _SURELY_SMALL_BYTES:
                    fields, fields_end = found.span(2)
                    _check_sizes(fields - at - 2, fields_end - fields, data.count(b"\r\n", at, end))
                self._skipped = False
                return data if at == 0 and end == len(data) else data[at:end], found[1], end
            self.begun = True
        return self._collect(data, at)

    def _collect(self, data: bytes, at: int) -> Head | None:
        buffer = self._buffer
        taken = data[at : at + _MAX_HEAD_BYTES + 1 - len(buffer)]
        buffer += taken
        if not self._skipped and bytes(buffer[:2]) in (b"\r", b"\r\n"):
            # That line end in two pieces.
            if len(buffer) == 1:
                return None
            del buffer[:2]
            self._skipped = True
        if not buffer:
            return None
        end = buffer.find(b"\r\n\r\n", max(0, self._searched - 3))
        if end < 0:
            self._check_partial()
            return None
        whole = bytes(buffer[: end + 4])
        at += len(taken) - (len(buffer) - len(whole))
        self._clear()
        line = whole.find(b"\r\n")
        _check_sizes(line, end - line, whole.count(b"\r\n"))
        found = _HEAD.fullmatch(whole)
        if found is None:
            raise MalformedRequest("The request's head is not well-formed HTTP/1.1.")
        return whole, found[1], at

    def _check_partial(self) -> None:
        buffer = self._buffer
        line = buffer.find(b"\r\n", 0, MAX_LINE_BYTES + 2)
        self._lines += buffer.count(b"\r\n", max(0, self._searched - 1))
        if line < 0:
            _check_sizes(len(buffer) - 1, 0, 0)
        else:
            _check_sizes(line, len(buffer) - line - 4, self._lines)
            if _REQUEST_LINE.match(buffer) is None:
                raise MalformedRequest("The request line is not METHOD, target and HTTP/1.1 with one space between.")
        if _STRAY.search(buffer, max(0, self._searched - 1)) is not None:
            raise MalformedRequest("The request's head has a control character, or a line end that is not CR LF.")
        self._searched = len(buffer)


def _check_sizes(line: int, fields: int, line_ends: int) -> None:
    if line > MAX_LINE_BYTES:
        raise HeadTooLarge(f"The request line may have at most {MAX_LINE_BYTES} bytes.")
    if fields > MAX_FIELDS_BYTES:
        raise HeadTooLarge(f"The header fields may have at most {MAX_FIELDS_BYTES} bytes.")
    # The request line and the empty line at the end are the other two.
    if line_ends > MAX_FIELDS + 2:
        raise HeadTooLarge(f"A request may have at most {MAX_FIELDS} header fields.")


def body_bytes(minor: bytes, target: bytes, fields: list[tuple[bytes, bytes]]) -> int | None:
    """How many bytes of body follow; None when it is chunked. Refuses whatever leaves that in doubt."""
    host = length = coding = credential = None
    for name, value in fields:
        if name in _CHECKED:
            if name == b"host":
                if host is not None:
                    raise MalformedRequest(_HOST_RULE)
                host = value
            elif name == b"content-length":
                if length is not None:
                    raise MalformedRequest(_LENGTH_RULE)
                length = value
            elif name == b"transfer-encoding":
                if coding is not None:
                    raise MalformedRequest(_CODING_RULE)
                coding = value
            elif name == b"authorization":
                if credential is not None:
                    # A proxy may have looked at the other one.
                    raise MalformedRequest("A request has one header Authorization.")
                credential = value
            elif value.lower() != b"100-continue":
                raise ExpectationFailed("The only expectation that is met here is 100-continue.")
    _check_host(minor, target, host)
    if coding is not None:
        if length is not None or coding.lower() != b"chunked" or minor == b"0":
            raise MalformedRequest(_CODING_RULE)
        return None
    if length is None:
        return 0
    if _LENGTH.fullmatch(length) is None:
        raise MalformedRequest(_LENGTH_RULE)
    return int(length)


@lru_cache(256)
def _is_host(value: bytes) -> bool:
    return _HOST.fullmatch(value) is not None


def _check_host(minor: bytes, target: bytes, host: bytes | None) -> None:
    if host is None:
        if minor == b"1":
            raise MalformedRequest(_HOST_RULE)
    elif not _is_host(host):
        raise MalformedRequest("The header Host is a name or an address, with a port or without.")
    if target.startswith(b"/"):
        return
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise MalformedRequest("The request's target is a path that begins with '/'.")
    if host is None or absolute[1].lower() != host.lower():
        raise MalformedRequest("The request's target and its header Host name different hosts.")


def check_method(raw: bytes) -> None:
    """CONNECT would turn the parser to another protocol; all other methods are the application's to judge."""
    if raw.startswith(b"CONNECT "):
        raise MethodRefused("This server is no proxy: CONNECT is refused.")


def without_upgrade(raw: bytes) -> bytes:
    """A head without its Upgrade fields: no other protocol is spoken here, and RFC 9110 lets us ignore the offer."""
    return b"\r\n".join(line for line in raw.split(b"\r\n") if line[:8].lower() != b"upgrade:")
