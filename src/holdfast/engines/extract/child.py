"""Owns the process that reads one file: it binds itself by limits first, then writes a line of JSON for each passage.

Called as `python -I -m holdfast.engines.extract.child`, with one JSON object of arguments on standard input."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from holdfast.engines.extract.model import ExtractionFailed, ExtractLimits
from holdfast.engines.sandbox.bounds import Bounds, bind

_OPEN_FILES = 64


def bounds(limits: ExtractLimits) -> Bounds:
    """What a reader may use: it writes nothing and opens little."""
    return Bounds(limits.memory_bytes, limits.cpu_seconds, open_files=_OPEN_FILES)


def main() -> None:
    """Read the file that standard input names; passages, then a summary or a failure, on standard output."""
    given = json.loads(sys.stdin.buffer.readline())
    limits = ExtractLimits(**given["limits"])
    # Before any reader is loaded.
    bind(bounds(limits))
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


def _read(path: Path, given: dict[str, Any], limits: ExtractLimits) -> None:
    # Loaded only now: under the limits, and not in the server that imports this module's neighbours.
    from holdfast.engines.extract.formats import FileKind
    from holdfast.engines.extract.reader import FileReader

    reader = FileReader(path, FileKind(given["format"], given["language"]), limits)
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


def _memory_text(limits: ExtractLimits) -> str:
    return f"Reading it takes more than {limits.memory_bytes // 1024 // 1024} MB of memory."


if __name__ == "__main__":
    main()
