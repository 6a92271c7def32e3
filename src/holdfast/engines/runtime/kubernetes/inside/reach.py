"""Tries to reach an address as whoever is in the pod could: what Holdfast runs in a sidecar to look at the network.

reach.py HOST PORT    prints `reached` or `closed`
"""

import socket
import sys

_SECONDS = 3.0


def main() -> None:
    """Connect, and say no more than whether that went well."""
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), _SECONDS).close()
    except OSError:
        sys.stdout.write("closed\n")
    else:
        sys.stdout.write("reached\n")


if __name__ == "__main__":
    main()
