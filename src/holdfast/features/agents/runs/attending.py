"""Owns watching over an agent at work: what it tells is kept, what it is told is passed on, each limit is held."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError, Unauthenticated
from holdfast.core.text import jsontext
from holdfast.core.text.counting import many
from holdfast.engines.events.bus import EventBus
from holdfast.engines.runners.base import (
    CanResume,
    Driving,
    RunnerEvent,
    Said,
    Thought,
    ToolEnded,
    ToolStarted,
    TurnOver,
)
from holdfast.engines.runtime.base import RunEnding, Running
from holdfast.features.agents.gate.pace import CALL_COST, SessionPace
from holdfast.features.agents.runs.live import LiveSession
from holdfast.features.agents.runs.places import ENDLESS, SessionPlace, used_bytes
from holdfast.features.agents.sessions import store
from holdfast.features.agents.sessions.base import SessionBase
from holdfast.features.agents.sessions.model import AgentSession, LimitReached, SessionState
from holdfast.features.agents.sessions.telling import TOPIC, bounded
from holdfast.features.identity.standing import as_it_stands
from holdfast.features.secrets.masking import SecretMask
from holdfast.storage.database import Tx

STOP_SECONDS = 5.0
"""How long an agent that is asked to stop may take before it is made to."""
_LOOK_SECONDS = 1.0
_DISK_SECONDS, _DISK_RESTS = 2.0, 10
_SAID_SECONDS = 0.2
_LAST_WORDS = 10_000
WAIT_MILLIS = 7 * 24 * 3_600_000
_LIMITS = {
    "memory": "memory_mb",
    "processes": "processes",
    "time": "minutes",
    "processor": "minutes",
    "disk": "disk_mb",
}


@dataclass(frozen=True, slots=True)
class SessionEnding:
    """How a session ended, before its result is looked at."""

    state: SessionState
    error: Mapping[str, Any] | None = None
    text: str | None = None
    """The agent's last words."""


def failed(code: str, message: str, **more: Any) -> SessionEnding:
    """An end that nobody wanted."""
    return SessionEnding("failed", {"code": code, "message": message[:2_000], **more})


def at_limit(problem: LimitReached) -> SessionEnding:
    """An end by one of the session's limits."""
    return failed("limit_reached", problem.said, limit=problem.limit)


@dataclass(slots=True)
class Attended:
    """What is watched: an agent's process and the conversation with it."""

    session: AgentSession
    driving: Driving
    running: Running
    live: LiveSession
    place: SessionPlace
    mask: SecretMask
    """What is not to be read in what it tells."""
    disk_before: int = 0
    """What its home and worktree held before it began."""


