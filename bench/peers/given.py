"""Owns what each store is given and how it is told: one JSON line asks for a few saves or searches, one answers.

Runs in the peers' own environment too, so it needs nothing but numpy.
"""

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIMIT = 10


@dataclass(frozen=True, slots=True)
class Given:
    """The same texts and vectors for everybody, and a directory to oneself."""

    texts: list[str]
    queries: list[str]
    vectors: NDArray[np.float32]
    asked: NDArray[np.float32]
    directory: Path
    with_model: bool = False
    """Whether each store has the product's model embed each text, instead of the vectors."""

    def save(self) -> None:
        """Write it down for a process that reads it."""
        self.directory.mkdir(parents=True)
        (self.directory / "given.json").write_text(
            json.dumps({"texts": self.texts, "queries": self.queries, "with_model": self.with_model})
        )
        np.save(self.directory / "vectors.npy", self.vectors)
        np.save(self.directory / "asked.npy", self.asked)

    @staticmethod
    def read(directory: Path) -> "Given":
        """What `save` wrote."""
        told = json.loads((directory / "given.json").read_text())
        vectors, asked = np.load(directory / "vectors.npy"), np.load(directory / "asked.npy")
        return Given(told["texts"], told["queries"], vectors, asked, directory, told["with_model"])

    def embedding(self) -> Callable[[str], NDArray[np.float32]]:
        """How a peer gets the vector of a text: by the product's own model in its process, or as given."""
        if self.with_model:
            # Loaded where it is wanted: a peer's environment has it only for this.
            from holdfast.engines.search.embedders.minilm import THREADS, MiniLmModel

            model = MiniLmModel(THREADS)
            return lambda text: model.run([text])[0]
        known = dict(zip(self.texts, self.vectors, strict=True)) | dict(zip(self.queries, self.asked, strict=True))
        return known.__getitem__


class Store(ABC):
    """Something that remembers."""

    @abstractmethod
    def add(self, number: int) -> None:
        """Save one text, durably, before returning."""

    @abstractmethod
    def search(self, number: int) -> list[str]:
        """The texts that one query finds, best first."""

    def close(self) -> None:  # noqa: B027 – most end with their process
        """End what was started for it."""


def serve(build: Callable[[Given], Store]) -> None:
    """Do what the lines of standard input say until they end."""
    answers, sys.stdout = sys.stdout, sys.stderr
    given = Given.read(Path(sys.argv[1]))
    store = build(given)
    _answer(answers, {"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        seconds: list[float] = []
        found: list[list[str]] = []
        for number in range(asked["from"], asked["to"]):
            began = time.perf_counter()
            if asked["do"] == "search":
                found.append(store.search(number))
            else:
                store.add(number)
            seconds.append(time.perf_counter() - began)
        _answer(answers, {"seconds": seconds, "found": found})
    store.close()


def _answer(answers: Any, value: dict[str, object]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()
