"""Owns the process that embeds for all workers: started when one of them first connects, and again where it died."""

import os
import selectors
import socket
import subprocess
from pathlib import Path

from holdfast.engines.search.embedders.process import COMMAND, ENVIRONMENT

_END_SECONDS = 5.0


class EmbeddingHost:
    """The parent's part: it listens, so that workers can always connect, and the process accepts."""

    def __init__(self, path: Path, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._process: subprocess.Popen[bytes] | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._wait_for_workers()

    def start(self) -> None:
        """Somebody wants vectors."""
        self._selector.unregister(self._listener)
        file = self._listener.fileno()
        self._process = subprocess.Popen(  # noqa: S603 – our own module
            [*COMMAND, str(file)], stdin=subprocess.PIPE, pass_fds=[file], env={**os.environ, **ENVIRONMENT}
        )

    def look(self) -> None:
        """Notice that it has ended."""
        if self._process is not None and self._process.poll() is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None
            self._wait_for_workers()

    def close(self) -> None:
        """Let go of it, in a child of the parent that has nothing to do with it."""
        self._listener.close()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def end(self) -> None:
        """End it; nobody asks any more."""
        self.close()
        if self._process is None:
            return
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_for_workers(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, self)
