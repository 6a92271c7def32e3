"""Owns the hash chain: what a seal covers, and finding out what was done to sealed rows."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.features.audit.model import Problem
from holdfast.storage.database import Row

GENESIS = "0" * 64
_CONTENT = (
    "number",
    "id",
    "organization_id",
    "project_id",
    "workspace_id",
    "at",
    "actor",
    "actor_name",
    "proof",
    "action",
    "resource",
    "resource_id",
    "outcome",
    "times",
    "detail",
)
# How far a row is looked for, and how many problems are looked into this closely.
_NEARBY = 2000
_CLOSELY = 100


def seal_of(row: Row, sequence: int, previous: str) -> str:
    """SHA-256 over the place in the chain, the seal before it, and every content column."""
    canonical = json.dumps([sequence, previous, *(row[name] for name in _CONTENT)], separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def seals(rows: Iterable[Row], sequence: int, previous: str) -> Iterator[dict[str, Any]]:
    """Seals for rows of one organization that follow the seal `previous` at `sequence`."""
    for row in rows:
        sequence += 1
        hash = seal_of(row, sequence, previous)
        yield {"number": row["number"], "sequence": sequence, "previous_hash": previous, "hash": hash}
        previous = hash


class Walk:
    """Goes along one chain in order and collects what does not fit."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.sequence = 0
        self.events = 0
        self._hash = GENESIS
        self._id: str | None = None
        self._numbers = 0

    def visit(self, row: Row) -> None:
        """Check the next row against its own seal and against the row before it."""
        sequence = int(row["sequence"])
        if sequence > self.sequence + 1:
            self._removed(self.sequence + 1, sequence - 1)
            contiguous = False
        else:
            contiguous = True
        self.events += 1
        if seal_of(row, sequence, str(row["previous_hash"])) != row["hash"]:
            self._broken(row, sequence)
        elif contiguous and row["previous_hash"] != self._hash:
            # This row is as it was sealed, so the one before it got another seal afterwards.
            self._resealed()
        self.sequence, self._hash, self._id = sequence, str(row["hash"]), str(row["id"])

    def finish(self, head_sequence: int | None, head_hash: str | None) -> None:
        """Compare the end of the chain with the head that was kept."""
        if head_sequence is None or head_hash is None:
            if self.events:
                self._add(
                    "removed", self.sequence, None, "the head of the chain is gone; events after the last may be too"
                )
        elif head_sequence > self.sequence:
            self._removed(self.sequence + 1, head_sequence)
        elif head_sequence < self.sequence:
            message = (
                f"{self.sequence - head_sequence} events stand after the head of the chain (the last is {self._id})"
            )
            self._add("added", self.sequence, self._id, message)
        elif head_hash != self._hash:
            self._resealed()

    def _broken(self, row: Row, sequence: int) -> None:
        nearby = range(max(1, sequence - _NEARBY), sequence + _NEARBY)
        for place in nearby if len(self.problems) < _CLOSELY else ():
            if place != sequence and seal_of(row, place, str(row["previous_hash"])) == row["hash"]:
                message = f"event {row['id']} stands at {sequence} but was sealed at {place}"
                self._add("reordered", sequence, str(row["id"]), message)
                return
        self._add("altered", sequence, str(row["id"]), f"event {row['id']} at {sequence} is not what was sealed")

    def _resealed(self) -> None:
        if self.problems and self.problems[-1].sequence == self.sequence:
            return
        message = f"event {self._id} at {self.sequence} was sealed again after the chain had gone on"
        self._add("altered", self.sequence, self._id, message)

    def _removed(self, first: int, last: int) -> None:
        which = f"the event at {first} is" if first == last else f"the events at {first} to {last} are"
        after = f"after event {self._id}" if self._id else "from the beginning of the chain"
        self._add("removed", first, None, f"{which} missing, {after}")

    def _add(self, kind: Any, sequence: int, event_id: str | None, message: str) -> None:
        self.problems.append(Problem(kind, sequence, event_id, message))
