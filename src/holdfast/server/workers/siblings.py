"""Owns how workers ask each other what each of them measured, so that whoever is asked answers for all."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from holdfast.surfaces.http.telemetry.metrics import Metrics

_WAIT_SECONDS = 2.0
_MOST_BYTES = 16 << 20
_LEAST = ("process_start_time_seconds", "process_max_fds")
"""Of these the smallest tells something; everything else adds up."""


class Siblings:
    """A private directory with a socket for each worker."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        # The data directory's path may be longer than a socket's may be.
        self._directory = tempfile.TemporaryDirectory(prefix="holdfast-workers-")

    @property
    def embedder(self) -> Path:
        """Where the one process that embeds for all of them listens."""
        return Path(self._directory.name) / "embedder"

    def close(self) -> None:
        """Remove the directory; the parent does it, when all have ended."""
        self._directory.cleanup()

    @asynccontextmanager
    async def answering(self, place: int, metrics: Metrics) -> AsyncIterator[None]:
        """Tell the others what this one measured, and have `/metrics` tell it of all."""

        async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                writer.write(metrics.own())
                await writer.drain()
            writer.close()

        path = self._path(place)
        # A killed worker leaves its socket behind.
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(tell, path)
        metrics.whole = lambda: self._sum(place, metrics)
        try:
            yield
        finally:
            server.close()

    def _path(self, place: int) -> Path:
        return Path(self._directory.name) / f"worker-{place}"

    async def _sum(self, place: int, metrics: Metrics) -> bytes:
        others = [self._ask(other) for other in range(self._workers) if other != place]
        return summed([metrics.own(), *await asyncio.gather(*others)])

    async def _ask(self, place: int) -> bytes:
        """What another one measured; nothing where it is just being started anew."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._path(place), limit=_MOST_BYTES)
                try:
                    return await reader.read(-1)
                finally:
                    writer.close()
        return b""


def summed(texts: list[bytes]) -> bytes:
    """Several workers' numbers as if one process had counted."""
    families: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text.decode()):
            families.setdefault(family.name, family)
            of_family = values.setdefault(family.name, {})
            for sample in family.samples:
                key = (sample.name, tuple(sample.labels.items()))
                before = of_family.get(key)
                least = sample.name in _LEAST or sample.name.endswith("_created")
                if before is None:
                    of_family[key] = sample.value
                else:
                    of_family[key] = min(before, sample.value) if least else before + sample.value
    lines: list[str] = []
    for name, family in families.items():
        shown = f"{name}_total" if family.type == "counter" else name
        lines += [f"# HELP {shown} {family.documentation}", f"# TYPE {shown} {family.type}"]
        lines += [_line(sample, dict(labels), value) for (sample, labels), value in values[name].items()]
    return ("\n".join(lines) + "\n").encode()


def _line(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
