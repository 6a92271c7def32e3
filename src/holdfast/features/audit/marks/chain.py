"""Owns the hash chain: what a seal covers, and finding out what was done to sealed rows."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from holdfast.features.audit.marks.keys import MARKED, canonical
from holdfast.features.audit.model import ChainProblem, ProblemKind, Witness
from holdfast.storage.database import Row

GENESIS = "0" * 64
_CONTENT = ("number", *MARKED)
# How far a row is looked for, and how many problems are looked into this closely.
_NEARBY = 2000
_CLOSELY = 100


def seal_of(row: Row, sequence: int, previous: str) -> str:
    """SHA-256 over the place in the chain, the seal before it, every content column, and the mark."""
    values = [sequence, previous, *(row[name] for name in _CONTENT)]
    if row["mac"] is not None or row["key_id"] is not None:
        # Events from before they were marked keep the seal that they got then.
        values += [row["key_id"], row["mac"]]
    return hashlib.sha256(canonical(values)).hexdigest()


def seals(rows: Iterable[Row], sequence: int, previous: str) -> Iterator[dict[str, Any]]:
    """Seals for rows of one organization that follow the seal `previous` at `sequence`."""
    for row in rows:
        sequence += 1
        hash = seal_of(row, sequence, previous)
        yield {"number": row["number"], "sequence": sequence, "previous_hash": previous, "hash": hash}
        previous = hash


class Walk:
    """Goes along one chain in order and collects what does not fit."""

    def __init__(
        self,
        proof: Callable[[Row], tuple[ProblemKind, str] | None],
        witnesses: Sequence[Witness] = (),
    ) -> None:
        """`proof` says what is wrong with a row by itself; `witnesses` know seals from elsewhere."""
        self.problems: list[ChainProblem] = []
        self.sequence = 0
        self.events = 0
        self._proof = proof
        self._witnesses: dict[int, list[Witness]] = {}
        for witness in witnesses:
            self._witnesses.setdefault(witness.sequence, []).append(witness)
        self._hash = GENESIS
        self._id: str | None = None

    def visit(self, row: Row) -> None:
        """Check the next row against its own mark and seal, against the row before it, and against the witnesses."""
        sequence = int(row["sequence"])
        if sequence <= self.sequence:
            self.add("added", sequence, str(row["id"]), f"event {row['id']} stands at {sequence} beside another")
            return
        contiguous = sequence == self.sequence + 1
        if not contiguous:
            self._removed(self.sequence + 1, sequence - 1)
        self.events += 1
        if not _sealed(row, sequence):
            self._broken(row, sequence)
        elif (wrong := self._proof(row)) is not None:
            self.add(wrong[0], sequence, str(row["id"]), wrong[1])
        elif contiguous and row["previous_hash"] != self._hash:
            # This row is as it was sealed, so the one before it got another seal afterwards.
            self._resealed()
        self.sequence, self._hash, self._id = sequence, str(row["hash"]), str(row["id"])
        for witness in self._witnesses.pop(sequence, ()):
            if witness.hash != self._hash:
                self.add("altered", sequence, self._id, f"another event stood at {sequence}, says {witness.source}")

    def finish(self, head_sequence: int | None, head_hash: str | None) -> None:
        """Compare the end of the chain with the head that was kept, and with what the witnesses still know."""
        if head_sequence is None or head_hash is None:
            if self.events:
                self.add(
                    "removed", self.sequence, None, "the head of the chain is gone; events after the last may be too"
                )
        elif head_sequence > self.sequence:
            self._removed(self.sequence + 1, head_sequence)
        elif head_sequence < self.sequence:
            message = (
                f"{self.sequence - head_sequence} events stand after the head of the chain (the last is {self._id})"
            )
            self.add("added", self.sequence, self._id, message)
        elif head_hash != self._hash:
            self._resealed()
        beyond = {sequence: known for sequence, known in self._witnesses.items() if sequence > self.sequence}
        if beyond and (head_sequence is None or max(beyond) > head_sequence):
            source = beyond[max(beyond)][0].source
            message = f"the chain went on to {max(beyond)}, says {source}, but ends at {self.sequence}"
            self.add("removed", self.sequence + 1, None, message)

    def _broken(self, row: Row, sequence: int) -> None:
        nearby = range(max(1, sequence - _NEARBY), sequence + _NEARBY)
        for place in nearby if len(self.problems) < _CLOSELY else ():
            if place != sequence and _sealed(row, place):
                message = f"event {row['id']} stands at {sequence} but was sealed at {place}"
                self.add("reordered", sequence, str(row["id"]), message)
                return
        self.add("altered", sequence, str(row["id"]), f"event {row['id']} at {sequence} is not what was sealed")

    def _resealed(self) -> None:
        if self.problems and self.problems[-1].sequence == self.sequence:
            return
        message = f"event {self._id} at {self.sequence} was sealed again after the chain had gone on"
        self.add("altered", self.sequence, self._id, message)

    def _removed(self, first: int, last: int) -> None:
        which = f"the event at {first} is" if first == last else f"the events at {first} to {last} are"
        after = f"after event {self._id}" if self._id else "from the beginning of the chain"
        self.add("removed", first, None, f"{which} missing, {after}")

    def add(self, kind: ProblemKind, sequence: int, event_id: str | None, message: str) -> None:
        """Remember something that is wrong."""
        self.problems.append(ChainProblem(kind, sequence, event_id, message))


def _sealed(row: Row, place: int) -> bool:
    try:
        return bool(seal_of(row, place, str(row["previous_hash"])) == row["hash"])
    except (TypeError, ValueError):
        # A value of a kind that we never write.
        return False
