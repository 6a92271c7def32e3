"""Measures one process, two workers and three replicas on one PostgreSQL: what a request, a process and a client cost.

Processor time and memory can be added up for a machine that is not shared; the rates are this machine's.
"""

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import psutil
import psycopg

from bench.report import Figure, finish, options
from bench.rest import UNLIMITED
from bench.server import Running, holdfast
from tests.support.stores.postgres import PrivatePostgres

CONNECTIONS = 12
MEMORIES = 40
IDLE_SECONDS = 4.0
"""For how long it is watched what servers use when nobody asks them."""
WAYS = ("REST read", "recall", "save")
_COLORS = ("green", "red", "blue", "white")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Served:
    """Servers that share one database."""

    servers: tuple[Running, ...]
    headers: dict[str, str]
    workspace: str
    database: str

    def cpu_seconds(self) -> float:
        """Of all of them with everything that they started."""
        return sum(sum(each.cpu_times()[:2]) for each in self.processes())

    def memory_mb(self) -> float:
        """The share of each page that is theirs."""
        return float(sum(each.memory_full_info().pss for each in self.processes())) / 1e6

    def processes(self) -> list[psutil.Process]:
        tops = [psutil.Process(each.pid) for each in self.servers]
        return [each for top in tops for each in (top, *top.children(recursive=True))]


def _text() -> str:
    number = next(_numbers)
    street = f"street {number * 31 % 997} of district {number * 17 % 89}"
    return f"Depot {number} in {street} is painted {_COLORS[number % 4]} and holds {number * 7} crates."


async def _called(served: Served, way: str, memory: str, requests: int) -> None:
    """So many requests, dealt to all servers."""
    path = f"/api/workspaces/{served.workspace}/memories"
    left = iter(range(requests))

    async def caller(number: int) -> None:
        url = str(served.servers[number % len(served.servers)].told["url"])
        async with httpx.AsyncClient(base_url=url, headers=served.headers, timeout=60, trust_env=False) as client:
            for _ in left:
                if way == "REST read":
                    answer = await client.get(f"{path}/{memory}")
                elif way == "recall":
                    answer = await client.post(f"{path}/recall", json={"query": "which depot is painted green"})
                else:
                    answer = await client.post(path, json={"content": _text()})
                answer.raise_for_status()

    await asyncio.gather(*(caller(number) for number in range(CONNECTIONS)))


async def _filled(served: Served) -> str:
    path = f"/api/workspaces/{served.workspace}/memories"
    url = str(served.servers[0].told["url"])
    async with httpx.AsyncClient(base_url=url, headers=served.headers, timeout=60, trust_env=False) as client:
        for _ in range(MEMORIES):
            answer = (await client.post(path, json={"content": _text()})).raise_for_status().json()
    return str(answer["memory_id"])


@contextmanager
def _serving(postgres: PrivatePostgres, processes: int, workers: int) -> Iterator[Served]:
    url = postgres.url(postgres.create())
    environment = {**os.environ, **UNLIMITED, "HOLDFAST_DATABASE_URL": url, "WORKSPACE_SECRETS_MASTER_KEY": "ab" * 32}
    with ExitStack() as stack:
        made: list[Running] = []
        for _ in range(processes):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hf-bench-")))
            made.append(stack.enter_context(holdfast(directory, environment, "--workers", str(workers))))
        told = made[0].told
        headers = {"Authorization": f"Bearer {told['api_key']}"}
        yield Served(tuple(made), headers, told["workspace_id"], url)


def _database_cpu(postgres: PrivatePostgres) -> float:
    top = psutil.Process(postgres._server.pid)
    return sum(sum(each.cpu_times()[:2]) for each in top.children(recursive=True))


def _connections(served: Served) -> int:
    with psycopg.connect(served.database) as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        row = connection.execute(asked).fetchone()
    assert row is not None
    return int(row[0])


def _settle(serving: Iterable[Served], seconds: float = 60.0) -> None:
    """Wait until nothing is loaded or embedded any more: that is not what a request costs."""
    everyone, until = list(serving), time.perf_counter() + seconds
    spent = -1.0
    while time.perf_counter() < until:
        before, spent = spent, sum(each.cpu_seconds() for each in everyone)
        if spent - before < 0.2:
            return
        time.sleep(1)


def _cost(postgres: PrivatePostgres, served: Served, work: Callable[[], None]) -> tuple[float, float, float]:
    """Processor seconds of ours and of the database for some work and what follows from it; seconds of the work."""
    ours, theirs, began = served.cpu_seconds(), _database_cpu(postgres), time.perf_counter()
    work()
    took = time.perf_counter() - began
    _settle([served])
    return served.cpu_seconds() - ours, _database_cpu(postgres) - theirs, took


def measured(requests: int, rounds: int) -> list[Figure]:
    """Each way in; one, two and three take turns, so that all meet the same neighbours."""
    kinds = {"one process": (1, 1), "two workers": (1, 2), "three replicas": (3, 1)}
    found: dict[tuple[str, str, str], list[float]] = {}
    figures: list[Figure] = []
    postgres = PrivatePostgres()
    try:
        with ExitStack() as stack:
            serving = {name: stack.enter_context(_serving(postgres, *counts)) for name, counts in kinds.items()}
            memories = {name: asyncio.run(_filled(served)) for name, served in serving.items()}
            _settle(serving.values())
            for _, way, (name, served) in itertools.product(range(rounds), WAYS, serving.items()):
                idle = _cost(postgres, served, lambda: time.sleep(IDLE_SECONDS))
                began = time.perf_counter()
                work = partial(_called, served, way, memories[name], requests)
                costs = _cost(postgres, served, lambda: asyncio.run(work()))  # noqa: B023 - run at once
                share = (time.perf_counter() - began) / (IDLE_SECONDS + 1)
                for what, cost, anyway in zip(("Holdfast", "PostgreSQL"), costs[:2], idle[:2], strict=True):
                    found.setdefault((way, name, what), []).append((cost - anyway * share) / requests * 1000)
                found.setdefault((way, name, "rate"), []).append(requests / costs[2])
            for name, served in serving.items():
                figures.append(Figure(f"{name}: memory", served.memory_mb(), "MB"))
                figures.append(Figure(f"{name}: connections to PostgreSQL", _connections(served)))
    finally:
        postgres.stop()
    for (way, name, what), values in found.items():
        # Other work on the machine only ever adds to processor time, and takes from a rate.
        value, unit = (max(values), "/s") if what == "rate" else (min(values), "ms CPU")
        figures.append(Figure(f"{way}, {name}: {what}", value, unit))
    return figures


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--requests", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    finish(measured(chosen.requests, chosen.rounds), as_json=chosen.json)


if __name__ == "__main__":
    main()
