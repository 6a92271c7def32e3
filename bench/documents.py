"""Measures how fast documents are taken in: Markdown files through the document service, with and without a model.

A document is ready when its passages are found by their words; its vectors follow in the background. Both moments are
told, and how much of the time until the second was spent embedding.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.report import Figure, finish, options
from holdfast.core.clock import SystemClock
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.features.identity.service import local_principal
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.support.services import Services, background, build_services, first_start

DOCUMENTS = 20
BYTES = 10_000
LONGEST_SECONDS = 600
STEMS = ("deploy", "river", "stone", "cloud", "harbour", "signal", "ledger", "anchor", "window", "garden")


class Timed:
    """An embedder that tells how long it was at work."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.id, self.dimensions = embedder.id, embedder.dimensions
        self.seconds = 0.0
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What the embedder says, and how long that took."""
        began = time.perf_counter()
        vectors = await self._embedder.embed(texts)
        self.seconds += time.perf_counter() - began
        self.texts += len(texts)
        return vectors

    async def close(self) -> None:
        """Let go of the model."""
        await self._embedder.close()


def markdown(chance: random.Random, size: int) -> bytes:
    """A file with headings, paragraphs and lists."""
    parts = [f"# {chance.choice(STEMS).title()} {chance.randrange(10**6)}"]
    while sum(map(len, parts)) < size:
        words = [f"{chance.choice(STEMS)}{chance.choice(('', 's', 'ing', ' of', ' and the'))}" for _ in range(60)]
        parts += [f"## {words[0].title()} {len(parts)}", " ".join(words[:40]) + ".", f"- {' '.join(words[40:])}"]
    return "\n\n".join(parts).encode()[:size]


async def measure(label: str, embedder: Embedder, count: int) -> list[Figure]:
    """Upload everything at once and wait."""
    files = [markdown(random.Random(number), BYTES) for number in range(count)]
    timed = Timed(embedder)
    # The model is loaded before, as in a server that runs.
    await embedder.embed(["warm"])
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "holdfast.db")
        await migrate(database)
        services = build_services(Settings(data_dir=Path(directory)), database, SystemClock(), timed)
        async with background(services):
            start = await first_start(services)
            owner = local_principal(start.organization_id)
            began = time.perf_counter()
            await asyncio.gather(*(upload(services, owner, start.workspace_id, n, f) for n, f in enumerate(files)))
            async with asyncio.timeout(LONGEST_SECONDS):
                passages = await _ready(services, owner, start.workspace_id, count)
                ready = time.perf_counter() - began
                while (await services.search.progress()).pending:
                    await asyncio.sleep(0.05)
            embedded = time.perf_counter() - began
        await database.close()
    return [
        Figure(f"{label}: documents found by words ({count} of {BYTES:,} bytes)", count / ready, "/s"),
        Figure(f"{label}: documents with every vector", count / embedded, "/s"),
        Figure(f"{label}: passages with a vector", passages / embedded, "/s"),
        Figure(f"{label}: share of the time that is embedding", 100 * timed.seconds / embedded, "%"),
    ]


async def upload(services: Services, owner: Principal, workspace_id: str, number: int, content: bytes) -> None:
    """One file, whole."""
    taking = await services.documents.upload(owner, workspace_id)
    await taking.write(content)
    await taking.finish(f"note-{number}.md", "text/markdown")


async def _ready(services: Services, owner: Principal, workspace_id: str, count: int) -> int:
    """Wait until every document is read; how many passages they have."""
    while True:
        page = (await services.documents.page(owner, workspace_id, limit=count)).items
        failed = [document.reason for document in page if document.state == "failed"]
        if failed:
            raise RuntimeError(f"not read: {failed[0]}")
        if all(document.state == "ready" for document in page):
            return sum(document.chunks for document in page)
        await asyncio.sleep(0.05)


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    chosen = parser.parse_args()
    figures = []
    for label, embedder in (("word vectors", WordEmbedder()), ("MiniLM", MiniLmEmbedder())):
        figures += asyncio.run(measure(label, embedder, chosen.documents))
    finish(figures, as_json=chosen.json)


if __name__ == "__main__":
    main()
