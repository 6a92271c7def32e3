"""Owns the embedder of a server: the model in a process of its own, beside which requests go on undisturbed."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Unavailable
from holdfast.engines.search.embedders import worker
from holdfast.engines.search.embedders.minilm import LONGEST_CHARACTERS, MiniLmEmbedder, batches

ATTEMPTS = 2
"""A process that somebody killed is started again, once for each text."""
END_SECONDS = 5.0
ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
"""An arena for each thread would keep forty megabytes that none uses."""
BATCH_CHARACTERS = 1_200
"""One long text at once: several take no less time, and forty megabytes more."""


class EmbeddingProcess:
    """Embeds what somebody waits for. It is started with the first text, and again where it has ended."""

    id = MiniLmEmbedder.id
    dimensions = MiniLmEmbedder.dimensions

    def __init__(self) -> None:
        self.backlog = BacklogEmbedder(self)
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._asked: dict[int, asyncio.Future[NDArray[np.float32]]] = {}
        self._number = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that holds the model; None while there is none."""
        return self._process.pid if self._process is not None else None

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
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    async def _ask(self, kind: int, batch: list[str]) -> NDArray[np.float32]:
        body = json.dumps(batch).encode()
        for _ in range(ATTEMPTS):
            process = await self._started()
            self._number = (self._number + 1) & 0xFFFFFFFF
            number = self._number
            answer: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
            self._asked[number] = answer
            try:
                assert process.stdin is not None
                process.stdin.write(worker.FRAME.pack(number, kind, len(body)) + body)
                await process.stdin.drain()
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

    async def _started(self) -> Process:
        async with self._starting:
            if self._closed:
                raise Unavailable("The embedder is closed; the server is shutting down.")
            if self._process is None:
                # -P: whoever starts a server inside a clone must not run the modules that lie there.
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", worker.__name__),
                    stdin=PIPE,
                    stdout=PIPE,
                    env={**os.environ, **ENVIRONMENT},
                )
                self._reading = asyncio.create_task(self._read(self._process))
            return self._process

    async def _read(self, process: Process) -> None:
        """Hand every answer to who asked, until the process ends."""
        assert process.stdout is not None
        try:
            while True:
                number, kind, length = worker.FRAME.unpack(await process.stdout.readexactly(worker.FRAME.size))
                body = await process.stdout.readexactly(length)
                answer = self._asked.get(number)
                if answer is None or answer.done():
                    continue
                if kind == worker.FAILED:
                    answer.set_exception(Unavailable(f"The text could not be embedded ({body.decode()})."))
                else:
                    answer.set_result(np.frombuffer(body, np.float32).reshape(-1, self.dimensions))
        except asyncio.IncompleteReadError:
            self._process = None
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
