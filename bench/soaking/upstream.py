"""Owns the upstream of a soak: a model that answers at once, slowly, with errors, or not to the end."""

import asyncio
from typing import Literal

from bench.upstream_stub import STREAM_HEAD, Stub

Mood = Literal["well", "slow", "refusing", "breaking"]
SLOW_SECONDS = 2.0
_FAILED = b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class MoodyUpstream(Stub):
    """Answers as it feels; the mood is everybody's."""

    mood: Mood = "well"

    def data_received(self, data: bytes) -> None:
        loop, mood = asyncio.get_running_loop(), MoodyUpstream.mood
        if self._transport.is_closing():
            return
        if mood == "slow":
            loop.call_later(SLOW_SECONDS, super().data_received, data)
        elif mood == "refusing":
            self._transport.write(_FAILED)
        elif mood == "breaking":
            self._transport.write(STREAM_HEAD)
            self._transport.close()
        else:
            super().data_received(data)


async def moody_upstream() -> asyncio.Server:
    """It listens on a free port of this machine."""
    return await asyncio.get_running_loop().create_server(MoodyUpstream, "127.0.0.1", 0)
