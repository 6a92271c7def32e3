"""Owns one of several processes that serve together: it takes connections from its parent, and ends with it."""

import asyncio
import json
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

import uvicorn
import uvloop

from holdfast.core.errors import HoldfastError
from holdfast.core.settings import Settings
from holdfast.server.background import background
from holdfast.server.engines import beside_requests
from holdfast.server.lifecycle import AnnouncingServer, configuration, keep_loaded, ready_of
from holdfast.server.routes import build_gate
from holdfast.server.start import found_organization, open_parts
from holdfast.server.workers.channel import ANNOUNCE, ANNOUNCED, CONNECTION, FAILED, READY, TAKEN, Channel
from holdfast.server.workers.siblings import Siblings
from holdfast.server.workers.tally import OpenHere
from holdfast.storage.lock import Ownership
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.telemetry.logs import configure_logs

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workplace:
    """What the parent prepared for one worker."""

    settings: Settings
    url: str
    place: int
    channel: Channel
    open_here: OpenHere
    streams_here: OpenHere
    siblings: Siblings


def work(workplace: Workplace) -> int:
    """Serve until told to stop; the process's exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    configure_logs(workplace.settings.log_level)
    try:
        uvloop.run(_serve(workplace))
    except HoldfastError as problem:
        workplace.channel.say(FAILED, problem.message)
        return 1
    except KeyboardInterrupt:
        return 0
    except BaseException as problem:
        _log.exception("the worker failed", extra={"worker": workplace.place})
        workplace.channel.say(FAILED, f"A worker failed ({type(problem).__name__}); see its messages above.")
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


async def _serve(workplace: Workplace) -> None:
    settings = workplace.settings
    owner = Ownership(settings.data_dir.expanduser()) if settings.database_url is None else None
    given = beside_requests(settings, workplace.siblings.embedder)
    async with open_parts(settings, given=given) as parts, background(parts, owner):
        start = await found_organization(parts)
        gate = build_gate(settings, parts, workplace.url, workplace.streams_here)
        gate.on_ready.append(keep_loaded)
        gate.metrics.gauge("workers_serving", "Workers that serve").set(1)
        gate.metrics.gauge("workers_background", "Workers that do the background work").set_function(
            lambda: float(owner is None or owner.held)
        )

        async def announce() -> None:
            # The key comes last: a start that fails before it is told of must not leave one that nobody has seen.
            ready = await ready_of(parts, start, workplace.url)
            workplace.channel.say(ANNOUNCED, json.dumps(asdict(ready)))

        async with workplace.siblings.answering(workplace.place, gate.metrics):
            config = configuration(settings, gate, workplace.open_here)
            await _TakingServer(config, workplace.channel, gate, announce).serve(sockets=[])


class _TakingServer(AnnouncingServer):
    """Serves the connections that the parent accepted."""

    def __init__(
        self, config: uvicorn.Config, channel: Channel, gate: Gate, announce: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(config, lambda: None, gate)
        self._channel = channel
        self._told = announce
        self._taken = 0
        self._tasks: set[asyncio.Future[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            asyncio.get_running_loop().add_reader(self._channel.fileno(), self._hear)
            self._channel.say(READY)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hear()
        asyncio.get_running_loop().remove_reader(self._channel.fileno())
        await super().shutdown(sockets)

    def _hear(self) -> None:
        said = self._channel.heard()
        if said is None:
            # The parent was killed: nobody hands over connections any more, and nobody would start this worker again.
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self.should_exit = True
            return
        before = self._taken
        for one in said:
            if one.kind == CONNECTION and one.connection is not None:
                self._taken += 1
                self._begin(self._take(one.connection))
            elif one.kind == ANNOUNCE:
                self._begin(self._told())
        if self._taken != before:
            self._channel.say(TAKEN, str(self._taken))

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, connection: socket.socket) -> None:
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )

        connection.setblocking(False)
        # What is answered leaves at once, whatever the loop does by itself.
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await loop.connect_accepted_socket(protocol, connection)
        except OSError:
            connection.close()
