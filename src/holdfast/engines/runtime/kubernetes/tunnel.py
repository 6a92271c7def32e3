"""Owns our way into one pod: we dial its sidecar through the API server, again where that breaks."""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress

from holdfast.core.errors import UpstreamFailed
from holdfast.engines.runtime.kubernetes.cluster.api import ApiProblem, ClusterApi, ClusterUnreachable, Object
from holdfast.engines.runtime.kubernetes.cluster.websocket import ExecStream
from holdfast.engines.runtime.kubernetes.inside.link import LinkBroken, PodLink, PodStream, TakenOver
from holdfast.engines.runtime.kubernetes.names import CONTROL, IMAGE_PLACE, PYTHON

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_LOST_SECONDS = 120.0
_CALM_SECONDS = 5.0
_REFUSED_SECONDS = 15.0
"""An API server that has just begun refuses everybody for a moment: it does not know yet who may do what."""

_log = logging.getLogger(__name__)


class PodLost(UpstreamFailed):
    """The way into a pod is gone for good; the message says why."""

    code = "pod_lost"


class PodTunnel:
    """One holder of one pod."""

    def __init__(
        self, api: ClusterApi, namespace: str, pod: str, accept: Callable[[PodStream], Awaitable[None]]
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._pod = pod
        self._link = PodLink(first=True, holder=uuid.uuid4().hex, accept=accept)
        self._ready = asyncio.Event()
        self._hurried = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self.problem: str | None = None
        """Why it is lost, once it is."""

    def hurry(self) -> None:
        """Dial at once: it may answer now."""
        self._hurried.set()

    async def open(self) -> None:
        """Dial, and return when the sidecar answers; PodLost where it does not."""
        self._keeping = asyncio.create_task(self._keep())
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._keeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not self._ready.is_set():
            raise PodLost(self.problem or "The pod's sidecar does not answer.")

    def lose(self, why: str) -> None:
        """The pod is gone: nothing is dialled any more, and every stream ends."""
        self.problem = self.problem or why
        self._link.end()
        if self._keeping is not None:
            self._keeping.cancel()

    async def close(self) -> None:
        """Hang up."""
        self.lose("It was closed.")
        if self._keeping is not None:
            await asyncio.gather(self._keeping, return_exceptions=True)

    def channel(self, order: Object) -> PodStream:
        """A stream to something in the pod."""
        try:
            return self._link.open(order)
        except LinkBroken:
            raise PodLost(self.problem or "The way into the pod is closed.") from None

    async def ask(self, order: Object) -> None:
        """Have the sidecar do something; PodLost where it can't."""
        answer = json.loads(await self.channel(order).read_all() or b"{}")
        if not answer.get("ok"):
            raise PodLost(f"The sidecar could not do what it was asked: {answer.get('problem') or self.problem}.")

    async def _keep(self) -> None:
        try:
            await self._dial_again()
        finally:
            # However it came: nobody waits for a pod that nobody dials.
            self._link.end()

    async def _dial_again(self) -> None:
        pause, broken_at = _FIRST_PAUSE, time.monotonic()
        while self.problem is None:
            began = time.monotonic()
            try:
                why = await self._dial()
            except TakenOver:
                self.problem = "Another process of Holdfast goes on with it."
                break
            except (ApiProblem, ClusterUnreachable) as problem:
                # A container that is not up yet is a refusal too, and so is an API server that restarts.
                why = problem.message
                is_new = self._ready.is_set() and time.monotonic() - broken_at < _REFUSED_SECONDS
                if isinstance(problem, ApiProblem) and self._is_final(problem, is_new):
                    self.problem = problem.message
                    break
            now = time.monotonic()
            if now - began > _CALM_SECONDS:
                pause, broken_at = _FIRST_PAUSE, now
            if now - broken_at > _LOST_SECONDS:
                self.problem = f"Its pod could not be reached for {_LOST_SECONDS:g} seconds: {why}"
                break
            _log.debug("the way to pod %s broke (%s); dialling again", self._pod, why)
            self._hurried.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._hurried.wait()
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _dial(self) -> str:
        """Hold one connection until it breaks; why it did."""
        command = (PYTHON, "-I", "-S", "-B", f"{IMAGE_PLACE}/joint.py", CONTROL)
        stream = await self._api.exec(self._namespace, self._pod, "sidecar", command)
        try:
            await self._link.serve(self._read_of(stream), stream.write)
        except (LinkBroken, OSError, ValueError, KeyError) as problem:
            return f"{problem} {stream.words}".strip()
        finally:
            await stream.close()
        return stream.words or "the connection ended"

    def _read_of(self, stream: ExecStream) -> Callable[[], Awaitable[bytes]]:
        async def read() -> bytes:
            piece = await stream.read()
            if piece:
                self._ready.set()
            return piece

        return read

    def _is_final(self, problem: ApiProblem, is_new: bool) -> bool:
        """Whether dialling again is of no use."""
        if problem.status_code in (401, 403):
            return not is_new
        if problem.status_code == 406:
            return True
        # A kubelet that has just begun knows neither its pods nor their containers; its 404 is none of the API
        # server's. That of a node that is gone is, and names the node: it may come back, or its pods go too.
        return problem.reason == "NotFound" and f'"{self._pod}"' in problem.said
