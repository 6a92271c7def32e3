"""Owns what research in chats may cost: 45 calls a minute for each project, and none for one just made."""

import hashlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import RateLimited
from holdfast.core.text import jsontext
from holdfast.core.tools.alias import AliasTarget
from holdfast.core.tools.outcome import AnsweredCall, Outcome
from holdfast.core.tools.tool import ToolCall
from holdfast.features.usage.model import Limit
from holdfast.features.usage.window import LastMinute
from holdfast.storage.database import Database, Tx

CALLS_PER_MINUTE = 45
KEPT_MILLIS = 5 * 60 * 1000


class ResearchBudget:
    """Answers an identical call of the last five minutes from the store; counts the others."""

    def __init__(self, database: Database, clock: Clock, *, calls_per_minute: int = CALLS_PER_MINUTE) -> None:
        self._database = database
        self._calls = LastMinute(database, clock)
        self._clock = clock
        self._limit = Limit(calls_per_minute, 60)

    async def run(
        self, call: ToolCall, name: str, target: AliasTarget, work: Callable[[], Awaitable[Outcome]]
    ) -> Outcome:
        """The kept result, or that of `work`; RateLimited when the project's minute is used up."""
        project_id = call.project_id or ""
        digest, now = _digest(name, target.arguments), self._clock.now()
        kept = await self._database.glance(lambda tx: _find(tx, project_id, digest, now))
        if kept is not None:
            return kept
        taken = await self._calls.take(f"research/{project_id}", self._limit)
        if not taken.allowed:
            seconds = max(1, math.ceil(taken.retry_after_seconds))
            raise RateLimited(f"Research tool rate limit exceeded. Try again in {seconds} seconds.")
        outcome = await work()
        await self._keep(project_id, [AnsweredCall(name, target.arguments, outcome), *outcome.also])
        return replace(outcome, also=())

    async def _keep(self, project_id: str, answered: Sequence[AnsweredCall]) -> None:
        """Answer these calls with these results for five minutes."""
        now = self._clock.now()

        def work(tx: Tx) -> None:
            tx.execute("DELETE FROM research_result WHERE expires_at <= :now", {"now": now})
            for each in answered:
                _put(tx, project_id, _digest(each.name, each.arguments), each.outcome, now + KEPT_MILLIS)

        await self._database.write(work)


def _digest(name: str, arguments: Mapping[str, Any]) -> str:
    ordered = {key: arguments[key] for key in sorted(arguments)}
    return hashlib.sha256(jsontext.dumps([name, ordered])).hexdigest()


def _find(tx: Tx, project_id: str, digest: str, now: int) -> Outcome | None:
    row = tx.one(
        "SELECT text, sources, untrusted FROM research_result "
        "WHERE project_id = :project_id AND digest = :digest AND expires_at > :now",
        {"project_id": project_id, "digest": digest, "now": now},
    )
    return None if row is None else Outcome(row["text"], sources=row["sources"], untrusted=bool(row["untrusted"]))


def _put(tx: Tx, project_id: str, digest: str, outcome: Outcome, expires_at: int) -> None:
    tx.execute(
        "INSERT INTO research_result (project_id, digest, text, sources, untrusted, expires_at) "
        "VALUES (:project_id, :digest, :text, :sources, :untrusted, :expires_at) "
        "ON CONFLICT (project_id, digest) DO UPDATE SET text = excluded.text, sources = excluded.sources, "
        "untrusted = excluded.untrusted, expires_at = excluded.expires_at",
        {
            "project_id": project_id,
            "digest": digest,
            # PostgreSQL keeps no NUL, and a page may hold one.
            "text": outcome.text.replace("\x00", ""),
            "sources": outcome.sources,
            "untrusted": int(outcome.untrusted),
            "expires_at": expires_at,
        },
    )
