"""Owns reading an archive that somebody brings: plain members by exact name, bounded in every size, never unpacked."""

import gzip
import io
import os
import tarfile
from typing import IO

# A copy of tables compresses five to twenty times; a bomb a thousand times.
_RATIO = 100
_ALLOWANCE = 256 << 20
_MAX_READ = 8 << 20
_MAX_MEMBERS = 1000


class ArchiveRefused(Exception):
    """The archive holds what no backup of ours holds; the text says what."""


class BackupArchive:
    """The members of a gzipped tar file, looked through once from beginning to end."""

    def __init__(self, file: IO[bytes]) -> None:
        limit = _ALLOWANCE + _RATIO * os.fstat(file.fileno()).st_size
        self._bounded = _Bounded(gzip.GzipFile(fileobj=file, mode="rb"), limit)
        self._tar = tarfile.TarFile(fileobj=self._bounded, mode="r")
        self._members: dict[str, tarfile.TarInfo] = {}
        for member in self._tar:
            self._check(member)
            self._members[member.name] = member
        # To the very end, where gzip keeps its checksum: a cut-off file is noticed before anything is changed.
        while self._bounded.read(1 << 20):
            pass

    @property
    def names(self) -> set[str]:
        """The names of its members."""
        return set(self._members)

    def small(self, name: str, most: int) -> bytes:
        """The content of a member that has a bounded size."""
        if self._members[name].size > most:
            raise ArchiveRefused(f"its {name} is too large")
        return self.opened(name).read()

    def opened(self, name: str) -> IO[bytes]:
        """A member for reading; one at a time, in the archive's order."""
        content = self._tar.extractfile(self._members[name])
        if content is None:
            raise KeyError(name)
        return content

    def _check(self, member: tarfile.TarInfo) -> None:
        if not member.isreg() or member.issparse():
            raise ArchiveRefused(f"its member {member.name!r} is no plain file")
        if member.name in self._members or len(self._members) >= _MAX_MEMBERS:
            raise ArchiveRefused(f"it has the member {member.name!r} twice, or too many")
        self._bounded.allow(member.offset_data + member.size)


class _Bounded(io.RawIOBase):
    """Unpacked bytes up to a limit; a header that announces more is not believed."""

    def __init__(self, file: gzip.GzipFile, limit: int) -> None:
        self._file = file
        self._limit = limit

    def allow(self, place: int) -> None:
        """Refuse what lies beyond the limit."""
        if place > self._limit:
            raise ArchiveRefused(f"it unpacks to more than {self._limit >> 20} MiB, which no backup of its size does")

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise ArchiveRefused("it has a header that is too large")
        self.allow(self._file.tell() + size)
        return self._file.read(size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, place: int, whence: int = 0) -> int:
        self.allow(place)
        return self._file.seek(place, whence)
