"""Owns opening a session's gate: everything checked first, then its sockets, its servers, and their end."""

import asyncio
import logging
import os
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from holdfast.core.errors import Conflict, FieldError, HoldfastError
from holdfast.engines.mcp_client.pool import ConnectionPool
from holdfast.engines.runners.base import ServerEntry
from holdfast.engines.runtime.base import Mounted
from holdfast.features.agents.gate.attached import AttachedParts, AttachedServer
from holdfast.features.agents.gate.base import PROGRAMS, SOCKETS, FrozenAttachment, GatedSession, OpenGate
from holdfast.features.agents.gate.sockets import listening
from holdfast.features.agents.gate.toolset import Toolset
from holdfast.features.catalog import store as catalog_store
from holdfast.features.catalog.servers.connections import ServerStart, ServerStarts
from holdfast.features.execution.model import ToolHeldBack
from holdfast.features.secrets.masking import SecretMask
from holdfast.features.secrets.references import referred
from holdfast.storage.database import Tx

BUILT_IN = "x1agent"
_SYSTEM_PROGRAMS = ("/usr/local/bin", "/usr/bin", "/bin")
_NEVER_IDLE = 1e9

_log = logging.getLogger(__name__)


class AttachmentBroken(Conflict):
    """What is attached to the agent cannot be used now; nothing was started, and the fields say why."""

    code = "attachment_broken"


@dataclass(frozen=True, slots=True)
class _Ready:
    attachment: FrozenAttachment
    start: ServerStart


class Gates:
    """Opens gates, each with servers of its own."""

    def __init__(
        self,
        attached: AttachedParts,
        starts: ServerStarts,
        built_in: Callable[[GatedSession, SecretMask], Toolset],
    ) -> None:
        self._attached = attached
        self._starts = starts
        self._built_in = built_in

    @asynccontextmanager
    async def open(self, session: GatedSession, directory: Path) -> AsyncIterator[OpenGate]:
        """Serve a session's sockets in a directory of ours while somebody is in here; its servers end with it."""
        ready = await self._attached.database.read(lambda tx: self._ready(tx, session))
        mask = SecretMask([*_secrets(ready), *session.secrets])
        # A pool of its own: no other session's calls reach these servers, and none of them is stopped for being idle.
        pool = ConnectionPool(most=max(1, len(ready)), idle_seconds=_NEVER_IDLE)
        servers = [AttachedServer(self._attached, session, each.attachment, each.start, pool, mask) for each in ready]
        toolsets: Sequence[Toolset] = [*servers, self._built_in(session, mask)]
        mounts = await asyncio.to_thread(_programs, directory)
        connections = self._attached.connections
        companions = [await connections.spec(each.start) for each in ready if each.start.entry.spec.shape != "remote"]
        try:
            async with listening(session.id, directory / "mcp", toolsets):
                warming = asyncio.create_task(_warm(session, servers))
                try:
                    yield OpenGate(
                        servers={each.name: _entry(each.name) for each in toolsets},
                        mounts=(Mounted(directory / "mcp", SOCKETS), *mounts),
                        companions=tuple(companions),
                    )
                finally:
                    warming.cancel()
                    with suppress(asyncio.CancelledError):
                        await warming
        finally:
            await pool.close()

    def _ready(self, tx: Tx, session: GatedSession) -> list[_Ready]:
        """What each attachment's server starts with; AttachmentBroken with everything that is wrong."""
        found: list[_Ready] = []
        wrong: list[FieldError] = []
        for attachment in session.attachments:
            try:
                start = replace(self._start(tx, session, attachment), beside=session.id)
                found.append(_Ready(attachment, start))
            except HoldfastError as problem:
                where = f"attachments.{attachment.name}"
                fields = [FieldError(f"{where}.{each.field}", each.message) for each in problem.fields]
                wrong += fields or [FieldError(where, problem.message)]
        if wrong:
            told = "; ".join(f"{each.field}: {each.message}" for each in wrong)
            raise AttachmentBroken(f"The session was not started. {told}", fields=wrong)
        return found

    def _start(self, tx: Tx, session: GatedSession, attachment: FrozenAttachment) -> ServerStart:
        entry = catalog_store.find(tx, session.workspace_id, attachment.name)
        if entry is None or entry.id != attachment.server_id:
            raise Conflict(f"the server {attachment.name} was removed from the catalog")
        if entry.revision != attachment.revision:
            raise Conflict(f"the server {attachment.name} was changed since; start a new session")
        if not entry.spec.enabled:
            raise Conflict(f"the server {attachment.name} is switched off")
        for name, digest in attachment.tools.items():
            pin = catalog_store.tool_of(tx, entry.id, name)
            if pin is None or pin.state != "active" or pin.digest != digest:
                raise ToolHeldBack(
                    "a person has to look at it in the catalog first",
                    fields=[FieldError(f"tools.{name}", "it is in quarantine, gone, or changed since it was attached")],
                )
        return self._starts.attached(tx, entry, attachment.env, session.user_id)


def _secrets(ready: Sequence[_Ready]) -> list[tuple[str, str]]:
    """The values that stand behind references, by the secrets' names."""
    found = []
    for each in ready:
        headers = each.start.entry.spec.headers
        for said, resolved in ((each.attachment.env, each.start.env), (headers, each.start.headers)):
            for name, value in said.items():
                secret = referred(value)
                if secret is not None:
                    found.append((secret, resolved[name]))
    return found


async def _warm(session: GatedSession, servers: Sequence[AttachedServer]) -> None:
    """Start all servers at once; one that does not start says so again to whoever calls it."""
    done = await asyncio.gather(*(server.warm() for server in servers), return_exceptions=True)
    for server, problem in zip(servers, done, strict=True):
        if isinstance(problem, HoldfastError):
            _log.info("session %s: %s did not start yet (%s)", session.id, server.name, problem.code)
        elif isinstance(problem, Exception):
            _log.error("session %s: starting %s failed", session.id, server.name, exc_info=problem)


def _entry(name: str) -> ServerEntry:
    return ServerEntry("socat", ("-", f"UNIX-CONNECT:{SOCKETS}/{name}.sock"))


def _programs(directory: Path) -> tuple[Mounted, ...]:
    """What the entries' command needs where this machine has no socat: ours, and the Python that runs it."""
    if any(os.access(f"{place}/socat", os.X_OK) for place in _SYSTEM_PROGRAMS):
        return ()
    return stand_in(directory / "bin")


def stand_in(place: Path) -> tuple[Mounted, ...]:
    """Our own socat in a directory, and what it needs mounted."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    python = Path(sys.executable).resolve()
    text = (resources.files("holdfast.features.agents.gate") / "socat.py").read_text()
    program = place / "socat"
    program.write_text(f"#!{python} -IS\n{text}")
    for path, mode in ((place, 0o755), (program, 0o755)):
        path.chmod(stat.S_IMODE(mode))
    mounts = (Mounted(place, PROGRAMS, in_images=True),)
    if python.is_relative_to("/usr"):
        return mounts
    base = Path(sys.base_prefix).resolve()
    return (*mounts, Mounted(base, str(base), in_images=True))
