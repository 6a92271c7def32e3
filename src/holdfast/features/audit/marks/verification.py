"""Owns verifying a chain: every mark, every seal, the head, the checkpoints, and what the heads file knows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.core.clock import iso
from holdfast.features.audit import store
from holdfast.features.audit.marks import chain, key_store
from holdfast.features.audit.marks.heads_file import HeadsFile, Known
from holdfast.features.audit.marks.keys import AuditKey, AuditKeys
from holdfast.features.audit.marks.sealing import BATCH, BEFORE_MARKS
from holdfast.features.audit.model import ChainHead, ChainProblem, ProblemKind, Verification, Witness
from holdfast.storage.database import Database, Row, Tx, Unreadable

_SHOWN = 100
# The heads file follows within seconds; further behind, nobody was writing it.
_BEHIND_MILLIS = 120_000


@dataclass(frozen=True, slots=True)
class _End:
    """What stands after the last sealed row, in the same snapshot."""

    head: Row | None
    unsealed: list[Row]
    strays: list[Row]
    repeated: list[Row]
    standing: int


async def verify(
    database: Database, keys: AuditKeys, file: HeadsFile, organization_id: str, expected: Sequence[Witness] = ()
) -> Verification:
    """Check a chain from its first event to those that are not sealed yet."""
    # Read first: the store only ever goes on from what is written there.
    known, notes = _read(file)
    opened, checkpoints = await database.read(lambda tx: (keys.known(tx), key_store.checkpoints(tx, organization_id)))
    checks = _Checks(opened, checkpoints)
    walk = chain.Walk(checks.proof, [*checks.witnesses(), *_witnesses(known, organization_id, notes), *expected])
    walk.problems += checks.problems

    def look(tx: Tx) -> tuple[list[Row], _End | None]:
        rows = store.sealed_after(tx, organization_id, walk.sequence, BATCH)
        return rows, _end(tx, organization_id, rows, walk.sequence) if len(rows) < BATCH else None

    end: _End | None = None
    while end is None:
        try:
            rows, end = await database.read(look)
        except Unreadable as problem:
            message = f"an event after {walk.sequence} cannot be read: {problem.message}"
            walk.add("altered", walk.sequence + 1, None, message)
            return Verification(organization_id, walk.events, 0, None, tuple(walk.problems), tuple(notes))
        for row in rows:
            walk.visit(row)
    head = end.head
    walk.finish(int(head["sequence"]) if head else None, str(head["hash"]) if head else None)
    _check_end(walk, checks, end)
    walk.problems += _file_problems(known, opened, organization_id)
    notes += _behind(known, organization_id, head)
    problems = checks.sorted_out(walk.problems, notes)
    head_hash = str(head["hash"]) if head else None
    return Verification(organization_id, walk.events, len(end.unsealed), head_hash, tuple(problems), tuple(notes))


class _Checks:
    """What is known of keys and checkpoints, and what follows for each row."""

    def __init__(self, keys: Mapping[str, AuditKey | None], checkpoints: Sequence[Row]) -> None:
        self._keys = keys
        self.problems: list[ChainProblem] = []
        self._valid: list[Row] = []
        self._perhaps = 0
        for row in checkpoints:
            key = keys.get(str(row["key_id"]))
            if key is not None and key.marked_checkpoint(row):
                self._valid.append(row)
            elif key is None and str(row["key_id"]) in keys:
                # It may be ours: what it would vouch for is unproven with it, but nothing is taken on its word.
                self._perhaps = max(self._perhaps, int(row["sequence"]))
                message = (
                    f"the checkpoint at {row['sequence']} is marked with a key that {self._missing(row['key_id'])}"
                )
                self.problems.append(ChainProblem("unproven", int(row["sequence"]), None, message))
            else:
                message = f"the checkpoint at {row['sequence']} is not one that Holdfast made"
                self.problems.append(ChainProblem("altered", int(row["sequence"]), None, message))
        # Up to here the checkpoint's own mark and the hashes vouch for the events.
        self._exempt = max((int(row["sequence"]) for row in self._valid), default=0)
        accepted = [row for row in self._valid if row["reason"] != BEFORE_MARKS]
        self._accepted = accepted[-1] if accepted else None

    def witnesses(self) -> list[Witness]:
        """What the checkpoints know."""
        return [
            Witness(int(row["sequence"]), str(row["hash"]), f"the checkpoint of {iso(int(row['at']))}")
            for row in self._valid
        ]

    def proof(self, row: Row) -> tuple[ProblemKind, str] | None:
        """What is wrong with a row by itself."""
        sequence = row["sequence"]
        if sequence is not None and sequence <= self._exempt:
            return None
        which = f"event {row['id']}" + (f" at {sequence}" if sequence is not None else ", not sealed yet,")
        if row["mac"] is None and sequence is not None and sequence <= self._perhaps:
            return "unproven", f"{which} bears no mark, and the checkpoint after it cannot be checked"
        if row["mac"] is None or row["key_id"] is None:
            return "added", f"{which} bears no mark: Holdfast did not write it"
        key = self._keys.get(str(row["key_id"]))
        if key is None:
            return "unproven", f"{which} is marked with the key {row['key_id']}, which {self._missing(row['key_id'])}"
        return None if key.marked(row) else ("altered", f"{which} is not what was written")

    def head(self, row: Row) -> tuple[ProblemKind, str] | None:
        """What is wrong with a head by itself."""
        key = self._keys.get(str(row["key_id"]))
        if key is not None:
            return None if key.marked_head(row) else ("altered", "the head is not one that Holdfast wrote")
        if row["key_id"] is None or row["mac"] is None:
            return "altered", "the head bears no mark: Holdfast did not write it"
        return "unproven", f"the head is marked with the key {row['key_id']}, which {self._missing(row['key_id'])}"

    def sorted_out(self, problems: Sequence[ChainProblem], notes: list[str]) -> list[ChainProblem]:
        """The problems that nobody has accepted; a lost key is told once, not for each event."""
        problems = _once(problems)
        if self._accepted is None:
            return problems
        until = int(self._accepted["sequence"])
        left = [problem for problem in problems if not 0 < problem.sequence <= until]
        when = iso(int(self._accepted["at"]))
        notes.append(
            f"The chain was accepted up to {until} on {when} ({self._accepted['reason']}), "
            f"with {len(problems) - len(left)} problems."
        )
        return left

    def _missing(self, key_id: object) -> str:
        if str(key_id) in self._keys:
            return "the master key here does not open: bring the right one back"
        return "is not in the store"


def _once(problems: Sequence[ChainProblem]) -> list[ChainProblem]:
    unproven = [problem for problem in problems if problem.kind == "unproven" and problem.event_id is not None]
    if len(unproven) < 2:
        return list(problems)
    told = replace(unproven[-1], message=f"{unproven[-1].message} ({len(unproven) - 1} events before it too)")
    return [*(problem for problem in problems if problem not in unproven), told]


def _end(tx: Tx, organization_id: str, rows: Sequence[Row], sequence: int) -> _End:
    unsealed: list[Row] = []
    while more := store.unsealed_after(tx, organization_id, unsealed[-1]["number"] if unsealed else 0, BATCH):
        unsealed += more
    return _End(
        store.head(tx, organization_id),
        unsealed,
        store.strays(tx, organization_id, _SHOWN),
        store.repeated(tx, organization_id, _SHOWN),
        store.count_sealed(tx, organization_id, int(rows[-1]["sequence"]) if rows else sequence),
    )


def _check_end(walk: chain.Walk, checks: _Checks, end: _End) -> None:
    if end.head is not None and (wrong := checks.head(end.head)) is not None:
        sequence = int(end.head["sequence"])
        if not any(problem.sequence >= sequence for problem in walk.problems):
            walk.add(wrong[0], sequence, None, wrong[1])
    for row in end.unsealed:
        if row["sequence"] is None and (wrong := checks.proof(row)) is not None:
            walk.add(wrong[0], 0, str(row["id"]), wrong[1])
    for row in end.strays:
        message = f"event {row['id']} stands outside the chain, at {row['sequence']!r}"
        walk.add("added", 0, str(row["id"]), message)
    for row in end.repeated:
        walk.add("added", 0, str(row["id"]), f"event {row['id']} is there {row['times']} times")
    if end.standing > walk.events and not any(problem.kind == "added" for problem in walk.problems):
        walk.add("added", 0, None, f"{end.standing - walk.events} events stand at places that others have")


def _read(file: HeadsFile) -> tuple[Known, list[str]]:
    try:
        known = file.read()
    except OSError as problem:
        return Known(), [
            f"The heads file {file.path} cannot be read ({problem.strerror}); nothing was compared with it."
        ]
    if not known.exists:
        return known, [
            f"There is no heads file {file.path}: whether the chain was once longer cannot be told from it. "
            "The next server that starts here begins one."
        ]
    return known, []


def _witnesses(known: Known, organization_id: str, notes: list[str]) -> list[Witness]:
    """Heads that the chain must still go through."""
    found = []
    lost = 0
    for head, breaks in known.heads:
        if head.organization_id != organization_id:
            continue
        later = known.breaks[breaks:]
        if any(head.sequence > each.sequences.get(organization_id, 0) for each in later):
            lost = max(lost, head.sequence)
            continue
        found.append(Witness(head.sequence, head.hash, f"the heads file of {iso(head.sealed_at)}"))
    if lost:
        last = known.breaks[-1]
        notes.append(
            f"On {iso(last.at)}: {last.reason}. The chain went to {lost} before and to "
            f"{last.sequences.get(organization_id, 0)} after; the events between are not in this store."
        )
    return found


def _file_problems(known: Known, keys: Mapping[str, AuditKey | None], organization_id: str) -> list[ChainProblem]:
    problems = []
    if known.unreadable:
        problems.append(ChainProblem("altered", 0, None, f"{known.unreadable} lines of the heads file cannot be read"))
    for head, breaks in known.heads:
        if head.organization_id != organization_id or breaks < len(known.breaks):
            continue
        key = keys.get(str(head.key_id))
        if key is not None and key.marked_head(_row(head)):
            continue
        if str(head.key_id) not in keys:
            message = f"the heads file knows the audit key {head.key_id}, which is gone from the store"
        elif key is None:
            # Said of the events already.
            continue
        else:
            message = f"the heads file has a line about {head.sequence} that Holdfast did not write"
        problems.append(ChainProblem("altered", head.sequence, None, message))
        break
    return problems


def _behind(known: Known, organization_id: str, head: Row | None) -> list[str]:
    last = known.last(organization_id)
    if head is None or not known.exists:
        return []
    if last is None:
        return [f"The heads file says nothing of the organization {organization_id}."]
    if last.sequence < int(head["sequence"]) and int(head["sealed_at"]) - last.sealed_at > _BEHIND_MILLIS:
        return [
            f"The heads file ends at {last.sequence} ({iso(last.sealed_at)}), the chain at {head['sequence']}: "
            "nothing outside the store vouches for the events between."
        ]
    return []


def _row(head: ChainHead) -> Row:
    return {
        "organization_id": head.organization_id,
        "sequence": head.sequence,
        "hash": head.hash,
        "sealed_at": head.sealed_at,
        "mac": head.mac,
    }
