"""Measures what marking audit events costs: durable events for a second of processor time, with and without marks."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import Figure, finish, options
from holdfast.core.clock import SystemClock
from holdfast.core.principal import Principal
from holdfast.engines.master_key import KeyRing
from holdfast.features.audit.marks.keys import MARKED, AuditKey
from holdfast.features.audit.service import Audit
from holdfast.storage.database import Tx
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase

CALLERS = 64
# Of a change that does nothing but record an event; real ones do far more.
TARGET = 0.8
MICROSECONDS = 20.0
WHO = Principal("org_1", "usr_1", "session", True, frozenset({"management"}), name="Ada")


class _NoMark(AuditKey):
    """A key that marks nothing, for comparison."""

    def mark(self, event: object) -> str:
        return "0" * 64


async def events(directory: Path, seconds: float, key: Callable[[str], AuditKey]) -> float:
    """Durable events for a second of this process's time, from many callers at once: others' load does not count."""
    database = SqliteDatabase(directory / f"{time.monotonic_ns()}.db")
    await migrate(database)
    audit = Audit(database, KeyRing(directory, "5a" * 32), directory, SystemClock())
    await audit.prepare()
    audit._keys._current = key("ab" * 32)
    end = time.perf_counter() + seconds
    written = 0

    def work(tx: Tx) -> None:
        audit.record(tx, WHO, "memory.create", resource="memory", resource_id="mem_1", detail={"title": "A title"})

    async def caller() -> None:
        nonlocal written
        while time.perf_counter() < end:
            await database.write(work)
            written += 1

    began = time.process_time()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    took = time.process_time() - began
    await database.close()
    return written / took


def one_mark(turns: int = 20_000) -> float:
    """Microseconds for the mark of one event."""
    key = AuditKey("ab" * 32)
    event = dict.fromkeys(MARKED, "an ordinary value") | {"at": 1_700_000_000_000, "times": 1}
    began = time.process_time()
    for _ in range(turns):
        key.mark(event)
    return (time.process_time() - began) / turns * 1e6


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each round takes")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with_marks, without = [], []
    with tempfile.TemporaryDirectory() as directory:
        # In turns, so that a busy moment of the machine meets both.
        for _ in range(chosen.rounds):
            without.append(asyncio.run(events(Path(directory), chosen.seconds, _NoMark)))
            with_marks.append(asyncio.run(events(Path(directory), chosen.seconds, AuditKey)))
    middle = chosen.rounds // 2
    marked, plain = sorted(with_marks)[middle], sorted(without)[middle]
    finish(
        [
            Figure("one mark", one_mark(), "µs", MICROSECONDS, better="lower"),
            Figure("durable events without marks", plain, "events/s"),
            Figure("durable events with marks", marked, "events/s"),
            Figure("ratio", marked / plain, "×", TARGET),
        ],
        as_json=chosen.json,
    )


if __name__ == "__main__":
    main()
