"""Counts the text whose words are read while a transaction holds the store, and while none does."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from holdfast.engines.search.text import analyser
from holdfast.storage.database import Database, Tx

T = TypeVar("T")


class HeldWords:
    """Characters by whether they were read within a transaction; `longest` is the most of one transaction."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = self.longest = 0
        self._here = threading.local()
        self._write, self._coded = database.write, analyser.coded
        monkeypatch.setattr(database, "write", self._counted)
        monkeypatch.setattr(analyser, "coded", self._reading)

    async def _counted(self, work: Callable[[Tx], T]) -> T:
        def within(tx: Tx) -> T:
            self._here.held = 0
            try:
                return work(tx)
            finally:
                self.longest = max(self.longest, self._here.held)
                del self._here.held

        return await self._write(within)

    def _reading(self, text: str) -> bytes:
        if hasattr(self._here, "held"):
            self._here.held += len(text)
        else:
            self.free += len(text)
        return self._coded(text)
