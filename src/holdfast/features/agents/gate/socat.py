"""Stands in for socat in a sandbox whose machine has none: `socat - UNIX-CONNECT:PATH` joins stdio and a socket.

It is copied into the sandbox as it is, so it needs nothing but the standard library.
"""

import os
import socket
import sys
import threading

_PIECE = 65_536


def _path(arguments: list[str]) -> str:
    if len(arguments) == 2 and arguments[0] in ("-", "STDIO") and arguments[1].upper().startswith("UNIX-CONNECT:"):
        return arguments[1].partition(":")[2]
    sys.exit("socat: this one understands only: - UNIX-CONNECT:PATH")


def _copy_in(there: socket.socket) -> None:
    try:
        while piece := os.read(0, _PIECE):
            there.sendall(piece)
        there.shutdown(socket.SHUT_WR)
    except OSError:
        # The other end is gone, which whoever reads it notices too.
        return


def main() -> None:
    """Copy both ways until the socket's end is closed."""
    path = _path(sys.argv[1:])
    there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        there.connect(path)
    except OSError as problem:
        sys.exit(f"socat: {path}: {problem.strerror}")
    threading.Thread(target=_copy_in, args=(there,), daemon=True).start()
    try:
        while piece := there.recv(_PIECE):
            while piece:
                piece = piece[os.write(1, piece) :]
    except OSError:
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
