"""Soaks a started Holdfast: real clients on every surface for `--minutes`, while it is killed, starved and deceived.

Broken promises end with 1: an acknowledged write that is not there, a failure that nothing injected excuses, an end
that is not in order, and, from an hour on, memory that grew by more than 5 %.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from bench.report import Figure, finish, options
from bench.soaking.books import Books
from bench.soaking.load import ASKING_UPSTREAM, ENDPOINT, Load
from bench.soaking.seen import Seen
from bench.soaking.server import SoakedServer, small_disk
from bench.soaking.upstream import Mood, MoodyUpstream, moody_upstream
from holdfast.storage.files import STORE
from tests.support.sandbox.programs import HERE, PYTHON

LOOK_SECONDS = 2.0
COUNT_SECONDS = 20.0
HOLD_SECONDS = 6.0
_DISK_MEGABYTES = 192
_DISK_MEGABYTES_A_MINUTE = 6
"""What is saved in a minute must not fill the disk: that is an injury's part."""
_KILLED = ("broken", "cut", "503", "502", "404", "tool error", "session failed", "session cancelled")
"""A client sees its connection end, or a session that is over."""


class Soak:
    """One soak: the injuries in turn, evenly over its time, the last tenth left alone."""

    def __init__(
        self, server: SoakedServer, load: Load, books: Books, seen: Seen, *, disk: bool, minutes: float
    ) -> None:
        self._server = server
        self._books = books
        self._seen = seen
        self._load = load
        self._disk = disk
        self._seconds = minutes * 60
        self.left_out: list[str] = []

    async def run(self) -> None:
        """To its end."""
        loading = asyncio.create_task(self._load.run())
        looking = asyncio.create_task(self._look_forever())
        await self._injure()
        self._load.stop()
        with suppress(TimeoutError):
            await asyncio.wait_for(loading, 150)
        looking.cancel()

    async def _injure(self) -> None:
        turn: list[Callable[[], Awaitable[None]]] = [
            self._kill_worker,
            lambda: self._upstream("slow"),
            self._kill_embedder,
            lambda: self._upstream("refusing"),
            self._fill_disk,
            self._jump,
            lambda: self._upstream("breaking"),
            self._kill_all,
            self._restart,
        ]
        loop = asyncio.get_running_loop()
        end, number = loop.time() + self._seconds, 0
        pause = max(25.0, self._seconds * 0.9 / (len(turn) * max(1, round(self._seconds / 600))))
        while (left := end - loop.time()) > self._seconds * 0.1 + pause / 2:
            await asyncio.sleep(min(pause, left))
            await turn[number % len(turn)]()
            number += 1
        await asyncio.sleep(max(0.0, end - loop.time()))

    async def _kill_worker(self) -> None:
        with self._books.injury("worker killed", *_KILLED):
            if not self._server.kill_worker():
                self.left_out.append("worker killed (there is one process)")
            await asyncio.sleep(HOLD_SECONDS)

    async def _kill_embedder(self) -> None:
        with self._books.injury("embedder killed", "503", "tool error"):
            self._server.kill_embedder()
            await asyncio.sleep(HOLD_SECONDS)

    async def _kill_all(self) -> None:
        with self._books.injury("server killed", *_KILLED):
            self._server.kill()
            await asyncio.to_thread(self._server.start)

    async def _restart(self) -> None:
        with self._books.injury("server restarted", *_KILLED):
            if await asyncio.to_thread(self._server.stop) != 0:
                self._books.unexcused.append("the server did not end with 0 when it was told to")
            await asyncio.to_thread(self._server.start)

    async def _upstream(self, mood: Mood) -> None:
        with self._books.injury(f"upstream {mood}", "502", "503", "504", "429", "cut", surfaces=ASKING_UPSTREAM):
            MoodyUpstream.mood = mood
            await asyncio.sleep(HOLD_SECONDS)
            MoodyUpstream.mood = "well"

    async def _fill_disk(self) -> None:
        if not self._disk:
            self.left_out.append("disk full (no disk of its own: mounting one needs root)")
            return
        filler = self._server.data / "filler"
        with self._books.injury("disk full", "503", "507", "tool error", "session failed", "404"):
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(1 << 16))
            await asyncio.sleep(HOLD_SECONDS)
            filler.unlink()

    async def _jump(self) -> None:
        if not self._server.can_jump:
            self.left_out.append("clock jumps (unwanted, or no C compiler is installed)")
            return
        for seconds in (1800, -1800, 0):
            with self._books.injury(f"clock {seconds:+d} s", "401"):
                self._server.jump(seconds)
                await asyncio.sleep(HOLD_SECONDS)

    async def _look_forever(self) -> None:
        counted = float("-inf")
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.to_thread(self._seen.look, self._server)
            if loop.time() - counted >= COUNT_SECONDS:
                counted = loop.time()
                await asyncio.to_thread(self._seen.count_rows, self._server.data / STORE)
            await asyncio.sleep(LOOK_SECONDS)


