"""Joins its own stdio and the sidecar's socket: what Holdfast runs in a sidecar to speak with it."""

import socket
import sys
import threading
import time
from os import _exit, read, write

_PIECE = 65_536
_SECONDS = 5.0


def main() -> None:
    """Copy both ways until either end is closed."""
    there = _connected(sys.argv[1])
    threading.Thread(target=_copy_in, args=(there,), daemon=True).start()
    while piece := there.recv(_PIECE):
        while piece:
            piece = piece[write(1, piece) :]
    _exit(0)


def _connected(path: str) -> socket.socket:
    """A connection to the socket; a sidecar that has just begun may not have it yet."""
    deadline = time.monotonic() + _SECONDS
    while True:
        there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            there.connect(path)
            return there
        except OSError:
            there.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _copy_in(there: socket.socket) -> None:
    try:
        while piece := read(0, _PIECE):
            there.sendall(piece)
    finally:
        # Nobody writes here any more, so nobody reads either.
        _exit(0)


if __name__ == "__main__":
    main()
