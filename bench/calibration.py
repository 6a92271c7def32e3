"""Measures what a similarity of 0.3 separates in a whole repository, by questions about it and about other matters.

calibration.json has questions about this repository, each with the files (parts of their paths) that answer it, and
questions on other matters. Every second one was held out when the score was adjusted. Both kinds are asked before
anything is embedded, when words alone are known, and after.

    python -m bench.calibration [--path CLONE] [--vectors FILE]
"""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.report import Figure, finish, options
from bench.repos import Opened, opened
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.features.repositories.finding.search import LEAST_SIMILARITY
from tests.support.code.git import GitRepo

ASKED: dict[str, Any] = json.loads((Path(__file__).parent / "calibration.json").read_text())
LEFT_OUT = ("bench/calibration.json", "tests/engines/search/labelled.json")
"""They have the questions word for word."""
HALVES = (("tuned", 0), ("held out", 1))
TARGETS = {"about": 85.0, "elsewhere": 90.0}


class KeptVectors(MiniLmEmbedder):
    """The shipped embedder, with a file of what it computed before: thousands of passages take minutes."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path
        self._known: dict[str, NDArray[np.float16]] = {}
        if path is not None and path.exists():
            with np.load(path) as kept:
                self._known = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        keys = [hashlib.sha1(text.encode(errors="replace"), usedforsecurity=False).hexdigest() for text in texts]
        missing = [place for place, key in enumerate(keys) if key not in self._known]
        if missing:
            fresh = await super().embed([texts[place] for place in missing])
            self._known.update(
                {keys[place]: vector.astype(np.float16) for place, vector in zip(missing, fresh, strict=True)}
            )
        return np.array([self._known[key] for key in keys], np.float32).reshape(len(texts), self.dimensions)

    def keep(self) -> None:
        """Write the file."""
        if self._path is not None:
            np.savez(self._path, keys=np.array(list(self._known)), vectors=np.array(list(self._known.values())))


@dataclass(frozen=True, slots=True)
class Found:
    """What came of every question: whether a right file was shown, and whether nothing was."""

    right: list[bool]
    nothing: list[bool]

    def figures(self, state: str) -> list[Figure]:
        """Shares of each half."""
        found = []
        for name, first in HALVES:
            for kind, outcomes, told in (
                ("about", self.right, "a right file shown"),
                ("elsewhere", self.nothing, "nothing shown"),
            ):
                half = outcomes[first::2]
                share = 100 * sum(half) / len(half)
                found.append(Figure(f"{state}, {name}: {told} ({len(half)})", share, "%", TARGETS[kind]))
        return found


async def ask(product: Opened, slug: str) -> Found:
    """Put every question to the repository as `search_memory` does."""

    async def shown(question: str) -> list[str]:
        matches = await product.services.repository_finding.search(product.owner, [slug], question)
        return [match.path for match in matches if match.exact or match.similarity >= LEAST_SIMILARITY]

    right = []
    for each in ASKED["about"]:
        paths = await shown(each["question"])
        right.append(any(part in path for path in paths for part in each["files"]))
    return Found(right, [not await shown(question) for question in ASKED["elsewhere"]])


async def calibration(path: Path, vectors: Path | None) -> list[Figure]:
    """Take a clone in, ask by words alone, embed, and ask again."""
    embedder = KeptVectors(vectors)
    with tempfile.TemporaryDirectory() as directory:
        clone = GitRepo.clone(path.resolve(), Path(directory) / "clone", "--no-local")
        for name in LEFT_OUT:
            if (clone.path / name).exists():
                clone.remove(name)
        clone.commit("Leave the questions out")
        async with opened(embedder, embedding=False) as product:
            repository, _ = await product.remember(clone.path)
            by_words = await ask(product, repository.slug)
            await product.services.search.tend()
            by_meaning = await ask(product, repository.slug)
            embedder.keep()
    count = Figure("passages and commits", repository.entries)
    return [count, *by_meaning.figures("embedded"), *by_words.figures("words alone")]


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--path", type=Path, default=Path(), help="a clone of this repository; this one unless told")
    parser.add_argument("--vectors", type=Path, help="a .npz file to keep vectors in for the next run")
    chosen = parser.parse_args()
    finish(asyncio.run(calibration(chosen.path, chosen.vectors)), as_json=chosen.json)


if __name__ == "__main__":
    main()
