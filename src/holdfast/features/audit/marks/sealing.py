"""Owns the sealer: gives marked events their place in the chain, moves heads, and writes heads outside the store."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from holdfast.core.clock import Clock
from holdfast.engines.events.bus import EventBus
from holdfast.features.audit import store
from holdfast.features.audit.marks import chain, key_store
from holdfast.features.audit.marks.heads_file import Break, HeadsFile
from holdfast.features.audit.marks.keys import AuditKey, AuditKeys
from holdfast.features.audit.model import TOPIC, ChainHead
from holdfast.storage.database import Database, Row, Tx

BATCH = 1000
BEFORE_MARKS = "before events were marked"

_log = logging.getLogger(__name__)


class Sealer:
    """One over all replicas seals at a time; each of them writes the heads into its own file."""

    def __init__(self, database: Database, keys: AuditKeys, heads: HeadsFile, clock: Clock, events: EventBus) -> None:
        self._database = database
        self._events = events
        self._keys = keys
        self._heads = heads
        self._clock = clock
        self._written: dict[str, ChainHead] | None = None
        self._complained: set[str] = set()

    def key(self, tx: Tx) -> AuditKey:
        """The key that events are marked with; the first transaction that asks makes it."""
        return self._keys.current or self._keys.find(tx) or self._begin(tx)

    async def prepare(self) -> None:
        """Find or make the key, and fix what was sealed before events were marked."""
        if self._keys.current is None:
            await self._database.write(self.key)

    async def seal(self) -> int:
        """Seal what waits for it; how many events that was. Another replica may be doing it already."""
        total = 0
        # Chains whose head is not ours are left as they are: a new head would vouch for what somebody made of them.
        broken: set[str] = set()
        while await self._database.read(partial(store.has_unsealed, without=broken)):
            sealed, found = await self._database.write(partial(self._seal_batch, without=frozenset(broken)))
            total += sealed
            if not found <= broken:
                broken |= found
            elif sealed < BATCH:
                break
        self._complain(broken)
        return total

    async def write_heads(self) -> None:
        """Append to the heads file what moved since the last time; a file that cannot be written is complained of."""
        try:
            if self._written is None:
                known = await asyncio.to_thread(self._heads.read)
                self._written = {head.organization_id: head for head, _ in known.heads}
                await self._compare([head for head, breaks in known.heads if breaks == len(known.breaks)])
            rows = await self._database.read(store.heads)
            await asyncio.to_thread(self._append, rows, self._written)
        except OSError as problem:
            if "" not in self._complained:
                _log.warning("The heads file %s cannot be written (%s)", self._heads.path, problem.strerror)
            self._complained.add("")

    def accept(self, tx: Tx, organization_id: str, reason: str) -> ChainHead | None:
        """Take a chain as it is found, from now on: its head is marked again and a checkpoint says why."""
        key = self.key(tx)
        store.become_sealer(tx, wait=True)
        last = store.last(tx, organization_id)
        sequence, previous = (int(last["sequence"]), str(last["hash"])) if last else (0, chain.GENESIS)
        while rows := store.unsealed_after(tx, organization_id, 0, BATCH):
            seals = list(chain.seals(rows, sequence, previous))
            store.seal(tx, seals)
            sequence, previous = seals[-1]["sequence"], seals[-1]["hash"]
        if not sequence:
            return None
        self._checkpoint(tx, key, organization_id, sequence, previous, reason)
        return self._move_head(tx, key, organization_id, sequence, previous)

    def append_break(self, reason: str, heads: Sequence[ChainHead]) -> None:
        """Write into the heads file that chains go on from here, whatever it said before."""
        sequences = {head.organization_id: head.sequence for head in heads}
        self._heads.append_break(Break(self._clock.now(), reason, sequences))

    def _begin(self, tx: Tx) -> AuditKey:
        store.become_sealer(tx, wait=True)
        known = self._keys.known(tx)
        found = self._keys.find(tx)
        if found is not None:
            return found
        key = self._keys.make(tx)
        if known:
            # Whoever took the key away must not get a fresh start by it: what was marked with it stays unproven.
            _log.warning(
                "The audit key %s cannot be opened with the master key here; new events are marked with %s. "
                "Bring the master key back, or run `holdfast audit accept`.",
                ", ".join(known),
                key.id,
            )
            return key
        while rows := store.unsealed(tx, BATCH):
            self._seal(tx, key, rows, frozenset(), trusting=True)
        for head in store.heads(tx):
            organization_id, sequence, hash = str(head["organization_id"]), int(head["sequence"]), str(head["hash"])
            self._checkpoint(tx, key, organization_id, sequence, hash, BEFORE_MARKS)
            self._move_head(tx, key, organization_id, sequence, hash)
        return key

    def _seal_batch(self, tx: Tx, without: frozenset[str]) -> tuple[int, frozenset[str]]:
        if not store.become_sealer(tx):
            return 0, without
        key = self.key(tx)
        return self._seal(tx, key, store.unsealed(tx, BATCH, without=without), without, trusting=False)

    def _seal(
        self, tx: Tx, key: AuditKey, rows: Sequence[Row], broken: frozenset[str], *, trusting: bool
    ) -> tuple[int, frozenset[str]]:
        by_organization = itemgetter("organization_id")
        sealed = 0
        for organization_id, group in groupby(sorted(rows, key=by_organization), by_organization):
            head = store.head(tx, organization_id)
            if not trusting and not self._ours(tx, organization_id, head, key):
                broken |= {organization_id}
                continue
            sequence, previous = (int(head["sequence"]), str(head["hash"])) if head else (0, chain.GENESIS)
            events = list(group)
            seals = list(chain.seals(events, sequence, previous))
            store.seal(tx, seals)
            self._move_head(tx, key, organization_id, seals[-1]["sequence"], seals[-1]["hash"])
            # Told here, once for many, rather than with each event: nobody who makes a change waits for it.
            for noun in sorted({str(each["resource"]) for each in events}):
                self._events.publish(tx, f"{TOPIC}.{noun}", organization_id=organization_id)
            sealed += len(seals)
        return sealed, broken

    def _ours(self, tx: Tx, organization_id: str, head: Row | None, key: AuditKey) -> bool:
        if head is None:
            return not store.has_sealed(tx, organization_id)
        bearer = key if head["key_id"] == key.id else self._keys.known(tx).get(str(head["key_id"]))
        return bearer is not None and bearer.marked_head(head) and store.stands(tx, organization_id, head)

    def _move_head(self, tx: Tx, key: AuditKey, organization_id: str, sequence: int, hash: str) -> ChainHead:
        row: dict[str, Any] = {
            "organization_id": organization_id,
            "sequence": sequence,
            "hash": hash,
            "sealed_at": self._clock.now(),
            "key_id": key.id,
        }
        row["mac"] = key.mark_head(row)
        store.move_head(tx, row)
        return ChainHead(**row)

    def _checkpoint(self, tx: Tx, key: AuditKey, organization_id: str, sequence: int, hash: str, reason: str) -> None:
        row: dict[str, Any] = {
            "organization_id": organization_id,
            "sequence": sequence,
            "hash": hash,
            "reason": reason,
            "at": self._clock.now(),
            "key_id": key.id,
        }
        key_store.insert_checkpoint(tx, row | {"mac": key.mark_checkpoint(row)})

    async def _compare(self, heads: Sequence[ChainHead]) -> None:
        """Say at the start what `verify` would find anyway: that a chain is shorter than it was, or another."""
        longest: dict[str, ChainHead] = {}
        for head in heads:
            if head.sequence >= longest.get(head.organization_id, head).sequence:
                longest[head.organization_id] = head

        def differing(tx: Tx) -> list[str]:
            return [id for id, head in longest.items() if store.seal_at(tx, id, head.sequence) != head.hash]

        for organization_id in await self._database.read(differing):
            _log.error(
                "The audit chain of %s is not the one that %s knows. Run `holdfast audit verify`.",
                organization_id,
                self._heads.path,
            )

    def _append(self, rows: Sequence[Row], written: dict[str, ChainHead]) -> None:
        heads = [ChainHead(**row) for row in rows]
        moved = [head for head in heads if head.mac is not None and written.get(head.organization_id) != head]
        self._heads.append(moved)
        written |= {head.organization_id: head for head in moved}

    def _complain(self, broken: set[str]) -> None:
        for organization_id in sorted(broken - self._complained):
            _log.error(
                "The audit chain of %s has a head that Holdfast did not write; its events wait unsealed. "
                "Run `holdfast audit verify`.",
                organization_id,
            )
        self._complained |= broken
