"""Owns where import files come from and export files go to: folders and ZIP archives, with limits."""

import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from holdfast.core.errors import FieldError, Invalid
from holdfast.features.interchange.export import Sink
from holdfast.features.interchange.formats.own import content_folder
from holdfast.features.interchange.formats.readers import is_readable, most_bytes
from holdfast.features.interchange.model import SourceFile, shown

MAX_ENTRIES = 200_000
MAX_TOTAL_BYTES = 2 * 1024 * 1024 * 1024
MAX_DIRECTORY_BYTES = 16 * 1024 * 1024
"""An archive's list of its files is held in memory, several times as large as it is written."""
SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})
# Our own folders: what a renewed export replaces.
OWN_FOLDERS = (
    "memories",
    "decisions",
    "milestones",
    "artifacts",
    "documents",
    "cases",
    "records",
    "vectors",
    "relations",
)
_ENCRYPTED = 1
# The end record and its comment, and the wide one with its locator before it.
_LONGEST_END = 22 + 65_535 + 76
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def folder_files(root: Path) -> Iterator[SourceFile]:
    """A file, or every file below a folder in the order of their paths; hidden ones and links are passed over."""
    if root.is_file():
        if zipfile.is_zipfile(root):
            with root.open("rb") as archive:
                yield from archive_files(archive)
        else:
            yield SourceFile(shown(root.name), _bounded(root, root.name))
        return
    if not root.is_dir():
        problem = f"{root} does not exist; name a file, a folder or a ZIP archive"
        raise Invalid(f"There is nothing to import: {problem}.", fields=[FieldError("path", problem)])
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink() and not name.startswith("."):
                relative = shown(path.relative_to(root).as_posix())
                yield SourceFile(relative, _bounded(path, relative) if is_readable(relative) else b"")


def archive_files(archive: BinaryIO) -> Iterator[SourceFile]:
    """Every file of a ZIP archive in the order of their paths; Invalid for one that is broken or unpacks too large.

    Names are only names here: nothing is written where they point to. A file that cannot be unpacked is a problem of
    that file alone."""
    try:
        if _directory_bytes(archive) > MAX_DIRECTORY_BYTES:
            raise _wrong(f"it has too many files; the limit is {MAX_ENTRIES:,}")
        opened = zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        raise _wrong("it is not a ZIP archive that can be read") from None
    with opened:
        entries = sorted((each for each in opened.infolist() if not each.is_dir()), key=lambda each: each.filename)
        if len(entries) > MAX_ENTRIES:
            raise _wrong(f"it has {len(entries):,} files; the limit is {MAX_ENTRIES:,}")
        total = 0
        for entry in entries:
            file = _unpacked(opened, entry)
            total += len(file.data)
            if total > MAX_TOTAL_BYTES:
                raise _wrong(f"it unpacks to more than {MAX_TOTAL_BYTES // 1024**3} GB")
            yield file


def folder_sink(root: Path, *, replace: bool) -> Sink:
    """Writes files below a folder that is new, empty, or to be replaced; Invalid where it holds something else."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())) and not replace:
        problem = f"{root} is not an empty folder; choose another, or replace an earlier export with --replace"
        raise Invalid(f"The export was not written: {problem}.", fields=[FieldError("path", problem)])
    if replace:
        _refuse_links(root, *(root / name for name in OWN_FOLDERS))
        for name in OWN_FOLDERS:
            for old in sorted((root / name).rglob("*")):
                if old.suffix == ".md" or (old.is_file() and content_folder(old.relative_to(root).as_posix())):
                    old.unlink()
    root.mkdir(parents=True, exist_ok=True)

    def write(path: str, data: bytes) -> None:
        target = root / path
        _refuse_links(root, target.parent, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    return write


def _refuse_links(root: Path, *places: Path) -> None:
    """A link below the folder, which somebody else may have put there, would have other files written over."""
    for place in places:
        if not place.resolve().is_relative_to(root.resolve()):
            problem = f"{place} is a link to a place outside of {root}; remove it, or choose another folder"
            raise Invalid(f"The export was not written: {problem}.", fields=[FieldError("path", problem)])


def archive_sink(archive: zipfile.ZipFile) -> Sink:
    """Writes files into an archive; the same files give the same bytes."""

    def write(path: str, data: bytes) -> None:
        entry = zipfile.ZipInfo(path, _ZIP_EPOCH)
        entry.external_attr = 0o600 << 16
        archive.writestr(entry, data, zipfile.ZIP_DEFLATED)

    return write


def _bounded(path: Path, name: str) -> bytes:
    """The file, or just enough of it to be refused as too large."""
    with path.open("rb") as opened:
        return opened.read(most_bytes(name) + 1)


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> SourceFile:
    path = shown(entry.filename)
    if not is_readable(path):
        return SourceFile(path, b"")
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        return SourceFile(path, b"", "it is a link or a device, which are passed over")
    if entry.flag_bits & _ENCRYPTED:
        return SourceFile(path, b"", "it is encrypted; make the archive without a password")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Others are unpacked a block at a time, however large it becomes.
        return SourceFile(path, b"", "it is packed in a way that is not read here; use plain ZIP (deflate)")
    try:
        with archive.open(entry) as opened:
            # What the directory says of an entry's size may be a lie: stop by what comes out.
            return SourceFile(path, opened.read(most_bytes(path) + 1))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        return SourceFile(path, b"", "it is damaged and cannot be unpacked")


def _directory_bytes(archive: BinaryIO) -> int:
    """How large an archive's list of its files says it is, found as `zipfile` finds it, which goes by this number."""
    archive.seek(0, os.SEEK_END)
    archive.seek(max(0, archive.tell() - _LONGEST_END))
    end = archive.read()
    archive.seek(0)
    plain = end[-22:-18] == b"PK\x05\x06" and end[-2:] == b"\0\0"
    at = len(end) - 22 if plain else end.rfind(b"PK\x05\x06")
    if at < 0:
        return 0
    wide = at - 76
    if wide >= 0 and end[wide : wide + 4] == b"PK\x06\x06" and end[at - 20 : at - 16] == b"PK\x06\x07":
        return int.from_bytes(end[wide + 40 : wide + 48], "little")
    return int.from_bytes(end[at + 12 : at + 16], "little")


def _wrong(problem: str) -> Invalid:
    return Invalid(f"The archive cannot be imported: {problem}.", fields=[FieldError("body", problem)])
