"""Owns what is seen of a server while it is soaked, and its picture."""

import sqlite3
import time
from collections import defaultdict
from contextlib import closing, suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

import psutil

from bench.soaking.books import Books
from bench.soaking.server import SoakedServer

TABLES = ("memory", "event", "audit_event", "limit_bucket", "mcp_session", "mcp_event", "job", "usage_counter")
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f", "#bcbd22", "#e377c2")
_WIDTH, _HEIGHT, _LEFT, _TOP = 1000, 150, 70, 30


@dataclass(frozen=True, slots=True)
class Sample:
    """One look."""

    at: float
    memory_mb: float
    handles: int
    threads: int
    processes: int


class Seen:
    """Every look at one server."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.samples: list[Sample] = []
        self.rows: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def look(self, server: SoakedServer) -> None:
        """At its processes."""
        memory, handles, threads, count = 0.0, 0, 0, 0
        for process in server.processes():
            with suppress(psutil.Error):
                memory += process.memory_full_info().pss / 1_048_576
                handles += process.num_fds()
                threads += process.num_threads()
                count += 1
        if count:
            at = time.monotonic() - self._books.started
            self.samples.append(Sample(at, memory, handles, threads, count))

    def count_rows(self, store: Path) -> None:
        """In the tables of an embedded store that could grow without end."""
        at = time.monotonic() - self._books.started
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                if table in TABLES:
                    number = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
                    self.rows[table].append((at, float(number)))

    def growth(self) -> float:
        """Memory in the last fifth over the memory in the second: after warming up, while quiet or not."""
        if len(self.samples) < 10:
            return 1.0
        fifth = len(self.samples) // 5
        early = sorted(each.memory_mb for each in self.samples[fifth : 2 * fifth])
        late = sorted(each.memory_mb for each in self.samples[-fifth:])
        return late[len(late) // 2] / early[len(early) // 2]

    def picture(self) -> str:
        """Memory, handles, threads, tables and latencies over time, and what was done when."""
        looks = self.samples
        panels = [
            ("memory (MB, shared pages divided)", {"all processes": [(each.at, each.memory_mb) for each in looks]}),
            ("file handles", {"all processes": [(each.at, float(each.handles)) for each in looks]}),
            (
                "threads and processes",
                {
                    "threads": [(each.at, float(each.threads)) for each in looks],
                    "processes": [(each.at, float(each.processes)) for each in looks],
                },
            ),
            ("rows", dict(self.rows)),
            ("latency p50 (ms)", self._latencies(0.5)),
            ("latency p99 (ms)", self._latencies(0.99)),
        ]
        end = max([each.at for each in looks] + [1.0])
        height = len(panels) * (_HEIGHT + 60) + _TOP
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 260}" height="{height}" '
            'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        ]
        for number, (title, lines) in enumerate(panels):
            parts += self._panel(title, lines, end, _TOP + number * (_HEIGHT + 60))
        return "\n".join([*parts, "</svg>"])

    def _latencies(self, part: float) -> dict[str, list[tuple[float, float]]]:
        buckets: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for at, surface, seconds in self._books.took:
            buckets[surface][int(at // 10)].append(seconds * 1000)
        return {
            surface: [
                (10.0 * place + 5, sorted(took)[min(len(took) - 1, int(len(took) * part))])
                for place, took in sorted(of.items())
            ]
            for surface, of in sorted(buckets.items())
        }

    def _panel(self, title: str, lines: dict[str, list[tuple[float, float]]], end: float, top: int) -> list[str]:
        most = max((value for points in lines.values() for _, value in points), default=1.0) or 1.0

        def x(at: float) -> float:
            return _LEFT + at / end * (_WIDTH - _LEFT)

        def y(value: float) -> float:
            return top + _HEIGHT - value / most * _HEIGHT

        parts = [
            f'<text x="{_LEFT}" y="{top - 8}" font-weight="bold">{escape(title)}</text>',
            f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT}" height="{_HEIGHT}" fill="none" stroke="#999"/>',
        ]
        for share in (0, 0.5, 1):
            value = most * share
            parts.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:,.4g}</text>')
        for minute in range(int(end // 60) + 1):
            if minute % max(1, int(end // 600)) == 0:
                parts.append(f'<text x="{x(minute * 60)}" y="{top + _HEIGHT + 14}">{minute} min</text>')
        for injury in self._books.injuries:
            at = x(injury.began - self._books.started)
            parts.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{top + _HEIGHT}" stroke="#d99" stroke-dasharray="3">'
                f"<title>{escape(injury.name)}</title></line>"
            )
            parts.append(
                f'<text transform="translate({at + 3:.1f},{top + _HEIGHT - 3}) rotate(-90)" fill="#b66" font-size="9">'
                f"{escape(injury.name)}</text>"
            )
        for number, (name, points) in enumerate(lines.items()):
            color = _COLORS[number % len(_COLORS)]
            drawn = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
            parts.append(f'<polyline points="{drawn}" fill="none" stroke="{color}" stroke-width="1.3"/>')
            parts.append(f'<text x="{_WIDTH + 12}" y="{top + 12 + 13 * number}" fill="{color}">{escape(name)}</text>')
        return parts