async def soaked(
    minutes: float, workers: int, pause: float, picture: Path, database_url: str | None, *, jumps: bool
) -> list[Figure]:
    """Soak, check, and draw."""
    upstream = await moody_upstream()
    port = int(upstream.sockets[0].getsockname()[1])
    books = Books()
    seen = Seen(books)
    megabytes = _DISK_MEGABYTES + round(minutes * _DISK_MEGABYTES_A_MINUTE)
    with tempfile.TemporaryDirectory(prefix="hf-soak-") as made, small_disk(Path(made) / "data", megabytes) as disk:
        server = SoakedServer(Path(made) / "data", workers, port, Path(made), database_url, jumps=jumps)
        try:
            await asyncio.to_thread(server.start)
            script = str(HERE / "hostile_server.py")
            base = f"http://127.0.0.1:{port}/v1"
            for words in (
                ("endpoints", "add", ENDPOINT, "--base-url", base, "--model", "fixed"),
                ("catalog", "add", "plain", "--command", PYTHON, "--arg", "-I", "--arg", script, "--arg", "plain"),
            ):
                await asyncio.to_thread(server.output, *words)
            load = Load(server, books, pause)
            await load.prepare()
            soak = Soak(server, load, books, seen, disk=disk, minutes=minutes)
            await soak.run()
            lost = await load.verify()
            code = await asyncio.to_thread(server.stop)
        finally:
            server.close()
            upstream.close()
        picture.write_text(seen.picture())
        log = (Path(made) / "server.log").read_text(errors="replace").splitlines()
    errors = [line for line in log if '"level":"error"' in line]
    _tell(books, soak, lost, errors)
    return [
        Figure("minutes", minutes, "min"),
        Figure("requests that succeeded", sum(books.done.values()), ""),
        Figure("injuries", len(books.injuries), ""),
        Figure("failures that an injury excuses", sum(books.excused.values()), ""),
        Figure("failures that nothing excuses", len(books.unexcused), "", 0, "lower"),
        Figure("acknowledged writes", len(books.acknowledged), ""),
        Figure("of them lost", len(lost), "", 0, "lower"),
        Figure("events told", load.told_events, ""),
        Figure("exit code at the end", code, "", 0, "lower"),
        Figure("memory at the end ÷ after warming up", seen.growth(), "×", 1.05 if minutes >= 60 else None, "lower"),
    ]


def _tell(books: Books, soak: Soak, lost: list[str], errors: list[str]) -> None:
    print("succeeded:", json.dumps(dict(sorted(books.done.items()))))
    print("excused:", json.dumps(dict(sorted(books.excused.items())), indent=1))
    for title, lines in (
        ("not excused", books.unexcused),
        ("lost", lost),
        ("left out", sorted(set(soak.left_out))),
        ("errors in the log", errors),
    ):
        for line in lines[:40]:
            print(f"{title}: {line[:400]}")


def main() -> None:
    """Soak and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two requests of each client")
    parser.add_argument("--svg", type=Path, default=Path("soak.svg"), help="where the picture goes")
    parser.add_argument("--no-jumps", action="store_true", help="leave the clock alone")
    chosen = parser.parse_args()
    url = os.environ.get("HOLDFAST_DATABASE_URL")
    finish(
        asyncio.run(soaked(chosen.minutes, chosen.workers, chosen.pause, chosen.svg, url, jumps=not chosen.no_jumps)),
        as_json=chosen.json,
    )


if __name__ == "__main__":
    main()
