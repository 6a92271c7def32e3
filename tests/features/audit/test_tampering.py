"""The proof that whoever rewrites the audit tables without the key is found, whatever one or two things they do."""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.features.audit.marks import chain
from holdfast.storage.database import Database, Tx
from tests.features.audit.test_audit import OTHER, OWNER, write
from tests.support.features.audit import audit_trail
from tests.support.properties import examples

Rows = list[dict[str, Any]]
State = dict[str, Rows]
Tampering = Callable[[State, State], None]
"""Changes the first state; the second is what the store held some time before, for putting things back."""

TABLES = ("audit_event", "audit_head", "audit_key", "audit_checkpoint")
ORGANIZATIONS = ("org_1", "org_2")
# An event that is not sealed yet has no place to be missed from, and its number is only the order it came in.
SEALED_ONLY = ("number",)
EDITS: Mapping[str, Sequence[object]] = {
    "number": (1000,),
    "id": ("aud_other", ""),
    "organization_id": ("org_1", "org_2", "org_9"),
    "project_id": ("proj_other", None),
    "workspace_id": ("ws_other", None),
    "at": (0, 4_000_000_000_000),
    "actor": ("usr_other", ""),
    "actor_name": ("Eve",),
    "proof": ("key",),
    "action": ("thing.removed",),
    "resource": ("key",),
    "resource_id": ("thing_other",),
    "outcome": ("denied",),
    "times": (2, -1),
    "detail": ('{"a":1}', "not JSON"),
    "key_id": ("0" * 16, None),
    "mac": ("0" * 64, None),
    "sequence": (0, -1, 2, 99, None),
    "previous_hash": ("0" * 64, None),
    "hash": ("0" * 64, None),
}


def sealed(state: State, organization_id: str | None = None) -> Rows:
    found = [row for row in state["audit_event"] if isinstance(row["sequence"], int) and row["sequence"] > 0]
    return [row for row in found if organization_id in (None, row["organization_id"])]


def head(state: State, organization_id: str) -> dict[str, Any] | None:
    return next((row for row in state["audit_head"] if row["organization_id"] == organization_id), None)


def rechain(state: State, _: State) -> None:
    """Give every chain gapless places and fitting seals, and point its head at the end: all that needs no key."""
    for organization_id in ORGANIZATIONS:
        rows = sorted(sealed(state, organization_id), key=lambda row: (row["sequence"], str(row["number"])))
        seals = list(chain.seals(rows, 0, chain.GENESIS))
        for row, seal in zip(rows, seals, strict=True):
            row.update(seal)
        found = head(state, organization_id)
        if found is not None and seals:
            found.update(sequence=seals[-1]["sequence"], hash=seals[-1]["hash"])


def edit(number: int, column: str, choice: int) -> Tampering:
    def tamper(state: State, _: State) -> None:
        rows = sealed(state) if column in SEALED_ONLY else state["audit_event"]
        if rows:
            values = EDITS[column]
            rows[number % len(rows)][column] = values[choice % len(values)]

    return tamper


def delete(number: int) -> Tampering:
    def tamper(state: State, _: State) -> None:
        rows = sealed(state)
        if rows:
            state["audit_event"].remove(rows[number % len(rows)])

    return tamper


def insert(number: int, place: str, same_id: bool) -> Tampering:
    """Another row like one that is there: planted, duplicated or replayed."""

    def tamper(state: State, _: State) -> None:
        if not state["audit_event"]:
            return
        row = dict(state["audit_event"][number % len(state["audit_event"])])
        row["number"] = max(int(each["number"]) for each in state["audit_event"]) + 1
        if not same_id:
            row["id"] = f"aud_planted_{number}"
        rows = sealed(state, row["organization_id"])
        last = max((each["sequence"] for each in rows), default=0)
        row["sequence"] = {"last": last + 1, "zero": 0, "negative": -5}.get(place)
        if place == "unsealed":
            row |= {"previous_hash": None, "hash": None}
        state["audit_event"].append(row)

    return tamper


def reorder(one: int, other: int) -> Tampering:
    def tamper(state: State, _: State) -> None:
        rows = sealed(state, "org_1")
        if rows:
            first, second = rows[one % len(rows)], rows[other % len(rows)]
            first["sequence"], second["sequence"] = second["sequence"], first["sequence"]

    return tamper


def renumber(number: int, by: int) -> Tampering:
    def tamper(state: State, _: State) -> None:
        rows = sealed(state, "org_1")
        for row in rows[number % (len(rows) or 1) :]:
            row["sequence"] += by

    return tamper


def truncate(number: int, put_back: bool) -> Tampering:
    """Cut the end off and move the head back: to where the chain ends now, or to a head that once was there."""

    def tamper(state: State, before: State) -> None:
        old = head(before, "org_1")
        assert old is not None
        rows = sealed(state, "org_1")
        until = old["sequence"] if put_back else number % (len(rows) or 1)
        for row in rows:
            if row["sequence"] > until:
                state["audit_event"].remove(row)
        found = head(state, "org_1")
        last = next((row for row in sealed(state, "org_1") if row["sequence"] == until), None)
        if found is not None and put_back:
            found.update(old)
        elif found is not None and last is not None:
            found.update(sequence=until, hash=last["hash"])

    return tamper


def exchange(one: int, other: int) -> Tampering:
    """Swap an event of one organization for one of another, in its place."""

    def tamper(state: State, _: State) -> None:
        first, second = sealed(state, "org_1"), sealed(state, "org_2")
        if first and second:
            a, b = first[one % len(first)], second[other % len(second)]
            for name in ("organization_id", "sequence", "previous_hash", "hash"):
                a[name], b[name] = b[name], a[name]

    return tamper


