"""Owns directories as archives, to a pod and back; what comes back was written by others and leads nowhere."""

import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import BinaryIO

from holdfast.core.errors import UpstreamFailed
from holdfast.engines.runtime.trees import remove_tree

_MOST_ENTRIES = 2_000_000
_PIECE = 1 << 20


class DirectoryRefused(UpstreamFailed):
    """What a pod handed back is not what a directory can hold."""

    code = "directory_refused"


def pack(source: Path, to: BinaryIO) -> None:
    """A directory's plain files, directories and links; of a file itself."""
    with tarfile.open(fileobj=to, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_PIECE) as archive:
        if source.is_file():
            archive.add(source, source.name)
        for directory, names, files in os.walk(source):
            for name in (*names, *files):
                path = Path(directory, name)
                facts = path.lstat()
                info = tarfile.TarInfo(str(path.relative_to(source)))
                info.mode, info.mtime = stat.S_IMODE(facts.st_mode), int(facts.st_mtime)
                if stat.S_ISLNK(facts.st_mode):
                    info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
                    archive.addfile(info)
                elif stat.S_ISDIR(facts.st_mode):
                    info.type = tarfile.DIRTYPE
                    archive.addfile(info)
                elif stat.S_ISREG(facts.st_mode):
                    info.size = facts.st_size
                    with path.open("rb") as file:
                        archive.addfile(info, file)


def unpack(given: BinaryIO, target: Path, most_bytes: int) -> None:
    """Put what was handed back into a directory in place of what it holds; nothing outside of it is touched."""
    making = target.with_name(f".{target.name}.new")
    remove_tree(making)
    making.mkdir(mode=0o700, parents=True)
    try:
        _fill(given, making, most_bytes)
    except (tarfile.TarError, OSError, ValueError) as problem:
        remove_tree(making)
        raise DirectoryRefused(f"What the program left could not be read: {problem}") from None
    before = target.with_name(f".{target.name}.old")
    remove_tree(before)
    if target.exists():
        target.rename(before)
    making.rename(target)
    remove_tree(before)


def _fill(given: BinaryIO, root: Path, most_bytes: int) -> None:
    total = 0
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with tarfile.open(fileobj=given, mode="r|", bufsize=_PIECE) as archive:
            for count, member in enumerate(archive):
                total += member.size + 512
                if count > _MOST_ENTRIES or total > most_bytes:
                    raise ValueError("it is more than may be kept")
                _put(archive, member, top)
    finally:
        os.close(top)


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, top: int) -> None:
    *directories, name = member.name.split("/")
    if any(part in ("", ".", "..") for part in (*directories, name)):
        raise ValueError("a name leads elsewhere")
    at = os.dup(top)
    try:
        for each in directories:
            below = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        if member.isdir():
            os.mkdir(name, member.mode & 0o777 | 0o700, dir_fd=at)
        elif member.issym():
            os.symlink(member.linkname, name, dir_fd=at)
        elif member.isreg():
            source = archive.extractfile(member)
            assert source is not None
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, member.mode & 0o777 | 0o600, dir_fd=at), "wb") as file:
                shutil.copyfileobj(source, file, _PIECE)
                os.utime(file.fileno(), (member.mtime, member.mtime))
    finally:
        os.close(at)
