"""Owns the embedder of a server: the model in a process of its own, beside which requests go on undisturbed."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Unavailable
from holdfast.engines.search.embedders import worker
from holdfast.engines.search.embedders.minilm import LONGEST_CHARACTERS, MiniLmEmbedder, batches

ATTEMPTS = 2
"""A process that somebody killed is started again, once for each text."""
END_SECONDS = 5.0
COMMAND = (sys.executable, "-P", "-m", worker.__name__)
"""-P: whoever starts a server inside a clone must not run the modules that lie there."""
ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
"""An arena for each thread would keep forty megabytes that none uses."""
BATCH_CHARACTERS = 1_200
"""One long text at once: several take no less time, and forty megabytes more."""


@dataclass(frozen=True, slots=True)
class _Link:
    """The way to the process, which is this one's child or that of all workers' parent."""

    answers: asyncio.StreamReader
    requests: asyncio.StreamWriter
    child: Process | None = None


class EmbeddingProcess:
    """Embeds what somebody waits for. It is started with the first text, and again where it has ended."""

    id = MiniLmEmbedder.id
    dimensions = MiniLmEmbedder.dimensions

    def __init__(self, shared: Path | None = None) -> None:
        """`shared`: where the one process listens that several workers' parent starts for all of them."""
        self.backlog = BacklogEmbedder(self)
        self._shared = shared
        self._link: _Link | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._asked: dict[int, asyncio.Future[NDArray[np.float32]]] = {}
        self._number = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that holds the model, where it is this one's child; None while there is none."""
        return self._link.child.pid if self._link is not None and self._link.child is not None else None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors. Long lists go in small turns, so that a short query never waits for a long one."""
        return await self.embed_as(worker.WAITED_FOR, texts, 1)

    async def embed_as(self, kind: int, texts: Sequence[str], at_once: int) -> NDArray[np.float32]:
        """Unit vectors of one kind of request, so many batches at once."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        turn = asyncio.Semaphore(at_once)

        async def some(chosen: list[int]) -> None:
            async with turn:
                vectors[chosen] = await self._ask(kind, [texts[index][:LONGEST_CHARACTERS] for index in chosen])

        lengths = [min(len(text), LONGEST_CHARACTERS) for text in texts]
        await asyncio.gather(*map(some, batches(lengths, BATCH_CHARACTERS)))
        return vectors

    async def close(self) -> None:
        """End the process; who still waits is told so."""
        self._closed = True
        link = self._link
        if link is None:
            return
        link.requests.close()
        if link.child is not None:
            try:
                await asyncio.wait_for(link.child.wait(), END_SECONDS)
            except TimeoutError:
                link.child.kill()
                await link.child.wait()
        if self._reading is not None:
            await self._reading

    async def _ask(self, kind: int, batch: list[str]) -> NDArray[np.float32]:
        body = json.dumps(batch).encode()
        for _ in range(ATTEMPTS):
            link = await self._started()
            self._number = (self._number + 1) & 0xFFFFFFFF
            number = self._number
            answer: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(_heard)
            self._asked[number] = answer
            try:
                link.requests.write(worker.FRAME.pack(number, kind, len(body)) + body)
                await link.requests.drain()
                return await answer
            except (_Ended, ConnectionError):
                if self._closed:
                    break
            finally:
                self._asked.pop(number, None)
        raise Unavailable(
            "The embedder is closed; the server is shutting down."
            if self._closed
            else "The embedding process ended and did so again when it was started anew; see its messages above."
        )

    async def _started(self) -> _Link:
        async with self._starting:
            if self._closed:
                raise Unavailable("The embedder is closed; the server is shutting down.")
            if self._link is None:
                self._link = await self._linked()
                self._reading = asyncio.create_task(self._read(self._link))
            return self._link

    async def _linked(self) -> _Link:
        if self._shared is not None:
            try:
                return _Link(*await asyncio.open_unix_connection(self._shared))
            except OSError as problem:
                raise Unavailable(f"The embedding process cannot be reached ({problem.strerror}).") from None
        process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=PIPE, stdout=PIPE, env={**os.environ, **ENVIRONMENT}
        )
        assert process.stdout is not None and process.stdin is not None
        return _Link(process.stdout, process.stdin, process)

    async def _read(self, link: _Link) -> None:
        """Hand every answer to who asked, until the process ends."""
        try:
            while True:
                number, kind, length = worker.FRAME.unpack(await link.answers.readexactly(worker.FRAME.size))
                body = await link.answers.readexactly(length)
                answer = self._asked.get(number)
                if answer is None or answer.done():
                    continue
                if kind == worker.FAILED:
                    answer.set_exception(Unavailable(f"The text could not be embedded ({body.decode()})."))
                else:
                    answer.set_result(np.frombuffer(body, np.float32).reshape(-1, self.dimensions))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._link = None
            link.requests.close()
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(_Ended())


class BacklogEmbedder:
    """The same model for what nobody waits for, at the lowest priority."""

    id = MiniLmEmbedder.id
    dimensions = MiniLmEmbedder.dimensions

    def __init__(self, process: EmbeddingProcess) -> None:
        self._process = process

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, whenever nobody else needs the processor."""
        return await self._process.embed_as(worker.BACKLOG, texts, worker.LANES)

    async def close(self) -> None:
        """The process is ended by whoever waits for vectors of it."""


class _Ended(Exception):
    """The process ended before it answered."""


def _heard(answer: asyncio.Future[NDArray[np.float32]]) -> None:
    """Whoever still wrote when the process ended hears of it from the pipe, and asks for no answer."""
    if not answer.cancelled():
        answer.exception()
