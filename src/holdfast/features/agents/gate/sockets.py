"""Owns the sockets of one session: a directory of its own, one socket for each toolset, and who may connect."""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.engines.runtime.process import is_own_user
from holdfast.features.agents.gate.conversation import GateConversation
from holdfast.features.agents.gate.pace import SessionPace
from holdfast.features.agents.gate.toolset import Toolset

MOST_CLIENTS = 16
"""Clients of one socket at once; an agent has one, its children some more."""
_BACKLOG = 16
_CREDENTIALS = struct.Struct("3i")

_log = logging.getLogger(__name__)


@asynccontextmanager
async def listening(session_id: str, directory: Path, toolsets: Sequence[Toolset]) -> AsyncIterator[None]:
    """Serve each toolset at `<directory>/<name>.sock`; when this is left, sockets, clients and calls are gone."""
    _prepare(directory)
    pace = SessionPace()
    sockets = [_Socket(session_id, toolset, pace) for toolset in toolsets]
    try:
        with _opened(directory) as descriptor:
            for each in sockets:
                await each.open(descriptor)
        yield
    finally:
        for each in sockets:
            await each.close()
        shutil.rmtree(directory, ignore_errors=True)


def _prepare(directory: Path) -> None:
    if directory.exists():
        # What an earlier process of ours left when it was killed.
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    directory.chmod(_modes()[0])


class _Socket:
    """One socket and those who are connected to it."""

    def __init__(self, session_id: str, toolset: Toolset, pace: SessionPace) -> None:
        self._session_id = session_id
        self._toolset = toolset
        self._pace = pace
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self, directory: int) -> None:
        name = f"{self._toolset.name}.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            # An address of a socket has 107 bytes; a data directory may have more.
            listener.bind(f"/proc/self/fd/{directory}/{name}")
            os.chmod(name, _modes()[1], dir_fd=directory)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            self._server = await asyncio.start_unix_server(self._accepted, sock=listener)
        except BaseException:
            listener.close()
            raise

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        why = self._why_not(writer)
        if why is not None:
            _log.warning("session %s: %s refuses a client: %s", self._session_id, self._toolset.name, why)
            writer.transport.abort()
            return
        conversation = GateConversation(self._session_id, self._toolset, reader, writer, self._pace)
        task = asyncio.create_task(conversation.run())
        self._clients.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: "asyncio.Task[None]") -> None:
        self._clients.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("a conversation of session %s failed", self._session_id, exc_info=problem)

    def _why_not(self, writer: asyncio.StreamWriter) -> str | None:
        if len(self._clients) >= MOST_CLIENTS:
            return f"{MOST_CLIENTS} are connected"
        _, uid, _ = peer_of(writer)
        return None if is_own_user(uid) else f"user {uid} is no sandbox of ours"


def _modes() -> tuple[int, int]:
    """Of the directory and its sockets. Where we are root the program in the sandbox is another user, not known yet."""
    return (0o755, 0o666) if os.geteuid() == 0 else (0o700, 0o600)


def peer_of(writer: asyncio.StreamWriter) -> tuple[int, int, int]:
    """The process, user and group at the other end, as the kernel saw them when they connected."""
    descriptor = writer.get_extra_info("socket").fileno()
    with contextlib.closing(socket.socket(fileno=os.dup(descriptor))) as peer:
        raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, group = _CREDENTIALS.unpack(raw)
    return process, user, group


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
