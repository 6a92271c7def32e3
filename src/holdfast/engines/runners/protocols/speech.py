"""Owns reading and writing JSON objects, one a line, with an agent whose every byte may be hostile."""

import asyncio
import json
import re
from collections import deque
from contextlib import suppress
from typing import Any

import orjson

from holdfast.engines.mcp_client.gate import RefusedLine, clear, read_object
from holdfast.engines.runners.base import RunnerFailed
from holdfast.engines.runtime.base import RunEnding, Running

MOST_TEXT = 200_000
"""Characters of one thing that an agent says; the rest is left out, and that is said."""
_MOST_ARGUMENTS = 4_000
_MOST_RESULT = 20_000
_MAX_LINE_BYTES = 16 << 20
_MOST_WAITING_BYTES = 4 << 20
_MOST_CHATTER = 1_000
_READ_BYTES = 262_144
_LAST_WORDS = 800
_END_SECONDS = 2.0
# Escape sequences first, so that nothing of them is left; then every other control character but tab and line feed.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\|$)|[ -/]*[0-~]?)", re.DOTALL)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def plain(text: object, most: int = MOST_TEXT) -> str:
    """Text that does nothing to a terminal or a page but stand there, and is not longer than so."""
    said = text if isinstance(text, str) else "" if text is None else json.dumps(text, ensure_ascii=False)
    if len(said) > most:
        said = f"{said[:most]}\n[{len(said) - most:,} characters were left out]"
    return _CONTROLS.sub("", _ESCAPES.sub("", said.replace("\r\n", "\n")))


def short_arguments(arguments: object) -> str:
    """A call's arguments as JSON, cut where they are long."""
    return plain(arguments if isinstance(arguments, str) else json.dumps(arguments), _MOST_ARGUMENTS)


def short_result(text: object) -> str:
    """What a call came to, cut where it is long."""
    return plain(text, _MOST_RESULT)


class JsonLines:
    """The streams of an agent, as JSON objects."""

    def __init__(self, name: str, running: Running) -> None:
        self.name = name
        self._running = running
        self._held = bytearray()
        self._ready: deque[dict[str, Any]] = deque()
        self._chatter: deque[str] = deque(maxlen=20)
        self._chattered = 0

    async def read(self) -> dict[str, Any] | None:
        """The next object; None when there will be no more. RunnerFailed for what is none."""
        while not self._ready:
            try:
                data = await self._running.stdout.read(_READ_BYTES)
            except OSError as problem:
                raise self.failure(f"can't be read any more: {problem}") from None
            if not data:
                return None
            self._feed(data)
        return self._ready.popleft()

    def write(self, message: dict[str, Any]) -> None:
        """Say something; it waits in a buffer, of which there is not much."""
        writer = self._running.stdin
        if writer.transport.get_write_buffer_size() > _MOST_WAITING_BYTES:
            raise self.failure("does not read what it is sent")
        # A program that has ended is told nothing; reading says how it ended.
        with suppress(OSError):
            writer.write(clear(orjson.dumps(message)) + b"\n")

    async def ended(self) -> RunEnding:
        """How it ended, once its output is closed; one that goes on without is stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                return await self._running.wait()
        return await self._running.stop(0)

    def failure(self, problem: str) -> RunnerFailed:
        """What went wrong, as a sentence about the agent, with its last words."""
        said = "\n".join(part for part in (self._running.stderr_tail(), *self._chatter) if part)
        last = plain(said)[-_LAST_WORDS:].strip()
        words = f" Its last words: {last}" if last else ""
        return RunnerFailed(f"{self.name} {problem}.{words}")

    def _feed(self, data: bytes) -> None:
        self._held += data
        *lines, rest = self._held.split(b"\n") if b"\n" in data else [self._held]
        for line in lines:
            self._take(bytes(line))
        if len(rest) > _MAX_LINE_BYTES:
            raise self.failure(f"wrote a line of more than {_MAX_LINE_BYTES:,} bytes")
        self._held = rest

    def _take(self, line: bytes) -> None:
        if len(line) > _MAX_LINE_BYTES:
            raise self.failure(f"wrote a line of more than {_MAX_LINE_BYTES:,} bytes")
        if not line.strip():
            return
        found = read_object(line)
        if not isinstance(found, RefusedLine):
            self._ready.append(found)
            return
        if found.is_message:
            raise self.failure(f"broke its protocol: {found.why}")
        # Programs greet people on stdout; that is noise, up to a point.
        self._chatter.append(plain(found.line.decode("utf-8", "replace")))
        self._chattered += 1
        if self._chattered > _MOST_CHATTER:
            raise self.failure("prints text where only messages belong")
