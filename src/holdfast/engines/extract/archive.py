"""Owns reading the parts of an Office file: a ZIP of XML, opened as if it were hostile."""

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from holdfast.engines.extract.model import ExtractionFailed, ExtractLimits

_RELATIONSHIP = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_ENCRYPTED = 1
_MAX_DEPTH = 300
"""Tables within tables are read once for each that stands around them."""
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


class Bomb(ExtractionFailed):
    """An archive that unpacks to more than anybody's document."""

    code = "too_large_unpacked"

    def __init__(self, limit: int) -> None:
        super().__init__(f"It unpacks to more than {limit // 1024 // 1024} MB, which no real document does.")


class OfficeArchive:
    """The parts of one Office file by name. What is read counts against one allowance, whatever the headers claim."""

    def __init__(self, path: Path, limits: ExtractLimits) -> None:
        self._left = self._most = limits.unpacked_bytes
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            raise ExtractionFailed("The file is damaged: it is not a whole archive.", code="damaged") from None
        entries = self._zip.infolist()
        if len(entries) > limits.entries:
            raise ExtractionFailed(f"It has {len(entries):,} parts, which no real document has.", code="too_many_parts")
        if sum(entry.file_size for entry in entries if entry.filename.endswith((".xml", ".rels"))) > self._most:
            raise Bomb(self._most)
        if any(entry.flag_bits & _ENCRYPTED for entry in entries):
            raise ExtractionFailed(
                "It is protected by a password; save it without one and upload that.", code="password"
            )
        self._names = {entry.filename for entry in entries}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def elements(self, name: str, *tags: str) -> Iterator[Element]:
        """Each whole element with one of the tags, in order; its memory is given back when the next is asked for."""
        if name not in self._names:
            return
        path: list[Element] = []
        try:
            with self._zip.open(name) as raw:
                for event, element in iterparse(_Counted(raw, self), events=("start", "end"), forbid_dtd=True):
                    if event == "start":
                        path.append(element)
                        if len(path) > _MAX_DEPTH:
                            raise ExtractionFailed("It is nested too deeply to be read.", code="damaged")
                        continue
                    path.pop()
                    if element.tag in tags and not any(above.tag in tags for above in path):
                        yield element
                    if not any(above.tag in tags for above in path):
                        element.clear()
                        if path:
                            path[-1].remove(element)
        except DefusedXmlException:
            raise ExtractionFailed(
                "It defines XML entities, which no real document does.", code="hostile_xml"
            ) from None
        except (ParseError, zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError, RuntimeError, OSError):
            raise ExtractionFailed(f"The file is damaged: its part {name} cannot be read.", code="damaged") from None

    def targets(self, part: str) -> dict[str, str]:
        """What a part refers to: relationship id → name of the other part."""
        folder, file = posixpath.split(part)
        found = {}
        for element in self.elements(f"{folder}/_rels/{file}.rels", _RELATIONSHIP):
            if element.get("TargetMode") != "External":
                target = element.get("Target", "")
                whole = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
                found[element.get("Id", "")] = posixpath.normpath(whole)
        return found

    def title(self) -> str:
        """The title in the file's properties."""
        for element in self.elements("docProps/core.xml", _TITLE):
            return " ".join("".join(element.itertext()).split())
        return ""

    def spend(self, size: int) -> None:
        """Count unpacked bytes; Bomb when they are too many."""
        self._left -= size
        if self._left < 0:
            raise Bomb(self._most)


class _Counted:
    """A file whose bytes are counted while they are unpacked."""

    def __init__(self, raw: IO[bytes], archive: OfficeArchive) -> None:
        self._raw = raw
        self._archive = archive

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(min(size, 65536) if size > 0 else 65536)
        self._archive.spend(len(data))
        return data


def local(element: Any) -> str:
    """An element's name without its namespace."""
    tag = element.tag
    return str(tag).rpartition("}")[2]
