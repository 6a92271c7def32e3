"""Owns what the parent and a worker say to each other: connections, and a few words, over a pair of sockets."""

import socket
from contextlib import suppress
from dataclasses import dataclass

_MOST_BYTES = 65_536
_MOST_FILES = 1

CONNECTION, ANNOUNCE = b"c", b"a"
"""What the parent says: here is a connection; tell what there is to announce."""
READY, FAILED, ANNOUNCED, TAKEN = b"r", b"f", b"n", b"t"
"""What a worker says: it serves; it cannot, and why; what is to be announced; how many connections it took in all."""


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """One message: its kind, its text, and the connection that came with it."""

    kind: bytes
    text: str
    connection: socket.socket | None = None


class Channel:
    """One end. Messages keep their borders, and nobody waits for the other side."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    def fileno(self) -> int:
        return self._end.fileno()

    def say(self, kind: bytes, text: str = "") -> bool:
        """Send a message; False where the other side does not listen any more, or not fast enough."""
        try:
            self._end.send(kind + text.encode())
        except (BlockingIOError, ConnectionError):
            return False
        return True

    def hand(self, connection: socket.socket) -> bool:
        """Give the other side a connection; False where it cannot take it."""
        try:
            socket.send_fds(self._end, [CONNECTION], [connection.fileno()])
        except (BlockingIOError, ConnectionError):
            return False
        return True

    def heard(self) -> list[ChannelMessage] | None:
        """What was said since; None once the other side is gone."""
        found: list[ChannelMessage] = []
        with suppress(BlockingIOError):
            while True:
                try:
                    data, files, _, _ = socket.recv_fds(self._end, _MOST_BYTES, _MOST_FILES)
                except ConnectionError:
                    return found or None
                if not data:
                    return found or None
                connection = socket.socket(fileno=files[0]) if files else None
                found.append(ChannelMessage(data[:1], data[1:].decode(), connection))
        return found

    def close(self) -> None:
        """Let go of this end."""
        self._end.close()


def channels() -> tuple[Channel, Channel]:
    """The parent's end and the worker's."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(one), Channel(other)
