"""Joins its own stdio and the sidecar's socket: what Holdfast runs in a sidecar to speak with it."""

import socket
import sys
import threading
from os import _exit, read, write

_PIECE = 65_536


def main() -> None:
    """Copy both ways until either end is closed."""
    there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    there.connect(sys.argv[1])
    threading.Thread(target=_copy_in, args=(there,), daemon=True).start()
    while piece := there.recv(_PIECE):
        while piece:
            piece = piece[write(1, piece) :]
    _exit(0)


def _copy_in(there: socket.socket) -> None:
    try:
        while piece := read(0, _PIECE):
            there.sendall(piece)
    finally:
        # Nobody writes here any more, so nobody reads either.
        _exit(0)


if __name__ == "__main__":
    main()
