"""Owns usage: what each key, project and user used by week, counted in memory and kept every second."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from holdfast.core.access import at_least
from holdfast.core.clock import Clock, SystemClock, iso
from holdfast.core.errors import FieldError, HoldfastError, Invalid, RateLimited
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, id_in_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.features.usage import store
from holdfast.features.usage.model import (
    DAY_MILLIS,
    GROUPINGS,
    WEEK_MILLIS,
    Budget,
    Grouping,
    Taken,
    UsageEntry,
    UsageFilter,
    UsageKind,
    UsageRow,
    day_of,
    week_of,
)
from holdfast.storage.database import Database, Tx

FLUSH_SECONDS = 1.0
DEFAULT_GROUPING: tuple[Grouping, ...] = ("week", "actor", "project")
ANY = UsageFilter()
_TOKENS: tuple[UsageKind, ...] = ("tokens_in", "tokens_out")
BUDGETED = ("mcp", "rest", "cli")
"""The ways in whose tokens a week's budget pays: questions. Chats through endpoints are the endpoints' own affair."""
_KEY = ("organization_id", "week", "day", "actor", "project_id", "workspace_id", "source", "model", "kind")

_Counter = tuple[str, int, int, str, str, str, str, str, str]
_log = logging.getLogger(__name__)


class Spenders(Protocol):
    """Every actor that spends the same person's budget: the person, and the keys they made."""

    def __call__(self, tx: Tx, principal: Principal, /) -> Collection[str]: ...


def _alone(tx: Tx, principal: Principal) -> Collection[str]:
    """Everybody spends their own."""
    return (principal.actor,)


