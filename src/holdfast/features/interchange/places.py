"""Owns where import files come from and export files go to: folders and ZIP archives, with limits."""

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from holdfast.core.errors import FieldError, Invalid
from holdfast.features.interchange.export import Sink
from holdfast.features.interchange.model import MAX_DATA_BYTES, MAX_FILE_BYTES, SourceFile
from holdfast.features.interchange.readers import DATA, is_readable

MAX_ENTRIES = 200_000
MAX_TOTAL_BYTES = 2 * 1024 * 1024 * 1024
SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})
# Our own folders: what a renewed export replaces.
OWN_FOLDERS = ("memories", "decisions", "milestones", "artifacts", "relations")
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def folder_files(root: Path) -> Iterator[SourceFile]:
    """A file, or every file below a folder in the order of their paths; hidden ones and links are passed over."""
    if root.is_file():
        if zipfile.is_zipfile(root):
            with root.open("rb") as archive:
                yield from archive_files(archive)
        else:
            yield SourceFile(root.name, _bounded(root))
        return
    if not root.is_dir():
        problem = f"{root} does not exist; name a file, a folder or a ZIP archive"
        raise Invalid(f"There is nothing to import: {problem}.", fields=[FieldError("path", problem)])
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink() and not name.startswith("."):
                relative = path.relative_to(root).as_posix()
                yield SourceFile(relative, _bounded(path) if is_readable(relative) else b"")


def archive_files(archive: BinaryIO) -> Iterator[SourceFile]:
    """Every file of a ZIP archive in the order of their paths; Invalid for one that is broken or unpacks too large."""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = sorted((each for each in opened.infolist() if not each.is_dir()), key=lambda each: each.filename)
            if len(entries) > MAX_ENTRIES:
                raise _wrong(f"it has {len(entries):,} files; the limit is {MAX_ENTRIES:,}")
            total = 0
            for entry in entries:
                data = _unpacked(opened, entry)
                total += len(data)
                if total > MAX_TOTAL_BYTES:
                    raise _wrong(f"it unpacks to more than {MAX_TOTAL_BYTES // 1024**3} GB")
                yield SourceFile(entry.filename, data)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError):
        raise _wrong("it is not a ZIP archive that can be read") from None


def folder_sink(root: Path, *, replace: bool) -> Sink:
    """Writes files below a folder that is new, empty, or to be replaced; Invalid where it holds something else."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())) and not replace:
        problem = f"{root} is not an empty folder; choose another, or replace an earlier export with --replace"
        raise Invalid(f"The export was not written: {problem}.", fields=[FieldError("path", problem)])
    if replace:
        for name in OWN_FOLDERS:
            for old in sorted((root / name).rglob("*.md")):
                old.unlink()
    root.mkdir(parents=True, exist_ok=True)

    def write(path: str, data: bytes) -> None:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    return write


def archive_sink(archive: zipfile.ZipFile) -> Sink:
    """Writes files into an archive; the same files give the same bytes."""

    def write(path: str, data: bytes) -> None:
        entry = zipfile.ZipInfo(path, _ZIP_EPOCH)
        entry.external_attr = 0o600 << 16
        archive.writestr(entry, data, zipfile.ZIP_DEFLATED)

    return write


def _most(path: str) -> int:
    return MAX_DATA_BYTES if PurePosixPath(path).suffix.lower() in DATA else MAX_FILE_BYTES


def _bounded(path: Path) -> bytes:
    """The file, or just enough of it to be refused as too large."""
    with path.open("rb") as opened:
        return opened.read(_most(path.name) + 1)


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    if not is_readable(entry.filename):
        return b""
    with archive.open(entry) as opened:
        # What the directory says of an entry's size may be a lie: stop by what comes out.
        return opened.read(_most(entry.filename) + 1)


def _wrong(problem: str) -> Invalid:
    return Invalid(f"The archive cannot be imported: {problem}.", fields=[FieldError("body", problem)])
