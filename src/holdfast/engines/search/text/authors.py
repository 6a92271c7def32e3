"""Owns whom a query names: the people and agents of a workspace, looked up by their first names."""

from collections import OrderedDict
from dataclasses import dataclass, field

from holdfast.engines.search.stores.base import Store
from holdfast.engines.search.text import analyser
from holdfast.storage.database import Tx

FEW_AUTHORS = 20
"""So many in a conversation are known by a bare name in small letters; a history's thousands have names that are
words, such as Mark and Grant and Test."""
REMEMBERED_SHELVES = 256
_SENTENCE_ENDS = (".", "!", "?", ":")


@dataclass(slots=True)
class KnownAuthors:
    """The authors of a shelf by the first word of their names, each with the other words."""

    authors: set[str] = field(default_factory=set)
    by_first: dict[str, list[tuple[str, frozenset[str]]]] = field(default_factory=dict)

    def add(self, author: str) -> None:
        self.authors.add(author)
        names = analyser.words(author)
        if names:
            self.by_first.setdefault(names[0], []).append((author, frozenset(names[1:])))

    def named(self, text: str) -> frozenset[str]:
        """Those that a query names: by first name and another one, or by a first name that is written as one."""
        present = set(analyser.words(text))
        few = len(self.authors) <= FEW_AUTHORS
        found = []
        for first in present & self.by_first.keys():
            is_name = _is_written_as_name(text, first)
            for author, rest in self.by_first[first]:
                if is_name or rest & present or (few and not rest):
                    found.append(author)
        return frozenset(found)


class Authors:
    """Remembers the authors of shelves in use: reading thousands of names for each query would take too long.

    Authors are added and never taken away one by one, so their number tells whether any is new.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shelves: OrderedDict[int, KnownAuthors] = OrderedDict()

    def named(self, tx: Tx, shelf: int, text: str) -> frozenset[str] | None:
        """The authors that a query names, by what is remembered; None where that may be out of date."""
        known = self._shelves.get(shelf)
        if known is None or len(known.authors) != self._store.author_count(tx, shelf):
            return None
        return known.named(text)

    def named_anew(self, tx: Tx, shelf: int, text: str) -> frozenset[str]:
        """The same after reading the authors that came since."""
        known = KnownAuthors()
        old = self._shelves.get(shelf)
        if old is not None:
            known.authors, known.by_first = set(old.authors), {name: [*these] for name, these in old.by_first.items()}
        for author in self._store.authors(tx, shelf):
            if author not in known.authors:
                known.add(author)
        self._shelves[shelf] = known
        self._shelves.move_to_end(shelf)
        while len(self._shelves) > REMEMBERED_SHELVES:
            self._shelves.popitem(last=False)
        return known.named(text)


def _is_written_as_name(text: str, name: str) -> bool:
    """Whether the word has a capital letter that it does not owe to its place in a sentence."""
    for word in analyser.located(text, {name}):
        before = text[: word.start].rstrip()
        if text[word.start].isupper() and before and not before.endswith(_SENTENCE_ENDS):
            return True
    return False
