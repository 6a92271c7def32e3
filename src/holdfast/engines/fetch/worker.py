"""Owns the child process that parses what strangers wrote: few rights, bounded memory, killed by its parent.

Run as `python -m holdfast.engines.fetch.worker MODULE MEMORY_BYTES`; MODULE offers `prepare()` and
`run(job, params, parts)`.
"""

import ctypes
import importlib
import json
import resource
import signal
import sys
from typing import Any, BinaryIO

from holdfast.engines.fetch.job import Run, UnreadableContent

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Import what the jobs need, drop the right to open anything, then answer jobs until the input ends."""
    module, memory_bytes = sys.argv[1], int(sys.argv[2])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    jobs = importlib.import_module(module)
    jobs.prepare()
    run: Run = jobs.run
    _confine(memory_bytes)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(b"R")
    sink.flush()
    while (frame := _read_frame(source)) is not None:
        answer = json.dumps(_answer(run, *frame)).encode()
        sink.write(len(answer).to_bytes(4, "big") + answer)
        sink.flush()


def _confine(memory_bytes: int) -> None:
    # Three descriptors are open and no fourth can be: no file, socket or pipe from here on.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read_frame(source: BinaryIO) -> tuple[str, dict[str, Any], list[bytes]] | None:
    size = source.read(4)
    if len(size) < 4:
        return None
    header = json.loads(source.read(int.from_bytes(size, "big")))
    return header["job"], header["params"], [source.read(length) for length in header["sizes"]]


def _answer(run: Run, job: str, params: dict[str, Any], parts: list[bytes]) -> dict[str, Any]:
    try:
        return {"ok": run(job, params, parts)}
    except UnreadableContent as error:
        return {"error": str(error)}
    except (MemoryError, RecursionError):
        return {"error": "it is too large or too deeply nested"}


if __name__ == "__main__":
    main()
