"""Owns reading PDF, page by page."""

from collections.abc import Iterator
from pathlib import Path

import pypdfium2

from holdfast.engines.extract.model import ExtractionFailed, ExtractLimits
from holdfast.engines.extract.text import clean

_NO_TITLE = frozenset({"untitled", "untitled document", "title"})
"""What programs write into a file whose author gave it no title."""


def pdf_pages(path: Path, limits: ExtractLimits) -> Iterator[tuple[int, str]]:
    """(page number from 1, text) of every page that has some."""
    document = open_pdf(path)
    try:
        for number in range(min(len(document), limits.pages)):
            try:
                page = document[number]
                words = page.get_textpage().get_text_bounded()
            except pypdfium2.PdfiumError:
                # One damaged page does not take the others with it.
                continue
            finally:
                page = None
            if text := clean(words).strip():
                yield number + 1, text
    finally:
        document.close()


def pdf_title(path: Path) -> tuple[str, int]:
    """The title that the file gives itself, and how many pages it has."""
    document = open_pdf(path)
    try:
        given = clean(document.get_metadata_dict().get("Title", "")).strip()
        return ("" if given.lower() in _NO_TITLE else given), len(document)
    except pypdfium2.PdfiumError:
        return "", len(document)
    finally:
        document.close()


def open_pdf(path: Path) -> pypdfium2.PdfDocument:
    """The document; ExtractionFailed when it is protected or damaged."""
    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as problem:
        if "password" in str(problem).lower():
            raise ExtractionFailed(
                "The PDF is protected by a password; save it without one and upload that.", code="password"
            ) from None
        raise ExtractionFailed("The PDF is damaged and cannot be opened.", code="damaged") from None
