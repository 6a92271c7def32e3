"""Connects its streams with a Unix socket, as an agent's entry for an MCP server does. Standard library only."""

import os
import socket
import sys
import threading


def main() -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(sys.argv[1])
        threading.Thread(target=_upward, args=(there,), daemon=True).start()
        while piece := there.recv(65_536):
            while piece:
                piece = piece[os.write(1, piece) :]
    os._exit(0)


def _upward(there: socket.socket) -> None:
    while piece := os.read(0, 65_536):
        there.sendall(piece)
    there.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
