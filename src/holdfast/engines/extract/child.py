"""Owns the process that reads one file: it binds itself by limits first, then writes a line of JSON for each passage.

Called as `python -I -m holdfast.engines.extract.child`, with one JSON object of arguments on standard input."""

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from holdfast.engines.extract.model import ExtractionFailed, Limits

_DEATH_SIGNAL = 1
_NEW_USER = 0x1000_0000
_NEW_NETWORK = 0x4000_0000
_SPARE_SECONDS = 5


def bind(limits: Limits) -> None:
    """Give up what this process could use up; done before any reader is loaded."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        # No network, where the kernel lets an ordinary process say so; it is the limits that are promised.
        libc.unshare(_NEW_USER | _NEW_NETWORK)
        # A server killed with -9 takes its readers along. Only now: a change of user namespace forgets it.
        libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)
    for kind, most in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # The soft limit of work ends the process by a signal that says so; at the hard one it would just be killed.
        spare = _SPARE_SECONDS if kind == resource.RLIMIT_CPU else 0
        resource.setrlimit(kind, (value, value + spare if hard == resource.RLIM_INFINITY else min(value + spare, hard)))
    os.nice(5)


def main() -> None:
    """Read the file that standard input names; passages, then a summary or a failure, on standard output."""
    given = json.loads(sys.stdin.buffer.readline())
    limits = Limits(**given["limits"])
    bind(limits)
    try:
        _read(Path(given["path"]), given, limits)
    except ExtractionFailed as problem:
        _write({"failed": {"code": problem.code, "message": problem.message}})
    except MemoryError:
        _write({"failed": {"code": "too_much_memory", "message": _memory_text(limits)}})
    except RecursionError:
        _write({"failed": {"code": "damaged", "message": "It is nested too deeply to be read."}})
    sys.stdout.buffer.flush()
    # Libraries may crash while they are torn down under the limits; everything is said already.
    os._exit(0)


def _read(path: Path, given: dict[str, Any], limits: Limits) -> None:
    # Loaded only now: under the limits, and not in the server that imports this module's neighbours.
    from holdfast.engines.extract.formats import Kind
    from holdfast.engines.extract.reader import Reader

    reader = Reader(path, Kind(given["format"], given["language"]), limits)
    for chunk in reader:
        _write({"text": chunk.text, "heading": chunk.heading, "page": chunk.page})
    summary = reader.summary()
    _write(
        {
            "done": {
                "title": summary.title,
                "chunks": summary.chunks,
                "characters": summary.characters,
                "truncated": summary.truncated,
            }
        }
    )


def _write(value: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")


def _memory_text(limits: Limits) -> str:
    return f"Reading it takes more than {limits.memory_bytes // 1024 // 1024} MB of memory."


if __name__ == "__main__":
    main()
