"""Owns what features keep under the master key besides secrets, so that a new key reaches all of it at once."""

from collections.abc import Callable, Iterable

from holdfast.engines.master_key import MasterKey
from holdfast.storage.database import Tx

Reseal = Callable[[Tx, MasterKey], int]
"""Seals everything of a feature anew under another key, within the transaction; how much that was."""


class Seals:
    """Every feature's."""

    def __init__(self, declared: Callable[[], Iterable[Reseal]]) -> None:
        self._declared = declared

    def reseal(self, tx: Tx, key: MasterKey) -> int:
        """Seal anew what any feature keeps; how much there was."""
        return sum(reseal(tx, key) for reseal in self._declared())