class Usage:
    """Counters of every process on the store. A process that is killed loses at most its last second of counting."""

    def __init__(
        self,
        database: Database,
        clock: Clock | None = None,
        spenders: Spenders = _alone,
        events: EventBus | None = None,
    ) -> None:
        """`spenders` gives every actor that spends the same person's budget: the person, and the keys they made."""
        self._database = database
        self._spenders = spenders
        self._clock = clock or SystemClock()
        self._events = events or EventBus(database, self._clock)
        self._counted: dict[_Counter, float] = {}
        self._week = self._day = 0
        self._logged: list[UsageEntry] = []
        self._flushing = asyncio.Lock()
        self._stopping = asyncio.Event()

    def count(
        self,
        principal: Principal,
        kind: UsageKind,
        amount: float = 1,
        *,
        source: str = "",
        workspace_id: str | None = None,
        project_id: str | None = None,
        model: str = "",
    ) -> None:
        """Add to what the principal used this week; `source` is the way it came: `rest`, `mcp`, `chat`, `cli`."""
        amounts: dict[UsageKind, float] = {kind: amount}
        self.count_all(principal, amounts, source=source, workspace_id=workspace_id, project_id=project_id, model=model)

    def count_all(
        self,
        principal: Principal,
        amounts: Mapping[UsageKind, float],
        *,
        source: str = "",
        workspace_id: str | None = None,
        project_id: str | None = None,
        model: str = "",
    ) -> None:
        """Add several amounts of one call at once; nothing is kept of those that are 0."""
        now = self._clock.now()
        if not self._day <= now < self._day + DAY_MILLIS:
            self._week, self._day = week_of(now), day_of(now)
        week, day, counted = self._week, self._day, self._counted
        organization, actor = principal.organization_id, principal.actor
        project, workspace = project_id or principal.project_id or "", workspace_id or ""
        for kind, amount in amounts.items():
            if amount:
                counter = (organization, week, day, actor, project, workspace, source, model, kind)
                counted[counter] = counted.get(counter, 0) + amount

    def log(
        self,
        principal: Principal,
        *,
        source: str,
        operation: str,
        model: str,
        tokens_in: int,
        tokens_out: int,
        cost: float = 0.0,
        workspace_id: str | None = None,
        project_id: str | None = None,
    ) -> None:
        """Keep one call that used a model, and count it with its tokens and cost."""
        amounts: Mapping[UsageKind, float] = {
            "model_calls": 1,
            "tokens_in": tokens_in,
            "tokens_out": tokens_out,
            "cost": cost,
        }
        self.count_all(principal, amounts, source=source, workspace_id=workspace_id, project_id=project_id, model=model)
        entry = UsageEntry(
            id=new_id("use"),
            organization_id=principal.organization_id,
            at=self._clock.now(),
            actor=principal.actor,
            project_id=project_id or principal.project_id or "",
            workspace_id=workspace_id or "",
            source=source,
            operation=operation,
            model=model,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=cost,
        )
        self._logged.append(entry)

    async def budget(self, principal: Principal, weekly_tokens: int) -> Budget:
        """Where the person behind the principal stands with this week's tokens.

        Other processes' last second is not in it yet.
        """
        week, organization = week_of(self._clock.now()), principal.organization_id

        def work(tx: Tx) -> tuple[Collection[str], float]:
            actors = self._spenders(tx, principal)
            return actors, store.total(tx, organization, week, actors=actors, sources=BUDGETED, kinds=_TOKENS)

        actors, stored = await self._database.glance(work)
        unsaved = sum(
            amount
            for (whose, then, _, actor, _, _, source, _, kind), amount in self._counted.items()
            if whose == organization and then == week and actor in actors and source in BUDGETED and kind in _TOKENS
        )
        return Budget(weekly_tokens, round(stored + unsaved), week + WEEK_MILLIS)

    async def check_budget(self, principal: Principal, weekly_tokens: int) -> Budget:
        """The same, or RateLimited when nothing is left of it."""
        budget = await self.budget(principal, weekly_tokens)
        if budget.remaining == 0:
            wait = (budget.resets_at - self._clock.now()) / 1000
            taken = Taken(False, weekly_tokens, 0, budget.resets_at, wait)
            raise RateLimited(
                f"This week's budget of {weekly_tokens} tokens is used up; it begins anew on Monday 00:00 UTC, "
                f"{iso(budget.resets_at)}.",
                code="budget_exceeded",
                headers=taken.headers(),
            )
        return budget

    async def report(
        self, principal: Principal, wanted: UsageFilter = ANY, group_by: Sequence[Grouping] = DEFAULT_GROUPING
    ) -> list[UsageRow]:
        """Sums by kind and by the groupings, of what the principal may see."""
        unknown = [grouping for grouping in group_by if grouping not in GROUPINGS]
        if unknown:
            problem = f"{unknown[0]!r} is none of {', '.join(GROUPINGS)}"
            raise Invalid("Usage cannot be grouped that way.", fields=[FieldError("group_by", problem)])
        await self.flush()
        grouped = [*dict.fromkeys(group_by)]
        grouped += [] if "kind" in grouped else ["kind"]
        return await self._database.read(
            lambda tx: store.report(tx, principal, wanted, grouped, self._seen_actors(tx, principal))
        )

    async def entries(
        self, principal: Principal, wanted: UsageFilter = ANY, *, cursor: str | None = None, limit: int = 50
    ) -> Page[UsageEntry]:
        """The calls that used a model, newest first."""
        before = id_in_cursor(cursor, "use") if cursor else None
        await self.flush()

        def work(tx: Tx) -> list[UsageEntry]:
            return store.entries(tx, principal, wanted, before, limit + 1, self._seen_actors(tx, principal))

        rows = await self._database.read(work)
        return page_of(rows, limit, lambda entry: (entry.id,))

    def _seen_actors(self, tx: Tx, principal: Principal) -> Collection[str] | None:
        """Whose usage the principal sees; None: everybody's within their reach. Whoever manages nothing sees their own.

        A member's own is also what the keys that they made used.
        """
        if principal.is_person:
            return None if at_least(principal.role, "admin") else self._spenders(tx, principal)
        return None if "management" in principal.scopes else (principal.actor,)

    def of_actors(self, tx: Tx, organization_id: str, actors: Collection[str], since: int) -> dict[UsageKind, float]:
        """What these actors used since the week of a moment, by kind, as far as it was flushed."""
        return store.of_actors(tx, organization_id, actors, week_of(since))

    async def flush(self) -> None:
        """Keep what was counted up to now."""
        async with self._flushing:
            counted, self._counted = self._counted, {}
            logged, self._logged = self._logged, []
            if not counted and not logged:
                return
            try:
                await self._database.write(lambda tx: self._keep(tx, counted, logged))
            except HoldfastError:
                # Nothing was kept: count it with what came meanwhile, and try again in a second.
                for counter, amount in counted.items():
                    self._counted[counter] = self._counted.get(counter, 0) + amount
                self._logged[:0] = logged
                raise

    async def run(self) -> None:
        """Flush every second until `stop`."""
        while not self._stopping.is_set():
            try:
                await self.flush()
            except HoldfastError as problem:
                _log.warning("Usage could not be kept: %s", problem.message)
            try:
                await asyncio.wait_for(self._stopping.wait(), FLUSH_SECONDS)
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """Keep the rest and end `run`."""
        self._stopping.set()
        await self.flush()

    def _keep(self, tx: Tx, counted: Mapping[_Counter, float], logged: Sequence[UsageEntry]) -> None:
        # In one order everywhere, so that replicas never wait for each other in a circle.
        rows: list[dict[str, Any]] = [
            {**dict(zip(_KEY, counter, strict=True)), "amount": float(amount)}
            for counter, amount in sorted(counted.items())
        ]
        if rows:
            store.add(tx, rows)
        if logged:
            store.log(tx, [asdict(entry) for entry in logged])
        # Only where a model was used: whoever looks at a report makes a request too, and must not be told of that.
        for organization_id in sorted({entry.organization_id for entry in logged}):
            self._events.publish(tx, "usage.logged", organization_id=organization_id)
