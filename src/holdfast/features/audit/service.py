"""Owns the audit trail: append in the change's transaction, seal within a second, search, export, verify."""

import asyncio
import builtins
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from holdfast.core.clock import Clock, SystemClock, iso
from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.master_key import KeyRing, MasterKey
from holdfast.features.audit import store
from holdfast.features.audit.denials import Denial, Denials
from holdfast.features.audit.detail import encode
from holdfast.features.audit.marks.heads_file import HeadsFile
from holdfast.features.audit.marks.keys import AuditKeys
from holdfast.features.audit.marks.sealing import BATCH, Sealer
from holdfast.features.audit.marks.verification import verify
from holdfast.features.audit.model import AuditEvent, AuditFilter, ChainHead, Outcome, Verification, Witness
from holdfast.features.audit.visibility import Administered, nothing_administered, seen_workspaces
from holdfast.storage.database import Database, Tx

SEAL_SECONDS = 0.4
# Heads go to the file about every five seconds while events are written.
HEADS_TURNS = 12
MAX_ID = 400
ANY = AuditFilter()

_log = logging.getLogger(__name__)


class Audit:
    """The trail of one installation: a chain for each organization."""

    def __init__(
        self,
        database: Database,
        ring: KeyRing,
        directory: Path,
        clock: Clock | None = None,
        administered: Administered = nothing_administered,
        events: EventBus | None = None,
    ) -> None:
        """`ring` opens the key that events are marked with; heads are written into a file in the `directory`.
        `events` tells followers what kinds of things the sealed events are about.

        `administered` gives the workspaces that a person administers by themselves.
        """
        self._database = database
        self._administered = administered
        self._clock = clock or SystemClock()
        self._keys = AuditKeys(ring, self._clock)
        self._heads = HeadsFile(directory, database.dialect)
        self._sealer = Sealer(database, self._keys, self._heads, self._clock, events or EventBus(database, self._clock))
        self._denials = Denials(self._clock)
        self._stopping = asyncio.Event()

    def record(
        self,
        tx: Tx,
        principal: Principal,
        action: str,
        *,
        resource: str,
        resource_id: str,
        workspace_id: str | None = None,
        outcome: Outcome = "allowed",
        detail: Mapping[str, object] = {},
        times: int = 1,
    ) -> None:
        """Append an event to the principal's chain, with the change that `tx` makes or not at all."""
        values = {
            "id": new_id("aud"),
            "organization_id": principal.organization_id,
            "project_id": principal.project_id,
            "workspace_id": _storable(workspace_id) if workspace_id is not None else None,
            "at": self._clock.now(),
            "actor": principal.actor,
            "actor_name": _storable(principal.name),
            "proof": principal.proof,
            "action": action,
            "resource": resource,
            "resource_id": _storable(resource_id),
            "outcome": outcome,
            "times": times,
            "detail": encode(detail),
        }
        key = self._keys.current or self._sealer.key(tx)
        store.insert(tx, values | {"key_id": key.id, "mac": key.mark(values)})

    async def record_denied(
        self,
        principal: Principal,
        action: str,
        *,
        resource: str,
        resource_id: str,
        workspace_id: str | None = None,
        reason: str = "",
    ) -> None:
        """Append a refusal at once; its repeats within a minute follow as one event that says how many they were."""
        denial = self._denials.note(principal, action, resource, resource_id, workspace_id, reason)
        if denial is not None:
            await self._database.write(lambda tx: denial.record(self, tx, times=1))

    async def list(
        self, principal: Principal, wanted: AuditFilter = ANY, *, cursor: str | None = None, limit: int = 50
    ) -> Page[AuditEvent]:
        """The newest events that match, of what the principal may see."""
        before = int(decode_cursor(cursor, int)[0]) if cursor else None
        rows = await self._database.read(lambda tx: self._page(tx, principal, wanted, before, limit + 1))
        return page_of(rows, limit, lambda event: (event.number,))

    async def check(self, principal: Principal) -> None:
        """Forbidden unless the principal sees any events: told before an export begins, not in the middle of it."""
        await self._database.read(lambda tx: seen_workspaces(tx, principal, self._administered))

    async def export(self, principal: Principal, wanted: AuditFilter = ANY) -> AsyncIterator[str]:
        """Every event that matches as JSON lines, newest first."""
        before: int | None = None
        while True:
            start = before
            rows = await self._database.read(
                partial(self._page, principal=principal, wanted=wanted, before=start, limit=BATCH)
            )
            for event in rows:
                yield json.dumps(as_json(event), separators=(",", ":")) + "\n"
            if len(rows) < BATCH:
                return
            before = rows[-1].number

    async def verify(self, organization_id: str, expected: Sequence[Witness] = ()) -> Verification:
        """Check every event of a chain, that none is missing, and that it goes through the heads known elsewhere."""
        return await verify(self._database, self._keys, self._heads, organization_id, expected)

    async def organizations(self) -> "builtins.list[str]":
        """Every organization that has a chain, or had one by the heads file, for checking them all."""
        there = await self._database.read(store.organizations)
        known = {head.organization_id for head, _ in (await asyncio.to_thread(self._heads.read)).heads}
        return sorted(known.union(there))

    async def heads(self) -> "builtins.list[ChainHead]":
        """How far each chain goes, for keeping elsewhere."""
        rows = await self._database.read(store.heads)
        return [ChainHead(**dict(row)) for row in rows]

    async def accept(self, principal: Principal, reason: str) -> "builtins.list[ChainHead]":
        """Take every chain as it is found and go on from there: the operator's word, kept in the chain itself."""
        principal.require("management")
        principal.require_role("owner")
        said = _storable(reason)

        def work(tx: Tx) -> "builtins.list[ChainHead]":
            self.record(tx, principal, "audit.accepted", resource="audit", resource_id="*", detail={"reason": said})
            found = [self._sealer.accept(tx, organization_id, said) for organization_id in store.organizations(tx)]
            return [head for head in found if head is not None]

        heads = await self._database.write(work)
        try:
            await asyncio.to_thread(self._sealer.append_break, f"the chains were accepted ({said})", heads)
        except OSError as problem:
            raise Unavailable(
                f"The chains are accepted in the store, but {self._heads.path} could not be written "
                f"({problem.strerror}); make it writable and accept once more."
            ) from None
        await self._sealer.write_heads()
        return heads

    async def prepare(self) -> None:
        """Find or make the key that events are marked with, before the first event needs it."""
        await self._sealer.prepare()

    async def seal(self) -> int:
        """Seal what waits for it; how many events that was. Another replica may be doing it already."""
        return await self._sealer.seal()

    async def close(self) -> None:
        """Seal what a command wrote, and write down where the chains stand."""
        await self._sealer.seal()
        await self._sealer.write_heads()

    def reseal(self, tx: Tx, master: MasterKey, *, keep: bool) -> None:
        """Keep the audit key under another master key; `keep` it under the present one too."""
        self._keys.reseal(tx, master, keep=keep)

    async def run(self) -> None:
        """Seal and write summed denials until `stop`; the unsealed tail stays younger than a second."""
        turn = 0
        while not self._stopping.is_set():
            try:
                await self._write_denials(everything=False)
                await self.seal()
                if turn % HEADS_TURNS == 0:
                    await self._sealer.write_heads()
                turn += 1
            except HoldfastError as problem:
                # A full disk or an absent server ends; what waits is sealed then.
                _log.warning("The audit trail could not be sealed: %s", problem.message)
            try:
                await asyncio.wait_for(self._stopping.wait(), SEAL_SECONDS)
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """Write and seal what is left, and end `run`."""
        self._stopping.set()
        await self._write_denials(everything=True)
        await self.close()

    def _page(
        self, tx: Tx, principal: Principal, wanted: AuditFilter, before: int | None, limit: int
    ) -> "builtins.list[AuditEvent]":
        return store.page(
            tx,
            principal.organization_id,
            wanted,
            project_id=principal.project_id,
            workspace_ids=seen_workspaces(tx, principal, self._administered),
            before=before,
            limit=limit,
        )

    async def _write_denials(self, *, everything: bool) -> None:
        due = self._denials.due(everything=everything)
        if due:
            await self._database.write(lambda tx: self._record_all(tx, due))

    def _record_all(self, tx: Tx, due: "builtins.list[tuple[Denial, int]]") -> None:
        for denial, times in due:
            denial.record(self, tx, times=times)


def as_json(event: AuditEvent) -> dict[str, object]:
    """The event as the export and the command line show it."""
    return asdict(event) | {"at": iso(event.at)}


def _storable(text: str) -> str:
    """Text that both stores take: an id may be anything that a caller sent."""
    cleaned = text.replace("\x00", "�").encode("utf-8", "replace").decode()
    return cleaned if len(cleaned) <= MAX_ID else cleaned[:MAX_ID] + "…"