class Attending:
    """Watches over one agent until it is over."""

    def __init__(
        self, base: SessionBase, events: EventBus, clock: Clock, attended: Attended, *, quiet_seconds: float
    ) -> None:
        self._base = base
        self._events = events
        self._clock = clock
        self._attended = attended
        self._session = attended.session
        self._quiet_seconds = quiet_seconds
        self._saying = _Pieces("text", attended.mask)
        self._thinking = _Pieces("thought", attended.mask)
        self._last_text = ""
        self._turn: TurnOver | None = None
        self._turn_over = asyncio.Event()
        self._disk_at = 0.0
        self._pace = SessionPace()
        self._delivering = asyncio.Lock()

    async def until_over(self) -> SessionEnding:
        """Keep what it tells and tell it what it is told, until one of the ways in which a session ends."""
        listening = asyncio.create_task(self._listen())
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait((listening, watching), return_when=asyncio.FIRST_COMPLETED)
            if watching.done() and (ending := watching.result()) is not None:
                if ending.state != "completed":
                    await self._interrupted()
                return self._readable(ending)
            return self._readable(await listening)
        finally:
            for task in (listening, watching):
                task.cancel()
                with suppress(asyncio.CancelledError, HoldfastError):
                    await task
            await self._flush(whole=True)

    # What it tells.

    async def _listen(self) -> SessionEnding:
        try:
            async for event in self._attended.driving.events():
                self._attended.live.touch()
                await self._keep(event)
                if isinstance(event, TurnOver) and (ending := await self._turned(event)) is not None:
                    return ending
        except HoldfastError as problem:
            ended = await self._process_ending(grace_seconds=1)
            return self._by_ending(ended) or failed(problem.code, problem.message)
        ended = await self._process_ending(grace_seconds=5)
        return self._by_ending(ended) or failed("agent_ended", self._last_words(ended))

    async def _keep(self, event: RunnerEvent) -> None:
        match event:
            case Said(text, whole):
                await self._say(self._saying, text, whole=whole)
            case Thought(text):
                await self._say(self._thinking, text, whole=False)
            case ToolStarted(call_id, name, arguments):
                await self._emit("tool_started", {"call_id": call_id, "name": name, "arguments": arguments})
            case ToolEnded(call_id, ok, text):
                await self._emit("tool_ended", {"call_id": call_id, "ok": ok, "text": text})
            case CanResume(token):
                kept = {"resume_token": self._attended.mask.text(token)}
                await self._base.database.write(lambda tx: store.set_values(tx, self._session.id, kept))
            case TurnOver(reason, text):
                if text.strip():
                    self._last_text = text
                await self._emit("turn_over", {"reason": reason, "text": text})

    async def _say(self, pieces: "_Pieces", text: str, *, whole: bool) -> None:
        """Pieces of a paragraph become events now and then, not each for itself."""
        await self._flush_one(self._thinking if pieces is self._saying else self._saying, whole=True)
        pieces.add(text)
        if whole or pieces.are_due:
            await self._flush_one(pieces, whole=whole)

    async def _flush(self, *, whole: bool) -> None:
        for pieces in (self._thinking, self._saying):
            await self._flush_one(pieces, whole=whole)

    async def _flush_one(self, pieces: "_Pieces", *, whole: bool) -> None:
        is_open = pieces.paragraph != ""
        text = pieces.take(whole=whole)
        if pieces is self._saying and pieces.paragraph:
            self._last_text = pieces.paragraph
        # The end of a paragraph is told too, where all of its text was before.
        if text or (whole and is_open):
            await self._emit_now(pieces.kind, {"text": text, "whole": whole})
        if whole:
            pieces.paragraph = ""

    async def _emit(self, kind: str, data: Mapping[str, Any]) -> None:
        await self._flush(whole=True)
        await self._emit_now(kind, data)

    async def _emit_now(self, kind: str, data: Mapping[str, Any]) -> None:
        shown = bounded(self._attended.mask.value(data))
        self._attended.live.keep(len(jsontext.dumps(shown)))
        await self._pace.spend(CALL_COST)
        await self._base.telling.emit(self._session.id, self._session.workspace_id, kind, shown)

    def _readable(self, ending: SessionEnding) -> SessionEnding:
        """The same without what nobody is to read."""
        mask = self._attended.mask
        return replace(ending, error=mask.value(ending.error), text=mask.value(ending.text))

    async def _turned(self, turn: TurnOver) -> SessionEnding | None:
        """It has nothing more to do: what was said meanwhile goes on, else it is over."""
        self._turn = turn
        self._turn_over.set()
        if turn.reason == "done" and not self._attended.live.is_ended and await self._deliver():
            return None
        if turn.reason in ("done", "interrupted"):
            return SessionEnding("completed", text=turn.text or self._last_text)
        words = {"refused": "The model refused to go on.", "limit": "The runner reached a limit of its own."}
        return failed(f"turn_{turn.reason}", turn.text or words.get(turn.reason, "The agent failed."))

    async def _process_ending(self, grace_seconds: float) -> RunEnding:
        try:
            async with asyncio.timeout(grace_seconds):
                return await self._attended.running.wait()
        except TimeoutError:
            return await self._attended.running.stop()

    def _by_ending(self, ending: RunEnding) -> SessionEnding | None:
        if self._attended.live.limit is not None:
            return at_limit(self._attended.live.limit)
        if ending.how in _LIMITS:
            return at_limit(LimitReached(_LIMITS[ending.how], ending.said))
        return None

    def _last_words(self, ending: RunEnding) -> str:
        tail = self._attended.mask.text(self._attended.running.stderr_tail())[-1_000:]
        return f"The agent's process ended before its work was over. {ending.said} {tail}".strip()

    # What it is told, and its limits.

    async def _watch(self) -> SessionEnding | None:
        session = self._session
        topics = [f"{TOPIC}.messaged", f"{TOPIC}.stopping"]
        async with self._events.subscribe(
            topics, workspace_ids={session.workspace_id}, predicate=lambda event: event.payload.get("id") == session.id
        ) as subscription:
            news = asyncio.create_task(self._waking(subscription))
            try:
                while True:
                    ending = await self._look()
                    if ending is not None:
                        return ending
                    self._attended.live.wake.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await self._attended.live.wake.wait()
            finally:
                news.cancel()

    async def _waking(self, subscription: Any) -> None:
        async for _ in subscription:
            self._attended.live.wake.set()

    async def _look(self) -> SessionEnding | None:
        live = self._attended.live
        if live.is_ended:
            return SessionEnding("completed", text=self._last_text)
        if live.limit is not None:
            return at_limit(live.limit)
        try:
            session = await self._base.database.read(self._current)
        except Unauthenticated:
            return failed("starter_gone", "Whoever started it may no longer: the key or the person is gone.")
        if session is None:
            return SessionEnding("cancelled", {"code": "gone", "message": "The session was removed."})
        if session.stop_by is not None:
            error = {"code": "cancelled", "message": f"Stopped by {session.stop_by}."}
            return SessionEnding("cancelled", error)
        try:
            self._check_time(session)
            await self._check_disk()
        except LimitReached as problem:
            return at_limit(problem)
        if self._turn is None or self._turn.reason == "done":
            await self._deliver()
        return None

    def _current(self, tx: Tx) -> AgentSession | None:
        as_it_stands(tx, self._session.started_by, self._clock.now())
        return store.find(tx, self._session.id)

    def _check_time(self, session: AgentSession) -> None:
        now = self._clock.now()
        if session.state == "waiting":
            if session.waiting_since is not None and now - session.waiting_since > WAIT_MILLIS:
                raise LimitReached("waiting", "Nobody answered for seven days.")
            # Whoever waits is silent with reason.
            self._attended.live.touch()
            return
        worked = now - (session.started_at or now) - session.waited_millis
        minutes = session.frozen.limits.minutes
        if worked > minutes * 60_000:
            raise LimitReached("minutes", f"It worked for {many(minutes, 'minute')}, all that it may.")
        silent = time.monotonic() - self._attended.live.touched_at
        if silent > self._quiet_seconds and now > session.quiet_until:
            raise LimitReached("quiet", f"Nothing was heard of it for {self._quiet_seconds:g} seconds.")

    async def _check_disk(self) -> None:
        now = time.monotonic()
        if now - self._disk_at < _DISK_SECONDS:
            return
        place, most = self._attended.place, self._session.frozen.limits.disk_mb
        used = await asyncio.to_thread(used_bytes, place.home, place.work) - self._attended.disk_before
        # A directory of very many files is not walked all the time.
        self._disk_at = time.monotonic() + _DISK_RESTS * (time.monotonic() - now)
        if used > most << 20:
            hides = ", or hides how much" if used >= ENDLESS >> 1 else ""
            raise LimitReached("disk_mb", f"It wrote more than {most} MiB, all that it may{hides}.")

    async def _deliver(self) -> bool:
        """Tell it what was said to it meanwhile; whether there was anything."""
        async with self._delivering:
            waiting = await self._base.database.read(lambda tx: store.undelivered(tx, self._session.id))
            for message in waiting:
                await self._attended.driving.send(message.text)
                await self._base.database.write(partial(store.deliver, id=message.id, now=self._clock.now()))
        if waiting:
            self._turn = None
            self._turn_over.clear()
            self._attended.live.touch()
        return bool(waiting)

    async def _interrupted(self) -> None:
        """Ask it to stop, and give it a moment to say so."""
        with suppress(TimeoutError, HoldfastError, OSError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._attended.driving.interrupt()
                await self._turn_over.wait()


class _Pieces:
    """A text as it comes: what of it can be told already, which a secret that is still being told can not."""

    def __init__(self, kind: str, mask: SecretMask) -> None:
        self.kind = kind
        self.paragraph = ""
        """What was told of the present one, at most so much as is kept of last words."""
        self._mask = mask
        self._text = ""
        self._told_at = 0.0

    def add(self, text: str) -> None:
        self._text += text

    @property
    def are_due(self) -> bool:
        """Whether the last ones were told long enough ago."""
        return time.monotonic() - self._told_at > _SAID_SECONDS

    def take(self, *, whole: bool) -> str:
        """What is told now; where the text is at its end, all of it."""
        self._told_at = time.monotonic()
        told, self._text = (self._mask.text(self._text), "") if whole else self._mask.settled(self._text)
        self.paragraph = (self.paragraph + told)[-_LAST_WORDS:]
        return told
