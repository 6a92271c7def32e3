"""Holdfast killed without warning, again and again, with real calls of a sandboxed server in every state."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.execution.counting import PROGRAM
from tests.support.execution.product import Product
from tests.support.execution.tally import Tally, tally
from tests.support.sandbox.programs import PYTHON

KILLS = int(os.environ.get("EXECUTION_KILLS", "3"))
"""How often on each store; `EXECUTION_KILLS=200` for a long look."""
CALLERS = 6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * KILLS)]


@dataclass
class Asked:
    """What callers were told, whatever became of the server that told them."""

    ids: dict[str, str] = field(default_factory=dict[str, str])
    """The acknowledged invocation of each name."""
    unanswered: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Requests, as tool and name, that broke off: they may have been taken or not, and are sent again."""
    approved: set[str] = field(default_factory=set[str])
    cancelled: set[str] = field(default_factory=set[str])
    repeated: int = 0


class Callers:
    """Ask for calls without end: some run at once, some wait for a person, some are cancelled, some are repeated."""

    def __init__(self, at: Product, asked: Asked, turn: int) -> None:
        self._at = at
        self._asked = asked
        self._turn = turn
        self._invocations = f"/api/workspaces/{at.workspace}/invocations"

    async def run(self) -> None:
        """Until the server is killed."""
        try:
            async with self._at.rest() as key, self._at.person() as person, asyncio.TaskGroup() as group:
                for tool, name in self._asked.unanswered[:]:
                    self._asked.unanswered.remove((tool, name))
                    group.create_task(self._again(key, tool, name))
                for number in range(CALLERS):
                    group.create_task(self._caller(key, person, number))
        except* httpx.TransportError:
            pass

    async def repeat(self) -> None:
        """Send again what broke off."""
        async with self._at.rest() as key:
            while self._asked.unanswered:
                await self._again(key, *self._asked.unanswered.pop())

    async def _caller(self, key: httpx.AsyncClient, person: httpx.AsyncClient, number: int) -> None:
        kinds: tuple[Callable[[httpx.AsyncClient, httpx.AsyncClient, str], Awaitable[None]], ...]
        kinds = (self._plain, self._decided, self._dropped, self._repeated)
        for call in range(1_000_000):
            await kinds[(call + number) % len(kinds)](key, person, f"{self._turn}-{number}-{call}")

    async def _ask(self, key: httpx.AsyncClient, tool: str, name: str) -> dict[str, Any]:
        asked = {
            "tool_name": f"demo.{tool}",
            "arguments": {"name": name, "seconds": 0.2} if tool == "slow" else {"name": name},
        }
        try:
            answer = await key.post(self._invocations, json=asked)
        except BaseException:
            self._asked.unanswered.append((tool, name))
            raise
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        assert self._asked.ids.setdefault(name, found["invocation_id"]) == found["invocation_id"]
        return found

    async def _again(self, key: httpx.AsyncClient, tool: str, name: str) -> None:
        await self._ask(key, tool, name)
        self._asked.repeated += 1

    async def _plain(self, key: httpx.AsyncClient, person: httpx.AsyncClient, name: str) -> None:
        found = await self._ask(key, "count", name)
        await key.get(f"{self._invocations}/{found['invocation_id']}", params={"wait_seconds": 1})

    async def _decided(self, key: httpx.AsyncClient, person: httpx.AsyncClient, name: str) -> None:
        found = await self._ask(key, "slow", name)
        assert found["approval_url"], found
        if random.random() < 0.3:
            return
        decided = await person.post(
            f"/api/approvals/{found['approval_url'].rpartition('/')[2]}", json={"decision": "approve"}
        )
        assert decided.is_success, decided.text
        self._asked.approved.add(name)

    async def _dropped(self, key: httpx.AsyncClient, person: httpx.AsyncClient, name: str) -> None:
        found = await self._ask(key, "count", name)
        answer = await key.post(f"{self._invocations}/{found['invocation_id']}/cancel")
        assert answer.is_success, answer.text
        if answer.json()["status"] == "cancelled":
            self._asked.cancelled.add(name)

    async def _repeated(self, key: httpx.AsyncClient, person: httpx.AsyncClient, name: str) -> None:
        """A call that its asker sends twice at once, as one does who heard nothing."""
        await asyncio.gather(*(self._ask(key, "count", name) for _ in range(2)))


