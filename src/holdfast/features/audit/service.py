"""Owns the audit trail: append in the change's transaction, seal within a second, search, export, verify."""

import asyncio
import builtins
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import groupby
from operator import itemgetter

from holdfast.core.clock import Clock, SystemClock, iso
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.features.audit import chain, store
from holdfast.features.audit.denials import Denial, Denials
from holdfast.features.audit.detail import encode
from holdfast.features.audit.model import AuditEvent, AuditFilter, Outcome, Verification
from holdfast.storage.database import Database, Row, Tx

BATCH = 1000
SEAL_SECONDS = 0.4
MAX_ID = 400
ANY = AuditFilter()

_log = logging.getLogger(__name__)


class Audit:
    """The trail of one installation: a chain for each organization."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()
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
        store.insert(tx, values)

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
        principal.require("management")
        before = int(decode_cursor(cursor, int)[0]) if cursor else None
        rows = await self._database.read(lambda tx: _page(tx, principal, wanted, before, limit + 1))
        return page_of(rows, limit, lambda event: (event.number,))

    async def export(self, principal: Principal, wanted: AuditFilter = ANY) -> AsyncIterator[str]:
        """Every event that matches as JSON lines, newest first."""
        principal.require("management")
        before: int | None = None
        while True:
            start = before
            rows = await self._database.read(
                partial(_page, principal=principal, wanted=wanted, before=start, limit=BATCH)
            )
            for event in rows:
                yield json.dumps(as_json(event), separators=(",", ":")) + "\n"
            if len(rows) < BATCH:
                return
            before = rows[-1].number

    async def verify(self, organization_id: str) -> Verification:
        """Check every sealed event of a chain, and that none is missing at its end."""
        walk = chain.Walk()

        def look(tx: Tx) -> "tuple[builtins.list[Row], Row | None, int]":
            # One snapshot: the head belongs to these rows, however far the sealer has got meanwhile.
            rows = store.sealed_after(tx, organization_id, walk.sequence, BATCH)
            return rows, store.head(tx, organization_id), store.count_unsealed(tx, organization_id)

        while True:
            rows, head, unsealed = await self._database.read(look)
            for row in rows:
                walk.visit(row)
            if len(rows) < BATCH:
                break
        head_hash = str(head["hash"]) if head else None
        walk.finish(int(head["sequence"]) if head else None, head_hash)
        return Verification(organization_id, walk.events, unsealed, head_hash, tuple(walk.problems))

    async def organizations(self) -> "builtins.list[str]":
        """Every organization that has a chain, for checking them all."""
        return await self._database.read(store.organizations)

    async def seal(self) -> int:
        """Seal what waits for it; how many events that was. Another replica may be doing it already."""
        total = 0
        while await self._database.read(store.has_unsealed):
            sealed = await self._database.write(self._seal_batch)
            total += sealed
            if sealed < BATCH:
                break
        return total

    async def run(self) -> None:
        """Seal and write summed denials until `stop`; the unsealed tail stays younger than a second."""
        while not self._stopping.is_set():
            try:
                await self._write_denials(everything=False)
                await self.seal()
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
        await self.seal()

    async def _write_denials(self, *, everything: bool) -> None:
        due = self._denials.due(everything=everything)
        if due:
            await self._database.write(lambda tx: self._record_all(tx, due))

    def _record_all(self, tx: Tx, due: "builtins.list[tuple[Denial, int]]") -> None:
        for denial, times in due:
            denial.record(self, tx, times=times)

    def _seal_batch(self, tx: Tx) -> int:
        if not store.become_sealer(tx):
            return 0
        rows = store.unsealed(tx, BATCH)
        by_organization = itemgetter("organization_id")
        for organization_id, group in groupby(sorted(rows, key=by_organization), by_organization):
            head = store.head(tx, organization_id)
            sequence, previous = (int(head["sequence"]), str(head["hash"])) if head else (0, chain.GENESIS)
            seals = list(chain.seals(group, sequence, previous))
            store.seal(tx, seals)
            store.move_head(tx, organization_id, seals[-1]["sequence"], seals[-1]["hash"], self._clock.now())
        return len(rows)


def as_json(event: AuditEvent) -> dict[str, object]:
    """The event as the export and the command line show it."""
    return asdict(event) | {"at": iso(event.at)}


def _page(tx: Tx, principal: Principal, wanted: AuditFilter, before: int | None, limit: int) -> "list[AuditEvent]":
    return store.page(
        tx,
        principal.organization_id,
        wanted,
        project_id=principal.project_id,
        workspace_ids=principal.workspace_ids,
        before=before,
        limit=limit,
    )


def _storable(text: str) -> str:
    """Text that both stores take: an id may be anything that a caller sent."""
    cleaned = text.replace("\x00", "�").encode("utf-8", "replace").decode()
    return cleaned if len(cleaned) <= MAX_ID else cleaned[:MAX_ID] + "…"
