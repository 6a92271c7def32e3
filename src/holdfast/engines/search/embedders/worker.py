"""Owns the process that holds the model: texts come in, vectors go out, and who waits comes before the backlog."""

import json
import os
import signal
import socket
import struct
import sys
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import BinaryIO

from holdfast.engines.search.embedders.minilm import MiniLmModel

FRAME = struct.Struct("<IBI")
"""Before each message: its number, its kind, and how many bytes follow."""
WAITED_FOR, BACKLOG = 0, 1
"""Kinds of requests."""
VECTORS, FAILED = 0, 1
"""Kinds of answers."""
LANES = min(2, os.cpu_count() or 1)
"""How many texts of a kind are embedded at once: each run uses one core, which wastes less than sharing several."""
BACKLOG_NICENESS = 15


def main() -> None:
    """Answer until nobody asks any more: the pipe closes however the server ends."""
    # A signal to the whole group is the server's to handle; it may still need vectors on its way out.
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    if len(sys.argv) > 1:
        _serve_all(socket.socket(fileno=int(sys.argv[1])))
        os._exit(0)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not end up among the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _serve(_Lanes(), sys.stdin.buffer, answers)
    # Threads may be in the middle of the backlog, which nobody wants now.
    os._exit(0)


class _Lanes:
    """The model, and who is embedding with it."""

    def __init__(self) -> None:
        self.model = MiniLmModel(threads=1)
        self.of_kind: dict[int, Executor] = {
            WAITED_FOR: ThreadPoolExecutor(LANES, "waited-for"),
            BACKLOG: ThreadPoolExecutor(LANES, "backlog", initializer=_step_back),
        }


def _serve_all(listener: socket.socket) -> None:
    """Answer everybody who connects, until the parent of all workers closes the pipe."""
    lanes = _Lanes()
    listener.setblocking(True)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            streams = connection.makefile("rb"), connection.makefile("wb")
            connection.close()
            threading.Thread(target=_serve, args=(lanes, *streams), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.buffer.read()


def _serve(lanes: _Lanes, requests: BinaryIO, answers: BinaryIO) -> None:
    writing = threading.Lock()

    def answer(number: int, body: bytes) -> None:
        try:
            kind, told = VECTORS, lanes.model.run(json.loads(body)).tobytes()
        except Exception as problem:  # Whoever asked is told; the process goes on for the others.
            kind, told = FAILED, f"{type(problem).__name__}: {problem}"[:500].encode()
        # A worker may be gone by now.
        with writing, suppress(ConnectionError, ValueError):
            answers.write(FRAME.pack(number, kind, len(told)) + told)
            answers.flush()

    while len(head := requests.read(FRAME.size)) == FRAME.size:
        number, kind, length = FRAME.unpack(head)
        lanes.of_kind[kind].submit(answer, number, requests.read(length))


def _step_back() -> None:
    """Let everybody else go first. On Linux a thread has a priority of its own; elsewhere it stays as it is."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKLOG_NICENESS)


if __name__ == "__main__":
    main()
