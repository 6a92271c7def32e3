"""Owns the directories of this machine that proofs may see: which can be named, and what tells one from another."""

import hashlib
import os
from pathlib import Path

from holdfast.core.errors import FieldError, Invalid

_MOST_FILES = 200_000
_SEEN = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")
_TOO_MUCH = tuple(map(Path, ("/", "/etc", "/dev", "/home", "/proc", "/root", "/sys", "/var")))


def directory(path: str, ours: Path) -> Path:
    """A directory that may be shown to proofs; Invalid for any other path, and where `ours` would be seen."""
    found = Path(path).expanduser()
    if not found.is_absolute() or not found.is_dir():
        problem = "give the absolute path of a directory, such as /opt/envs/shop"
        raise Invalid("There is no such directory.", fields=[FieldError("path", problem)])
    kept = found.resolve()
    if kept in (Path.home(), *_TOO_MUCH):
        raise Invalid("This directory holds too much.", fields=[FieldError("path", "name one made for proofs")])
    if kept.is_relative_to(ours) or ours.is_relative_to(kept):
        problem = f"the server's own data is in {ours}; name one made for proofs"
        raise Invalid("Proofs would read what is Holdfast's own.", fields=[FieldError("path", problem)])
    return kept


def seen(path: str) -> tuple[str, str]:
    """A directory's digest, and what is wrong with it; one of them is empty."""
    try:
        if not Path(path).is_dir():
            return "", "The directory is gone; prepare it again, or register another."
        return digest(Path(path)), _unreachable(Path(path))
    except OSError as problem:
        return "", f"The directory cannot be read: {problem.strerror}."


def _unreachable(path: Path) -> str:
    """What is wrong with its programs: those that lead to where proofs see nothing, such as into somebody's home."""
    programs = path / "bin"
    if not programs.is_dir():
        return ""
    for each in sorted(programs.iterdir()):
        leads_to = each.resolve()
        if not leads_to.is_relative_to(path) and not str(leads_to).startswith(_SEEN):
            where = f"bin/{each.name} leads to {leads_to}, which proofs do not see"
            return f"{where}; prepare it with a program below /usr, or with copies of all that it needs."
    return ""


def digest(path: Path) -> str:
    """A digest of a directory's names, sizes and moments of change."""
    total = hashlib.sha256()
    count = 0
    for place, names, files in os.walk(path):
        names.sort()
        for name in sorted(files):
            count += 1
            if count > _MOST_FILES:
                return f"sha256:{total.hexdigest()} (of the first {_MOST_FILES} files)"
            file = Path(place, name)
            found = file.lstat()
            total.update(f"{file.relative_to(path)}\0{found.st_size}\0{found.st_mtime_ns}\n".encode(errors="replace"))
    return f"sha256:{total.hexdigest()}"
