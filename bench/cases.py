"""Measures the queue of work items: `ready` and `claim-next` over HTTP at 100,000 cases, and beside Taskwarrior.

At 10,000 items each does what an agent does in turn: ask what is next, take it, add another. Taskwarrior (Debian's
`taskwarrior`) is a program that is started for each, as agents use it; ours is asked over HTTP, as agents use it.
"""

import asyncio
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from bench.report import Figure, finish, options
from bench.rest import UNLIMITED
from bench.server import holdfast
from holdfast.core.ids import new_id
from holdfast.features.cases import store
from holdfast.features.cases.model import Case, CaseClaim, CaseLink
from holdfast.storage.database import Database, Tx
from holdfast.storage.files import STORE
from holdfast.storage.sqlite import SqliteDatabase

BATCH = 2_000
LIMIT_MS = 5.0
TIMES_PEER = 5.0


async def fill(database: Database, workspace_id: str, cases: int) -> None:
    """Cases of all priorities; a fifth waits for another, a twentieth is held, a tenth is over."""
    now = time.time_ns() // 1_000_000
    made: list[str] = []

    def work(tx: Tx, begin: int, end: int) -> None:
        for number in range(begin, end):
            case = _case(workspace_id, number, now - cases + number, now)
            store.put(tx, case)
            if number % 5 == 0 and made:
                store.add_link(tx, workspace_id, CaseLink(made[number // 2 - 1], "blocks", case.id), now)
            made.append(case.id)

    for begin in range(0, cases, BATCH):
        await database.write(lambda tx, begin=begin: work(tx, begin, min(begin + BATCH, cases)))  # type: ignore[misc]

    for begin in range(0, cases, BATCH):
        ids = made[begin : begin + BATCH]
        await database.write(lambda tx, ids=ids: store.count_blockers(tx, ids))  # type: ignore[misc]


def _case(workspace_id: str, number: int, at: int, now: int) -> Case:
    held = CaseClaim("key_x", "x", None, now + 3_600_000, 1) if number % 20 == 1 else None
    return Case(
        id=new_id("case"),
        workspace_id=workspace_id,
        title=f"Mend the fence at post {number}",
        body="It leans to the east.",
        kind="task",
        state="CANCELLED" if number % 10 == 3 else "OPEN",
        blocked_from=None,
        reason="",
        priority=number % 5,
        criteria=(),
        labels=("fence",),
        assignee=None,
        due_at=None,
        repository=None,
        base_commit=None,
        head_commit=None,
        environment=None,
        parent=None,
        source=None,
        last_claim=held,
        fence=1 if held else 0,
        version=1,
        author="usr_1",
        author_name="Ada",
        created_at=at,
        updated_at=at,
    )


def timed(times: int, call: Callable[[], httpx.Response]) -> list[float]:
    """How long each call took, in milliseconds."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        answer = call()
        took.append(1000 * (time.perf_counter() - began))
        assert answer.is_success, answer.text
    return took


def ours(cases: int, times: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of `ready`, `claim-next` and adding, over HTTP."""
    with tempfile.TemporaryDirectory() as place:
        with holdfast(Path(place), UNLIMITED) as server:
            told = server.told
        asyncio.run(_filled(Path(place), told["workspace_id"], cases))
        with holdfast(Path(place), UNLIMITED) as server, _client(server.port, told["api_key"]) as client:
            space = f"/api/workspaces/{told['workspace_id']}/cases"
            timed(20, lambda: client.get(f"{space}/ready", params={"limit": 1}))
            ready = timed(times, lambda: client.get(f"{space}/ready", params={"limit": 1}))
            claims = timed(times, lambda: client.post(f"{space}/claim-next", json={}))
            adds = timed(times, lambda: client.post(space, json={"title": "One more"}))
            return ready, claims, adds


async def _filled(place: Path, workspace_id: str, cases: int) -> None:
    database = SqliteDatabase(place / STORE)
    try:
        await fill(database, workspace_id, cases)
    finally:
        await database.close()


def _client(port: int, key: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False
    )


def taskwarrior(items: int, times: int) -> tuple[float, float, float]:
    """Operations a second of Taskwarrior: what is next, start it, add one."""
    with tempfile.TemporaryDirectory() as place:
        settings = Path(place) / "taskrc"
        settings.write_text(f"data.location={place}/data\nconfirmation=no\nverbose=nothing\n")
        (Path(place) / "data").mkdir()
        lines = (
            f'[description:"Mend the fence at post {number}" entry:"1790000000" status:"pending" '
            f'priority:"{"HML"[number % 3]}" uuid:"00000000-0000-4000-8000-{number:012d}"]\n'
            for number in range(items)
        )
        (Path(place) / "data" / "pending.data").write_text("".join(lines))
        task = [shutil.which("task") or "task", f"rc:{settings}"]

        def rate(*command: str, count: int = times) -> float:
            began = time.perf_counter()
            for number in range(count):
                filled = [each.replace("{n}", str(number + 1)) for each in command]
                subprocess.run([*task, *filled], check=True, capture_output=True)
            return count / (time.perf_counter() - began)

        rate("count")
        return rate("limit:1", "next"), rate("{n}", "start"), rate("add", "One more")


def main() -> None:
    parser = options(__doc__ or "")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--items", type=int, default=10_000, help="items beside Taskwarrior")
    parser.add_argument("--times", type=int, default=200)
    given = parser.parse_args()
    ready, claims, _ = ours(given.cases, given.times)
    figures = [
        Figure(f"ready at {given.cases:,} cases, p50", statistics.median(ready), "ms", LIMIT_MS, "lower"),
        Figure(f"claim-next at {given.cases:,} cases, p50", statistics.median(claims), "ms", LIMIT_MS, "lower"),
    ]
    if shutil.which("task") is not None:
        few = max(10, given.times // 10)
        measured = ours(given.items, given.times)
        peers = taskwarrior(given.items, few)
        for name, took, peer in zip(("next", "take", "add"), measured, peers, strict=True):
            rate = 1000 * len(took) / sum(took)
            figures += [
                Figure(f"{name} at {given.items:,} items, ours", rate, "/s"),
                Figure(f"{name}, Taskwarrior", peer, "/s"),
                Figure(f"{name}, ours ÷ Taskwarrior", rate / peer, "×", TIMES_PEER),
            ]
    finish(figures, as_json=given.json)


if __name__ == "__main__":
    main()
