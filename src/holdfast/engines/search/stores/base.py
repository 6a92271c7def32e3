"""Owns what both stores of the index share: the filter, the candidate, and the SQL that is the same on both."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.search.embedders.base import STILL_COMPARED
from holdfast.engines.search.model import Entry, Scalar
from holdfast.engines.search.pool import Places, Pool
from holdfast.engines.search.text import analyser
from holdfast.storage.database import Row, Tx

Vector = NDArray[np.float32]
Embedders = tuple[int, ...]
"""Numbers of embedders whose vectors are compared: the present one first."""

IDS_AT_ONCE = 500

_META_KEY = re.compile(r"[A-Za-z0-9_]{1,64}")
_SHOWN = """SELECT e.number, e.type, e.id, e.part, e.learned_at, e.occurred_at, e.author, e.source, e.valid_until,
    e.collection, t.title, t.text, t.meta FROM search_entry e JOIN search_text t ON t.number = e.number"""
# The index holds only entries that belong to something, which SQLite sees only when it is written out.
_COLLECTED = "shelf = :shelf AND collection = :collection AND collection <> ''"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An entry ready to be written."""

    entry: Entry
    searched: str
    """Its title and text."""
    meta: str
    traits: int = 0

    @property
    def words(self) -> list[str]:
        """The words it is found by."""
        return analyser.words(self.searched) + analyser.words(self.entry.author)

    @property
    def codes(self) -> bytes:
        """The words as numbers, for counting."""
        read = self.entry.codes
        return (analyser.coded(self.searched) if read is None else read) + analyser.coded(self.entry.author)


@dataclass(frozen=True, slots=True)
class Filter:
    """What may be found: one workspace's entries of these types, known and valid at a moment."""

    shelf: int
    at: int
    types: frozenset[str] | None = None
    known_by: int | None = None
    meta: Mapping[str, Scalar | frozenset[str]] = field(default_factory=dict)
    ids: frozenset[str] | None = None
    collections: frozenset[str] | None = None

    @property
    def looks_inside(self) -> bool:
        """Whether it needs more than type, time and collection."""
        return bool(self.meta) or self.ids is not None

    def conditions(self, params: dict[str, Any]) -> list[str]:
        """The conditions on `search_entry e` that both dialects write alike; their values go into `params`."""
        params |= {"shelf": self.shelf, "at": self.at}
        found = ["e.shelf = :shelf", "(e.valid_until IS NULL OR e.valid_until > :at)"]
        if self.known_by is not None:
            params["known_by"] = self.known_by
            found.append("e.learned_at <= :known_by")
        if self.types is not None:
            found.append(_one_of("e.type", "type", sorted(self.types), params))
        if self.ids is not None:
            found.append(_one_of("e.id", "id", sorted(self.ids), params))
        if self.collections is not None:
            found.append(_one_of("e.collection", "collection", sorted(self.collections), params))
        return found


@dataclass(frozen=True, slots=True)
class Statistics:
    """How often words occur in a workspace."""

    entries: int
    within: int
    """How many of the entries are of the filter's types and collections."""
    mean_length: float
    frequencies: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Pending:
    """An entry without a vector of the present embedder. `change` tells whether it changed since it was read."""

    number: int
    change: int
    title: str
    text: str
    traits: int
    shelf: int


class View(ABC):
    """What a query may find, at the moment of its transaction. A place stands for an entry, in a way of the store's."""

    @abstractmethod
    def statistics(self, words: Sequence[str]) -> Statistics:
        """Word frequencies of the workspace."""

    @abstractmethod
    def lexical(self, weights: Mapping[str, float], mean_length: float, limit: int) -> Places:
        """The entries that hold the words, those of most weight first."""

    @abstractmethod
    def nearest(self, vector: Vector, limit: int) -> Places:
        """The entries nearest to a vector."""

    @abstractmethod
    def around(self, places: Places, before: int = 1, after: int = 1) -> Places:
        """The entries so many places before and after these in their sources, these included, within the filter."""

    @abstractmethod
    def pool(self, places: Places, words: Sequence[str], vector: Vector | None, authors: Collection[str]) -> Pool:
        """What ranking needs of these entries."""

    @abstractmethod
    def cosines(self, places: Places, vector: Vector) -> list[tuple[str, float]]:
        """The entities' ids with the exact cosine of each of these entries that has a vector."""


