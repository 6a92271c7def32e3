"""Owns throwing malformed requests at a server over raw sockets, and saying what became of it."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from tests.support.attacks.bad_requests import bad_requests

PATIENCE_SECONDS = 60
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@dataclass
class Outcome:
    """What a server did with them."""

    sent: int = 0
    connections: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    unended: list[bytes] = field(default_factory=list)
    """What was sent on connections that the server did not end."""
    failed: list[bytes] = field(default_factory=list)
    """What was sent on connections that answered 5xx."""


async def throw(port: int, requests: int, *, seed: int, at_once: int = 128) -> Outcome:
    """Send so many, from one to ten on a connection, and ask for health between them; RuntimeError if it is ill.

    Each connection is the server's to end: by a refusal, by a timeout, or after the last request, which says so.
    """
    outcome = Outcome()
    source = bad_requests(seed)
    random = Random(seed)

    async def work() -> None:
        while outcome.sent < requests:
            batch = list(islice(source, min(random.choice((1, 1, 1, 1, 2, 3, 10)), requests - outcome.sent)))
            outcome.sent += len(batch)
            outcome.connections += 1
            await _connection(port, b"".join(batch), outcome, in_pieces=random.random() < 0.2)
            if outcome.connections % 50 == 0:
                await _check_health(port)

    await asyncio.gather(*(work() for _ in range(at_once)))
    await _check_health(port)
    return outcome


async def _connection(port: int, raw: bytes, outcome: Outcome, *, in_pieces: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    size = len(raw) // 7 + 1 if in_pieces else len(raw) + 1
    answer = b""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for at in range(0, len(raw), size):
                writer.write(raw[at : at + size])
                await writer.drain()
            writer.write(HEALTH)
            answer = await reader.read()
    except TimeoutError:
        outcome.unended.append(raw)
    except OSError:
        # It was cut while we still wrote or read: an end like any other.
        pass
    finally:
        writer.close()
    statuses = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:] if part[:3].isdigit()]
    outcome.statuses.update(statuses)
    if any(status >= 500 for status in statuses):
        outcome.failed.append(raw)


async def _check_health(port: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEALTH)
        answer = await reader.read()
        writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(answer[:300].decode(errors="replace"))
