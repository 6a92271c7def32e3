"""Owns the life of a server: lock, migrate, listen, say so, serve, drain, close."""

import asyncio
import contextlib
import gc
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import uvicorn

from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.features.identity.service import local_principal
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.server.background import background
from holdfast.server.engines import beside_requests
from holdfast.server.routes import build_gate
from holdfast.server.start import Start, first_key, found_organization, lock_data_directory, open_parts
from holdfast.storage.database import StartFailed
from holdfast.storage.lock import DataDirectoryLock
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.protocol.connections import Connections, OpenElsewhere
from holdfast.surfaces.http.protocol.front import Front
from holdfast.surfaces.http.telemetry.logs import configure_logs

COLLECT_AFTER = 10_000
"""New objects between two looks for garbage. 64 requests at once are thousands, and nearly none of them is garbage."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What a started server says of itself."""

    url: str
    mcp_url: str
    keystone_url: str
    project_id: str
    workspace_id: str
    api_key: str | None
    sign_in_url: str | None


async def serve(settings: Settings, announce: Callable[[Ready], None]) -> None:
    """Serve until SIGTERM or SIGINT, then let streams finish and close."""
    configure_logs(settings.log_level)
    listener = listen(settings.host, settings.port)
    with contextlib.closing(listener), locked(settings) as lock:
        async with open_parts(settings, given=beside_requests(settings)) as parts, background(parts):
            start = await found_organization(parts)
            url = settings.url_at(listener.getsockname()[1])
            gate = build_gate(settings, parts, url)
            gate.on_ready.append(keep_loaded)
            # The key comes last: a start that fails before it says so must not leave one that nobody has seen.
            ready = await ready_of(parts, start, url)
            if lock is not None:
                lock.tell(url)
            await _run(settings, gate, listener, lambda: announce(ready))


async def ready_of(parts: Parts, start: Start, url: str) -> Ready:
    """What is said of the server, with a way in where that may be printed."""
    sign_in_url = None
    if parts[Settings].sign_in_at_start:
        start = await first_key(parts, start)
        link = await parts[SignIn].new_link(local_principal(start.organization_id), start.owner_id)
        sign_in_url = f"{url}/sign-in?link={link.secret}"
    return Ready(
        url=url,
        mcp_url=f"{url}/{start.project_id}/v1/mcp",
        keystone_url=f"{url}/api/mcp",
        project_id=start.project_id,
        workspace_id=start.workspace_id,
        api_key=start.api_key,
        sign_in_url=sign_in_url,
    )


async def keep_loaded() -> None:
    """Look for garbage among what comes from now on: looking through all that was loaded took a fifth of a request."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


async def _run(settings: Settings, gate: Gate, listener: socket.socket, announce: Callable[[], None]) -> None:
    await AnnouncingServer(configuration(settings, gate), announce, gate).serve(sockets=[listener])


def configuration(settings: Settings, gate: Gate, elsewhere: OpenElsewhere | None = None) -> uvicorn.Config:
    """How uvicorn serves the gate: behind our front, which bounds and checks bytes before they are parsed."""
    connections = Connections(
        most=_most_connections(settings.max_connections),
        most_per_address=settings.max_connections_per_address,
        proxies=gate.proxies,
        elsewhere=elsewhere,
    )
    front = Front(
        connections,
        head_seconds=settings.header_timeout_seconds,
        body_seconds=settings.body_timeout_seconds,
        metrics=gate.metrics,
    )
    return uvicorn.Config(
        gate,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=front.protocol(),
        ws="none",
        # The gate believes the proxies that the operator named; uvicorn would believe any on this machine.
        proxy_headers=False,
        timeout_keep_alive=settings.idle_timeout_seconds,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
        server_header=False,
        date_header=True,
    )


def _most_connections(wanted: int) -> int:
    """As many as were asked for, or as the system's limit on open files leaves room for beside our own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * 4 // 3 + 256
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        # A system may allow less than it says; then what it gave before still holds.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, max(1, soft * 3 // 4))


class AnnouncingServer(uvicorn.Server):
    """Says when it listens, and ends on a signal without raising it again, so that we close in order."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], gate: Gate) -> None:
        super().__init__(config)
        self._announce = announce
        self._gate = gate
        self._loading: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()
            self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        """Load what takes long, one after the other; a server that cannot load all of itself ends."""
        try:
            for load in self._gate.on_ready:
                await load()
        except BaseException:
            self.should_exit = True
            raise

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            if self._loading is not None:
                await _end(self._loading)
        finally:
            for stop in self._gate.on_stop:
                await stop()
            await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


async def _end(loading: "asyncio.Task[None]") -> None:
    """Let go of what is still being loaded; if it failed, that is why the server ends."""
    loading.cancel()
    await asyncio.wait({loading})
    if not loading.cancelled():
        loading.result()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as problem:
        listener.close()
        raise StartFailed(
            f"Port {port} on {host} cannot be used ({problem.strerror}); free it, or choose another with --port."
        ) from None
    listener.listen(2048)
    listener.setblocking(False)
    return listener


@contextlib.contextmanager
def locked(settings: Settings) -> Iterator[DataDirectoryLock | None]:
    """Keep the data directory of the embedded store to this server."""
    lock = lock_data_directory(settings)
    try:
        yield lock
    finally:
        if lock is not None:
            lock.release()