class Store(ABC):
    """The index within the database. Every method runs inside the transaction it is given."""

    def codes(self, searched: str) -> bytes | None:
        """A text's words as they are kept; None where they are kept otherwise. The one method without a transaction."""
        return None

    def shelf(self, tx: Tx, workspace_id: str) -> int | None:
        """The workspace's number in the index; None while nothing was put there."""
        row = tx.one("SELECT number FROM search_shelf WHERE workspace_id = :workspace", {"workspace": workspace_id})
        return None if row is None else int(row["number"])

    def open_shelf(self, tx: Tx, workspace_id: str) -> int:
        """The workspace's number, given now if it has none."""
        number = self.shelf(tx, workspace_id)
        if number is None:
            tx.execute(
                "INSERT INTO search_shelf (workspace_id) VALUES (:workspace) ON CONFLICT (workspace_id) DO NOTHING",
                {"workspace": workspace_id},
            )
            number = self.shelf(tx, workspace_id)
        if number is None:
            raise AssertionError("the shelf was written in this transaction")
        return number

    def embedder(self, tx: Tx, name: str, dimensions: int) -> int:
        """The number of an embedder, given now if it is new."""
        row = tx.one("SELECT number FROM search_embedder WHERE name = :name", {"name": name})
        if row is None:
            tx.execute(
                "INSERT INTO search_embedder (name, dimensions) VALUES (:name, :dimensions) "
                "ON CONFLICT (name) DO NOTHING",
                {"name": name, "dimensions": dimensions},
            )
            row = tx.one("SELECT number FROM search_embedder WHERE name = :name", {"name": name})
        if row is None:
            raise AssertionError("the embedder was written in this transaction")
        return int(row["number"])

    def embedder_number(self, tx: Tx, name: str) -> int:
        """The number of an embedder; -1, which no entry has, for one that made no vector yet."""
        row = tx.one("SELECT number FROM search_embedder WHERE name = :name", {"name": name})
        return -1 if row is None else int(row["number"])

    def comparable(self, tx: Tx, name: str) -> Embedders:
        """The numbers of an embedder and of those whose vectors serve until it has made its own."""
        names = (name, *STILL_COMPARED.get(name, ()))
        numbers = {row["name"]: int(row["number"]) for row in tx.all("SELECT number, name FROM search_embedder")}
        return (numbers.get(name, -1), *(numbers[older] for older in names[1:] if older in numbers))

    def forget_embedders(self, tx: Tx, but: int) -> None:
        """Forget every other embedder that no entry has a vector of, so that none is looked for."""
        tx.execute(
            "DELETE FROM search_embedder WHERE number <> :number "
            "AND NOT EXISTS (SELECT 1 FROM search_entry e WHERE e.embedder = search_embedder.number)",
            {"number": but},
        )

    def set_rate(self, tx: Tx, embedder: int, entries_per_second: float, now: int) -> None:
        """Remember how fast an embedder is."""
        tx.execute(
            "UPDATE search_embedder SET entries_per_second = :rate, measured_at = :now WHERE number = :embedder",
            {"rate": entries_per_second, "now": now, "embedder": embedder},
        )

    def rate(self, tx: Tx, embedder: int) -> tuple[float, int]:
        """How many entries a second an embedder made vectors of, and when that was."""
        sql = "SELECT entries_per_second, measured_at FROM search_embedder WHERE number = :embedder"
        row = tx.one(sql, {"embedder": embedder})
        return (float(row["entries_per_second"]), int(row["measured_at"])) if row else (0.0, 0)

    def authors(self, tx: Tx, shelf: int) -> list[str]:
        """Everyone whose words are on the shelf."""
        rows = tx.all("SELECT author FROM search_author WHERE shelf = :shelf ORDER BY author", {"shelf": shelf})
        return [str(row["author"]) for row in rows]

    def author_count(self, tx: Tx, shelf: int) -> int:
        """How many they are."""
        row = tx.one("SELECT COUNT(*) AS authors FROM search_author WHERE shelf = :shelf", {"shelf": shelf})
        return int(row["authors"]) if row else 0

    def add_authors(self, tx: Tx, shelf: int, authors: Collection[str]) -> None:
        """Remember who speaks here."""
        statement = "INSERT INTO search_author (shelf, author) VALUES (:shelf, :author) ON CONFLICT DO NOTHING"
        tx.many(statement, [{"shelf": shelf, "author": author} for author in sorted(authors)])

    def remove(self, tx: Tx, shelf: int, type: str, id: str) -> None:
        """Delete every part; words and vectors go with the row."""
        tx.execute(
            "DELETE FROM search_entry WHERE shelf = :shelf AND type = :type AND id = :id",
            {"shelf": shelf, "type": type, "id": id},
        )

    def remove_many(self, tx: Tx, shelf: int, type: str, ids: Sequence[str]) -> None:
        """Delete every part of many entities."""
        for start in range(0, len(ids), IDS_AT_ONCE):
            params: dict[str, Any] = {"shelf": shelf, "type": type}
            within = _one_of("id", "id", ids[start : start + IDS_AT_ONCE], params)
            tx.execute(f"DELETE FROM search_entry WHERE shelf = :shelf AND type = :type AND {within}", params)

    def remove_collection(self, tx: Tx, shelf: int, collection: str) -> None:
        """Delete everything of a collection."""
        tx.execute(f"DELETE FROM search_entry WHERE {_COLLECTED}", {"shelf": shelf, "collection": collection})

    def count(self, tx: Tx, shelf: int, collection: str) -> int:
        """How many entries a collection has."""
        row = tx.one(
            f"SELECT COUNT(*) AS entries FROM search_entry WHERE {_COLLECTED}",
            {"shelf": shelf, "collection": collection},
        )
        return int(row["entries"]) if row else 0

    def embedded_count(self, tx: Tx, shelf: int, collection: str, embedders: Embedders) -> int:
        """How many entries of a collection have a vector of these embedders."""
        row = tx.one(
            f"SELECT COUNT(*) AS entries FROM search_entry WHERE {_COLLECTED} AND embedder IN ({listed(embedders)})",
            {"shelf": shelf, "collection": collection},
        )
        return int(row["entries"]) if row else 0

    def has_collections(self, tx: Tx, shelf: int) -> bool:
        """Whether any entry belongs to a collection."""
        sql = "SELECT 1 AS found FROM search_entry WHERE shelf = :shelf AND collection <> '' LIMIT 1"
        return tx.one(sql, {"shelf": shelf}) is not None

    def expire(self, tx: Tx, shelf: int, type: str, id: str, at: int) -> None:
        """Set the moment from which it is no longer valid."""
        tx.execute(
            "UPDATE search_entry SET valid_until = :at, change = :change "
            "WHERE shelf = :shelf AND type = :type AND id = :id",
            {"at": at, "change": self.next_change(tx, shelf), "shelf": shelf, "type": type, "id": id},
        )

    def pending(self, tx: Tx, embedder: int, limit: int, after_shelf: int) -> list[Pending]:
        """Entries that wait for a vector of this embedder: some of each workspace that waits, newest first within it.

        A note does not wait for a whole history, nor one workspace for another's. Where more workspaces wait than
        fit, those behind `after_shelf` come first.
        """
        turns = _waiting(tx, embedder, limit, after_shelf)
        found: list[Pending] = []
        for index, (older, shelf) in enumerate(turns):
            # What one leaves of its share goes to those behind it.
            share = -(-(limit - len(found)) // (len(turns) - index))
            rows = tx.all(
                "SELECT e.number, e.change, e.traits, t.title, t.text FROM search_entry e "
                "JOIN search_text t ON t.number = e.number WHERE e.embedder = :embedder AND e.shelf = :shelf "
                "ORDER BY e.number DESC LIMIT :share",
                {"embedder": older, "shelf": shelf, "share": share},
            )
            found += [
                Pending(int(row["number"]), int(row["change"]), row["title"], row["text"], int(row["traits"]), shelf)
                for row in rows
            ]
        return found

    def pending_count(self, tx: Tx, embedder: int, shelf: int | None = None) -> int:
        """How many wait."""
        on_shelf = "" if shelf is None else " AND shelf = :shelf"
        row = tx.one(
            "SELECT COUNT(*) AS entries FROM search_entry "
            f"WHERE (embedder < :embedder OR embedder > :embedder){on_shelf}",
            {"embedder": embedder, "shelf": shelf} if shelf is not None else {"embedder": embedder},
        )
        return int(row["entries"]) if row else 0

    def made_by(self, tx: Tx, embedder: int) -> int:
        """How many entries have a vector of an embedder."""
        row = tx.one("SELECT COUNT(*) AS entries FROM search_entry WHERE embedder = :embedder", {"embedder": embedder})
        return int(row["entries"]) if row else 0

    def entry_count(self, tx: Tx) -> int:
        """How many entries there are."""
        row = tx.one("SELECT COUNT(*) AS entries FROM search_entry")
        return int(row["entries"]) if row else 0

    def shown(self, tx: Tx, numbers: Sequence[int]) -> dict[int, Row]:
        """What hits show, by number."""
        rows = tx.all(f"{_SHOWN} WHERE e.number {self.among}", {"numbers": self.numbers(numbers)})
        return {int(row["number"]): row for row in rows}

    def numbered(self, tx: Tx, shelf: int, collection: str) -> list[tuple[str, int, int]]:
        """Every entry of a collection: its id, part and number."""
        sql = f"SELECT id, part, number FROM search_entry WHERE {_COLLECTED}"
        rows = tx.all(sql, {"shelf": shelf, "collection": collection})
        return [(str(row["id"]), int(row["part"]), int(row["number"])) for row in rows]

    def parts(self, tx: Tx, shelf: int, type: str, id: str, limit: int) -> list[Row]:
        """What hits show of an entity's first parts, in order."""
        return tx.all(
            f"{_SHOWN} WHERE e.shelf = :shelf AND e.type = :type AND e.id = :id ORDER BY e.part LIMIT :limit",
            {"shelf": shelf, "type": type, "id": id, "limit": limit},
        )

    def conditions(self, filter: Filter, params: dict[str, Any]) -> list[str]:
        """Every condition of a filter on `search_entry e`, values in `params`."""
        found = filter.conditions(params)
        for index, (key, value) in enumerate(sorted(filter.meta.items())):
            if not _META_KEY.fullmatch(key):
                problem = "use letters, digits and underscores"
                raise Invalid("A filter's name is not usable.", fields=[FieldError(f"meta.{key[:64]}", problem)])
            wanted = sorted(value) if isinstance(value, frozenset) else [value]
            tests = [self.meta_test(key, one, f"meta_{index}_{turn}", params) for turn, one in enumerate(wanted)]
            within = " OR ".join(tests) or "1 = 0"
            found.append(f"EXISTS (SELECT 1 FROM search_text m WHERE m.number = e.number AND ({within}))")
        return found

    among: str
    """Compares a column with the parameter `numbers`."""

    @abstractmethod
    def numbers(self, numbers: Sequence[int]) -> object:
        """The value of the parameter `numbers`."""

    @abstractmethod
    def meta_test(self, key: str, value: Scalar, name: str, params: dict[str, Any]) -> str:
        """A condition on `search_text m`: its meta has this value, or a list that holds it."""

    @abstractmethod
    def next_change(self, tx: Tx, shelf: int) -> int:
        """A number above every earlier change of the shelf."""

    @abstractmethod
    def put(self, tx: Tx, shelf: int, prepared: Sequence[Prepared], vectors: Vector | None, embedder: int) -> None:
        """Write entries with their postings and vectors."""

    @abstractmethod
    def view(self, tx: Tx, filter: Filter, embedders: Embedders, dimensions: int) -> View:
        """What may be found now; vectors of these embedders count."""

    @abstractmethod
    def set_vectors(self, tx: Tx, pending: Sequence[Pending], vectors: Vector, embedder: int) -> int:
        """Store vectors of entries that have not changed since; how many."""

    @abstractmethod
    def check(self, tx: Tx, shelf: int | None) -> list[str]:
        """Every disagreement between rows and index, in words; of one shelf or of all."""

    def findings(self, tx: Tx, checks: Mapping[str, str], shelf: int | None) -> list[str]:
        """Run queries that count what must not be; each complaint whose count is not zero, with it."""
        found = []
        for complaint, query in checks.items():
            row = tx.one(query, {"shelf": shelf})
            count = int(row["bad"]) if row else 0
            if count:
                found.append(f"{count} {complaint}")
        return found


def listed(embedders: Embedders) -> str:
    """Their numbers as they stand in a statement's text."""
    return ", ".join(str(int(number)) for number in embedders)


def _one_of(column: str, name: str, values: Sequence[str], params: dict[str, Any]) -> str:
    if not values:
        return "1 = 0"
    params |= {f"{name}_{index}": value for index, value in enumerate(values)}
    return f"{column} IN ({', '.join(f':{name}_{index}' for index in range(len(values)))})"


def _waiting(tx: Tx, embedder: int, limit: int, after_shelf: int) -> list[tuple[int, int]]:
    """Who waits, at most `limit`: the embedder of the vectors that they have (0 for none yet) and the shelf."""
    turns: list[tuple[int, int]] = []
    older = _least(tx, "SELECT MIN(embedder) AS least FROM search_entry")
    while older is not None and len(turns) < limit:
        if older != embedder:
            shelves = _waiting_shelves(tx, older, limit - len(turns), after_shelf)
            turns += [(older, shelf) for shelf in shelves]
        sql = "SELECT MIN(embedder) AS least FROM search_entry WHERE embedder > :older"
        older = _least(tx, sql, older=older)
    return turns


def _waiting_shelves(tx: Tx, embedder: int, limit: int, after: int) -> list[int]:
    """Shelves with vectors of that embedder, in a circle that begins behind `after`."""
    # From one to the next along the index: the cost grows with the workspaces that wait, not with their entries.
    sql = "SELECT MIN(shelf) AS least FROM search_entry WHERE embedder = :embedder AND shelf > :after"
    found: list[int] = []
    last = after
    while len(found) < limit:
        shelf = _least(tx, sql, embedder=embedder, after=last)
        if shelf is None and after and last >= after:
            last = 0
            continue
        if shelf is None or shelf in found:
            break
        found.append(shelf)
        last = shelf
    return found


def _least(tx: Tx, sql: str, **params: int) -> int | None:
    row = tx.one(sql, params)
    return None if row is None or row["least"] is None else int(row["least"])
