"""Owns reading a file of any known kind into passages. Runs in the child process, where a bad file can do no harm."""

from collections.abc import Iterator
from pathlib import Path

from holdfast.engines.extract.archive import OfficeArchive
from holdfast.engines.extract.chunk import Chunk, chunk_markdown, chunk_text, pack
from holdfast.engines.extract.code import chunk_code
from holdfast.engines.extract.formats import FileKind
from holdfast.engines.extract.html import html_to_markdown
from holdfast.engines.extract.model import ExtractionFailed, ExtractLimits, Summary
from holdfast.engines.extract.office import sheets, slides, word_markdown
from holdfast.engines.extract.pdf import pdf_pages, pdf_title
from holdfast.engines.extract.text import clean, decode, read_text

_MAX_TITLE = 300
_MAX_CHARACTERS = 8_000


class FileReader:
    """Reads one file: iterate over the chunks, then ask for the summary."""

    def __init__(self, path: Path, kind: FileKind, limits: ExtractLimits) -> None:
        self._path = path
        self._kind = kind
        self._limits = limits
        self._title = ""
        self._truncated = False
        self._chunks = 0
        self._characters = 0

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in (piece for whole in self._read() for piece in _bounded(whole)):
            if not chunk.text.strip():
                continue
            self._characters += len(chunk.text)
            if self._chunks == self._limits.chunks or self._characters > self._limits.characters:
                self._characters -= len(chunk.text)
                self._truncated = True
                break
            self._chunks += 1
            yield chunk
        if not self._chunks:
            hint = "; a scan needs text recognition first" if self._kind.format == "pdf" else ""
            raise ExtractionFailed(f"There is no text in it{hint}.", code="no_text")

    def summary(self) -> Summary:
        """What was read, once everything was."""
        return Summary(self._title[:_MAX_TITLE], self._chunks, self._characters, self._truncated)

    def _read(self) -> Iterator[Chunk]:
        match self._kind.format:
            case "pdf":
                return self._pdf()
            case "docx":
                return self._word()
            case "pptx":
                return self._slides()
            case "xlsx":
                return self._sheets()
            case "html":
                return self._html()
            case "markdown":
                return self._markdown()
            case "code":
                return chunk_code(self._text(), self._kind.language)
            case "text":
                return chunk_text(self._text())

    def _text(self) -> str:
        text, self._truncated = read_text(self._path, self._limits.characters)
        return text

    def _markdown(self) -> Iterator[Chunk]:
        text = self._text()
        first = next((line for line in text.splitlines() if line.startswith("# ")), "")
        self._title = first[2:].strip()
        return chunk_markdown(text)

    def _html(self) -> Iterator[Chunk]:
        with self._path.open("rb") as file:
            raw = file.read(self._limits.characters + 1)
        self._truncated = len(raw) > self._limits.characters
        markup = decode(raw[: self._limits.characters], cut=self._truncated, markup=True)
        self._title, text = html_to_markdown(markup)
        return chunk_markdown(text)

    def _pdf(self) -> Iterator[Chunk]:
        self._title, pages = pdf_title(self._path)
        self._truncated = pages > self._limits.pages
        for number, text in pdf_pages(self._path, self._limits):
            yield from chunk_text(text, page=number)

    def _word(self) -> Iterator[Chunk]:
        archive = OfficeArchive(self._path, self._limits)
        self._title = clean(archive.title())
        # In pieces that end before a heading, so that a long document is never held as a whole.
        held: list[str] = []
        path: list[str] = []
        for block in word_markdown(archive):
            if block.startswith("#") and held:
                yield from chunk_markdown(clean("\n\n".join([*path, *held])))
                path = _headings(path, held)
                held = []
            held.append(block)
        yield from chunk_markdown(clean("\n\n".join([*path, *held])))

    def _slides(self) -> Iterator[Chunk]:
        archive = OfficeArchive(self._path, self._limits)
        self._title = clean(archive.title())
        for number, title, text in slides(archive):
            name = clean(title) or f"Slide {number}"
            yield from chunk_text(clean(text) or name, heading=name, page=number)

    def _sheets(self) -> Iterator[Chunk]:
        archive = OfficeArchive(self._path, self._limits)
        self._title = clean(archive.title())
        for number, name, rows in sheets(archive):
            first = next(rows, None)
            if first is None:
                continue
            header = clean(" | ".join(first))
            heading = f"{clean(name)} › {header}"[:200]
            following = pack((clean(" | ".join(row)) for row in rows), joint="\n")
            only_header = True
            for passage in following:
                only_header = False
                yield Chunk(passage, heading, number)
            if only_header:
                yield Chunk(header, clean(name), number)


def _bounded(chunk: Chunk) -> Iterator[Chunk]:
    """The chunk, or several: few words with megabytes of space between them are still one line for the server."""
    if len(chunk.text) <= _MAX_CHARACTERS:
        yield chunk
        return
    text = " ".join(chunk.text.split())
    for start in range(0, len(text), _MAX_CHARACTERS):
        yield Chunk(text[start : start + _MAX_CHARACTERS], chunk.heading, chunk.page)


def _headings(path: list[str], blocks: list[str]) -> list[str]:
    """The headings that the next block still stands under: of each level the last, none below a higher one."""
    for block in blocks:
        if block.startswith("#"):
            level = len(block) - len(block.lstrip("#"))
            path = [*[above for above in path if len(above) - len(above.lstrip("#")) < level], block]
    return path
