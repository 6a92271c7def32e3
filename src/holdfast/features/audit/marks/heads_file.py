"""Owns the heads file: where chains stood, appended outside the store, so that a chain cut short is noticed."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from holdfast.features.audit.model import ChainHead
from holdfast.storage.files import make_directory

NAME = "audit.heads"
MAX_BYTES = 4 << 20
_KEPT_LINES = 2000


@dataclass(frozen=True, slots=True)
class Break:
    """A moment from which on a store legitimately has an earlier or another chain: a restore, or an operator's word."""

    at: int
    reason: str
    sequences: Mapping[str, int]
    """How far each organization's chain went then."""


@dataclass(slots=True)
class Known:
    """What the file says of one store: heads in the order they were written, each with the breaks before it."""

    heads: list[tuple[ChainHead, int]] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    unreadable: int = 0
    exists: bool = True

    def last(self, organization_id: str) -> ChainHead | None:
        """The newest line about a chain."""
        return next((head for head, _ in reversed(self.heads) if head.organization_id == organization_id), None)


class HeadsFile:
    """Lines of JSON in the data directory. Each server has its own; commands on the same directory append to it too."""

    def __init__(self, directory: Path, store: str) -> None:
        """`store` tells the lines of an embedded store from those of PostgreSQL, where both were used."""
        self.path = directory.expanduser() / NAME
        self._store = store

    def append(self, heads: Iterable[ChainHead]) -> None:
        """Write where chains stand, durably. Raises OSError."""
        self._write([{"kind": "head", "store": self._store, **asdict(head)} for head in heads])

    def append_break(self, found: Break) -> None:
        """Write that chains begin anew from where they are now. Raises OSError."""
        self._write([{"kind": "break", "store": self._store, **asdict(found)}])

    def read(self) -> Known:
        """Everything about this store. Raises OSError, except where there is no file."""
        known = Known()
        try:
            content = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return Known(exists=False)
        # A line that a kill cut short is no line.
        whole, _, _ = content.rpartition(b"\n")
        for line in whole.split(b"\n") if whole else ():
            self._take(line, known)
        return known

    def _take(self, line: bytes, known: Known) -> None:
        try:
            values = json.loads(line) if line else {}
            if not values or values.pop("store") != self._store:
                return
            if values.pop("kind") == "break":
                sequences = {str(name): int(number) for name, number in values.pop("sequences").items()}
                known.breaks.append(Break(int(values["at"]), str(values["reason"]), sequences))
            else:
                known.heads.append((ChainHead(**values), len(known.breaks)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            known.unreadable += 1

    def _write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if not lines:
            return
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        with self._opened() as file:
            size = _whole(file)
            left = memoryview(text)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
            if size + len(text) > MAX_BYTES:
                self._thin()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        make_directory(self.path.parent)
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                # Another process may have put a thinned file in its place while this one waited.
                if not self.path.exists() or not os.path.samestat(os.fstat(file), self.path.stat()):
                    continue
                yield file
                return
            finally:
                os.close(file)

    def _thin(self) -> None:
        """Keep each chain's first and longest head, every break, and the newest lines; the rest said no more."""
        lines = self.path.read_bytes().splitlines()
        recent = len(lines) - _KEPT_LINES
        kept: dict[int, bytes] = {}
        longest: dict[tuple[str, str], tuple[int, int]] = {}
        for number, line in enumerate(lines):
            try:
                values = json.loads(line)
                name = (str(values.get("store")), str(values.get("organization_id")))
                if values.get("kind") == "break":
                    # Heads before a break are told by it, so each stretch keeps its own first and longest.
                    kept |= {place: lines[place] for _, place in longest.values()}
                    kept[number] = line
                    longest = {}
                elif name not in longest or int(values["sequence"]) >= longest[name][0]:
                    if name not in longest:
                        kept[number] = line
                    longest[name] = (int(values["sequence"]), number)
            except (ValueError, KeyError, TypeError, AttributeError):
                # Somebody's hand was here: verify shall see it.
                kept[number] = line
            if number >= recent:
                kept[number] = line
        kept |= {place: lines[place] for _, place in longest.values()}
        thinned = self.path.with_name(f"{NAME}.{os.getpid()}.part")
        file = os.open(thinned, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(b"".join(kept[number] + b"\n" for number in sorted(kept)))
                opened.flush()
                os.fsync(opened.fileno())
            thinned.replace(self.path)
        finally:
            thinned.unlink(missing_ok=True)


def _whole(file: int) -> int:
    """Remove what a kill or a full disk left of a line, which says nothing and is nobody's forgery; the size then."""
    size = os.fstat(file).st_size
    end = size
    while end and os.pread(file, 1, end - 1) != b"\n":
        end = max(0, end - 1)
    if end != size:
        os.ftruncate(file, end)
    return end