def tree(pid: int) -> list[psutil.Process]:
    """The server and everything that it started."""
    server = psutil.Process(pid)
    return [server, *server.children(recursive=True)]


async def gone(processes: list[psutil.Process]) -> None:
    """Wait, bounded, until none of these lives."""
    async with asyncio.timeout(60):
        while left := [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]:
            await asyncio.sleep(0.05)
    assert not left


async def life(at: Product, asked: Asked, count: Tally, turn: int) -> int:
    """One start, calls, and a kill at a moment that nobody knows before; how many processes died with it."""
    if turn % 7 == 6:
        # In the middle of a start, while it takes up what the one before left.
        starting = asyncio.create_task(at.start())
        await asyncio.sleep(random.random() * 2)
        while at.process is None:
            await asyncio.sleep(0.01)
        found = tree(at.process.pid)
        at.process.send_signal(signal.SIGKILL)
        with suppress(AssertionError):
            await starting
        await at.stop(signal.SIGKILL)
    else:
        await at.start()
        assert at.process is not None
        calling = asyncio.create_task(Callers(at, asked, turn).run())
        # By what callers were told, or by what the tool did: the one finds calls that wait, the other those that run.
        acknowledged, ran = len(asked.ids) + random.randint(1, 40), sum(count.runs.values()) + random.randint(1, 30)
        by_runs = turn % 2 == 1
        async with asyncio.timeout(120):
            while (sum(count.runs.values()) < ran if by_runs else len(asked.ids) < acknowledged) and not calling.done():
                await asyncio.sleep(0.002)
        found = tree(at.process.pid)
        at.process.send_signal(signal.SIGKILL)
        await at.stop(signal.SIGKILL)
        await calling
    await gone(found)
    return len(found)


async def settle(at: Product, asked: Asked) -> Counter[str]:
    """What became of every acknowledged call, once whatever still waited was approved."""
    states: Counter[str] = Counter()
    async with at.person() as person:
        for name, id in asked.ids.items():
            found = await at.get(f"/invocations/{id}")
            if found["status"] == "awaiting_approval":
                assert name not in asked.approved, found
                states["waited for a person through it all"] += 1
                decided = await person.post(
                    f"/api/approvals/{found['approval_url'].rpartition('/')[2]}", json={"decision": "approve"}
                )
                assert decided.is_success, decided.text
    for name, id in asked.ids.items():
        ended = await at.ended(id)
        code = (ended["error"] or {}).get("code")
        states[f"{ended['status']} {code or ''}".strip()] += 1
        allowed = ended["status"] == "succeeded" or code == "outcome_unknown" or ended["status"] == "cancelled"
        assert allowed, ended
        if name in asked.cancelled:
            assert ended["status"] == "cancelled", ended
    return states


async def check(at: Product, asked: Asked, count: Tally) -> Counter[str]:
    states = await settle(at, asked)
    assert count.twice() == []
    runs = {name for _, name in count.runs}
    for name, id in asked.ids.items():
        ended = await at.get(f"/invocations/{id}")
        if ended["status"] == "succeeded":
            assert name in runs, ended
        if name in asked.cancelled and ended["error"]["code"] == "cancelled" and ended["started_at"] is None:
            assert name not in runs, ended
    return states


@pytest.mark.contract("XM-14")
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_killed_again_and_again_no_call_runs_twice_none_is_lost_and_no_process_is_left(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    env = {"HOLDFAST_DATABASE_URL": request.getfixturevalue("empty_postgres_url")} if store == "postgresql" else {}
    at, asked = Product(tmp_path / "data", env), Asked()
    async with tally() as count:
        try:
            await at.start()
            told = ("--env", f"COUNT_URL={count.url}", "--env", "SPAWN=86400", "--allow", count.place)
            await at.run("catalog", "add", "demo", "--command", PYTHON, "--arg", "-I", "--arg", str(PROGRAM), *told)
            await at.probed("demo")
            await at.policy("demo", "count", policy="auto")
            await at.stop()
            died = [await life(at, asked, count, turn) for turn in range(KILLS)]
            await at.start()
            await Callers(at, asked, KILLS).repeat()
            states = await check(at, asked, count)
            print(
                f"\n{store}: {KILLS} kills, {sum(died)} processes died with them, {len(asked.ids)} acknowledged, "
                f"{asked.repeated} sent again, {sum(count.runs.values())} runs, {dict(states)}"
            )
            assert states["succeeded"] > 0
        finally:
            await at.stop(signal.SIGKILL)
