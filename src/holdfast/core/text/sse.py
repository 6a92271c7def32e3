"""Owns how one server-sent event is written, and the comment that keeps a quiet stream open."""

PING = b": ping\n\n"
PING_SECONDS = 15.0
"""Proxies close a stream that is quiet for longer."""


def framed(data: bytes, *, event: str = "", id: int | None = None, retry_millis: int | None = None) -> bytes:
    """One event; `data` is a single line."""
    place = b"" if id is None else b"id: %d\n" % id
    retry = b"" if retry_millis is None else b"retry: %d\n" % retry_millis
    name = b"event: %b\n" % event.encode() if event else b""
    return b"%b%b%bdata: %b\n\n" % (place, retry, name, data)
