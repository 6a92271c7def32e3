"""Owns comparing two trees: only directories that differ are opened, so a commit costs what it changed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pygit2

_ENTRY = re.compile(rb"[0-7]+ [^\0]+\0.{20}", re.DOTALL)
_DIRECTORY = b"40000"
_SUBMODULE = b"160000"
_MOST_KEPT = 150_000
_MOST_DEPTH = 200


@dataclass(slots=True)
class Side:
    """A file in one of the two trees: its mode in octal digits and the hash of its content."""

    mode: bytes
    id: pygit2.Oid

    @property
    def is_submodule(self) -> bool:
        return self.mode == _SUBMODULE


@dataclass(slots=True)
class Difference:
    """A path that differs; `old` is None where it came, `new` where it went. A rename has another `old_path`."""

    path: bytes
    old: Side | None
    new: Side | None
    old_path: bytes = b""


class Trees:
    """Reads trees; those of the commit before are still at hand when the next one comes."""

    def __init__(self, odb: pygit2.Odb) -> None:
        self._odb = odb
        self._kept: dict[bytes, frozenset[bytes]] = {}
        self._size = 0

    def differences(self, old: bytes | None, new: bytes) -> list[Difference]:
        """What differs between two trees by their raw hashes, in the order of paths."""
        return list(self._compare(old, new, b"", 0))

    def _compare(self, old: bytes | None, new: bytes | None, prefix: bytes, depth: int) -> Iterator[Difference]:
        if old == new or depth > _MOST_DEPTH:
            return
        before = self._entries(old) if old is not None else frozenset[bytes]()
        after = self._entries(new) if new is not None else frozenset[bytes]()
        gone = dict(_split(entry) for entry in before - after)
        came = dict(_split(entry) for entry in after - before)
        for name in sorted(gone.keys() | came.keys()):
            was, now = gone.get(name), came.get(name)
            old_tree = was[1] if was is not None and was[0] == _DIRECTORY else None
            new_tree = now[1] if now is not None and now[0] == _DIRECTORY else None
            was, now = None if old_tree else was, None if new_tree else now
            if was or now:
                yield Difference(prefix + name, _side(was), _side(now))
            if old_tree or new_tree:
                yield from self._compare(old_tree, new_tree, prefix + name + b"/", depth + 1)

    def _entries(self, sha: bytes) -> frozenset[bytes]:
        found = self._kept.get(sha)
        if found is None:
            raw = self._odb.read(pygit2.Oid(raw=sha))[1]
            found = frozenset(_ENTRY.findall(raw))
            if self._size > _MOST_KEPT:
                self._kept.clear()
                self._size = 0
            self._kept[sha] = found
            self._size += len(found)
        return found


def _split(entry: bytes) -> tuple[bytes, tuple[bytes, bytes]]:
    mode, _, name = entry[:-21].partition(b" ")
    return name, (mode, entry[-20:])


def _side(given: tuple[bytes, bytes] | None) -> Side | None:
    return None if given is None else Side(given[0], pygit2.Oid(raw=given[1]))