def unseal(number: int) -> Tampering:
    def tamper(state: State, _: State) -> None:
        rows = sealed(state)
        if rows:
            rows[number % len(rows)].update(sequence=None, previous_hash=None, hash=None)

    return tamper


def empty(*tables: str) -> Tampering:
    def tamper(state: State, _: State) -> None:
        for table in tables:
            # What waits for its seal stays: see SEALED_ONLY.
            kept = [row for row in state[table] if table == "audit_event" and row not in sealed(state)]
            state[table][:] = kept

    return tamper


def edit_head(column: str) -> Tampering:
    def tamper(state: State, _: State) -> None:
        for row in state["audit_head"][:1]:
            other = {"sequence": row["sequence"] + 1, "sealed_at": row["sealed_at"] + 1}
            row[column] = other.get(column, "0" * 64)

    return tamper


def checkpoint(number: int) -> Tampering:
    """Say that what is there was always there."""

    def tamper(state: State, _: State) -> None:
        rows = sealed(state, "org_1")
        if rows:
            row = rows[number % len(rows)]
            planted = {"organization_id": "org_1", "sequence": row["sequence"], "hash": row["hash"]}
            planted |= {"reason": "before events were marked", "at": 1, "key_id": row["key_id"], "mac": row["mac"]}
            state["audit_checkpoint"].append(planted)

    return tamper


def spoil_key(state: State, _: State) -> None:
    for row in state["audit_key"]:
        row["ciphertext"] = bytes(48)


_numbers = st.integers(0, 30)
_tamperings: st.SearchStrategy[Tampering] = st.one_of(
    st.builds(edit, _numbers, st.sampled_from(sorted(EDITS)), st.integers(0, 4)),
    st.builds(delete, _numbers),
    st.builds(insert, _numbers, st.sampled_from(["last", "unsealed", "zero", "negative", "none"]), st.booleans()),
    st.builds(reorder, _numbers, _numbers),
    st.builds(renumber, _numbers, st.sampled_from([-1, 1, 5])),
    st.builds(truncate, _numbers, st.booleans()),
    st.builds(exchange, _numbers, _numbers),
    st.builds(unseal, _numbers),
    st.builds(edit_head, st.sampled_from(["sequence", "hash", "sealed_at", "key_id", "mac"])),
    st.builds(checkpoint, _numbers),
    st.sampled_from(
        [
            empty("audit_event", "audit_head"),
            empty("audit_event", "audit_head", "audit_key"),
            empty("audit_head"),
            empty("audit_key"),
            spoil_key,
        ]
    ),
)


def lift(tx: Tx) -> None:
    """Take away every guard that the store has of its own."""
    for table in TABLES:
        tx.execute(f"CREATE TABLE lifted AS SELECT * FROM {table}")
        tx.execute(f"DROP TABLE {table}")
        tx.execute(f"ALTER TABLE lifted RENAME TO {table}")


def load(tx: Tx) -> State:
    return {table: [dict(row) for row in tx.all(f"SELECT * FROM {table}")] for table in TABLES}


def store(tx: Tx, state: State) -> None:
    for table in TABLES:
        tx.execute(f"DELETE FROM {table}")
        for row in state[table]:
            names = ", ".join(row)
            tx.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join(':' + name for name in row)})", row)


def ordered(state: State) -> dict[str, list[str]]:
    return {table: sorted(repr(sorted(row.items())) for row in rows) for table, rows in state.items()}


class Prepared:
    """Two chains with a heads file, the older state that somebody kept, and what waits for its seal."""

    def __init__(self, database: Database, directory: Path) -> None:
        self._database = database
        self.audit = audit_trail(database, directory=directory)
        self.old: State = {}
        self.now: State = {}

    async def prepare(self) -> None:
        await write(self._database, self.audit, OWNER, 3)
        await write(self._database, self.audit, OTHER, 2)
        await self.audit.close()
        self.old = await self._database.read(load)
        await write(self._database, self.audit, OWNER, 4)
        await write(self._database, self.audit, OTHER, 2)
        await self.audit.close()
        await write(self._database, self.audit, OWNER, 2)
        await self._database.write(lift)
        self.now = await self._database.read(load)

    async def found(self) -> list[str]:
        verified = [await self.audit.verify(each) for each in await self.audit.organizations()]
        return [problem.message for each in verified for problem in each.problems]


# The store of a test is the same for all its examples.
_prepared: dict[Path, Prepared] = {}


@pytest.mark.slow
@given(tamperings=st.lists(_tamperings, max_size=2), chained=st.booleans())
@example(tamperings=[], chained=False)
@example(tamperings=[], chained=True)
@examples(120)
async def test_whatever_one_or_two_things_somebody_does_is_found(
    database: Database, tmp_path: Path, tamperings: list[Tampering], chained: bool
) -> None:
    if tmp_path not in _prepared:
        _prepared[tmp_path] = Prepared(database, tmp_path)
        await _prepared[tmp_path].prepare()
    prepared = _prepared[tmp_path]
    state = copy.deepcopy(prepared.now)
    for tamper in tamperings:
        tamper(state, prepared.old)
    if chained:
        rechain(state, prepared.old)
    await database.write(lambda tx: store(tx, state))
    found = await prepared.found()
    assert bool(found) == (ordered(state) != ordered(prepared.now)), found
