"""Owns putting a bundle into a folder: what would change, and the writing of all of it or nothing."""

import contextlib
import difflib
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.features.client_bundles.model import KEYSTONE, XEROTIER, BundleFile, Unmergeable

_KEY = re.compile(r"xero_[0-9a-f]{32}_[A-Za-z0-9_-]{43}|ks_live_[0-9a-f]{64}")


class NotWritten(HoldfastError):
    """The folder or a file in it cannot be written."""

    code = "not_written"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file before and after."""

    name: str
    path: Path
    before: str | None
    after: str
    has_key: bool

    @property
    def is_change(self) -> bool:
        return self.before != self.after


def plan(directory: Path, files: Sequence[BundleFile]) -> list[ChangedFile]:
    """What each file would become. Writes nothing; raises where a file cannot be read or merged."""
    found = []
    for file in files:
        # A link is followed: the file it names is the one that is changed.
        path = (directory / file.path).resolve()
        before = _read(path)
        try:
            after = file.merge(before or "")
        except Unmergeable as problem:
            raise Unmergeable(f"Nothing was written. {path} stays as it is: {problem.message}") from None
        found.append(ChangedFile(file.path, path, before, after, file.has_key))
    return found


def diff(changes: Sequence[ChangedFile]) -> str:
    """The changes for people to read, without any key."""
    lines: list[str] = []
    for change in changes:
        before, after = hide_keys(change.before or ""), hide_keys(change.after)
        origin = "/dev/null" if change.before is None else change.name
        for line in difflib.unified_diff(before.splitlines(), after.splitlines(), origin, change.name, lineterm=""):
            lines.append(line)
    return "\n".join(lines)


def write(changes: Sequence[ChangedFile]) -> list[str]:
    """Write what changed and answer the names. Each file appears whole or not at all."""
    staged: list[tuple[Path, ChangedFile]] = []
    try:
        for change in changes:
            if change.is_change or change.has_key:
                staged.append((_stage(change), change))
        # What keeps a key out of version control comes before the key.
        for temporary, change in sorted(staged, key=lambda each: each[1].has_key):
            temporary.replace(change.path)
    except OSError as problem:
        where = problem.filename or "the folder"
        raise NotWritten(
            f"{where} cannot be written ({problem.strerror}); the key was changed, so run it again."
        ) from None
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
    return [change.name for change in changes if change.is_change]


def hide_keys(text: str) -> str:
    """The text with every API key made unreadable."""
    return _KEY.sub(lambda found: KEYSTONE.hidden_key if found[0].startswith("ks_") else XEROTIER.hidden_key, text)


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise Unmergeable(f"Nothing was written. {path} stays as it is: it is not UTF-8 text.") from None
    except OSError as problem:
        raise NotWritten(f"Nothing was written. {path} cannot be read ({problem.strerror}).") from None


def _stage(change: ChangedFile) -> Path:
    """The new content in a file of its own beside the old one."""
    change.path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600 if change.has_key else (change.path.stat().st_mode & 0o777 if change.before is not None else 0o644)
    descriptor, name = tempfile.mkstemp(prefix=".holdfast-", dir=change.path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(change.after.encode())
        os.fchmod(file.fileno(), mode)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)
