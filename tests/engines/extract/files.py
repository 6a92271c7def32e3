"""Owns the files that extraction is tried on, made by the programs that people make them with."""

import datetime
import io
import zipfile
from typing import Any

import docx
import openpyxl
import pptx
from reportlab.pdfgen import canvas

_DOCUMENT = "word/document.xml"
_TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'


def word() -> bytes:
    """A Word document with headings, paragraphs and a table."""
    document = docx.Document()
    document.core_properties.title = "Handbook"
    document.add_heading("Welcome", 1)
    document.add_paragraph("The office opens at nine.")
    document.add_heading("Travel", 2)
    document.add_paragraph("Trains are booked by Kim.")
    table = document.add_table(2, 2)
    for row, cells in enumerate([("city", "train"), ("Ulm", "ICE 518")]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    document.add_heading("Leave", 1)
    document.add_paragraph("Thirty days.")
    return _saved(document)


def slides() -> bytes:
    """Two slides, the first with speaker notes."""
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Roadmap"
    first.placeholders[1].text = "Ship the beta in May"
    first.notes_slide.notes_text_frame.text = "Mention the giraffe"
    second = deck.slides.add_slide(deck.slide_layouts[1])
    second.shapes.title.text = "Risks"
    second.placeholders[1].text = "Too few testers"
    return _saved(deck)


def sheet() -> bytes:
    """A workbook with text, numbers, dates and truth values, and an empty sheet."""
    book = openpyxl.Workbook()
    people = book.active
    people.title = "People"
    people.append(["Name", "Born", "Paid"])
    people.append(["Ada", datetime.date(1815, 12, 10), True])
    people.append(["Kim", datetime.datetime(1990, 1, 2, 3, 4), 12.5])
    book.create_sheet("Nothing")
    return _saved(book)


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF with a line of text on each page."""
    buffer = io.BytesIO()
    page = canvas.Canvas(buffer)
    if title:
        page.setTitle(title)
    for text in pages:
        page.drawString(100, 700, text)
        page.showPage()
    page.save()
    return buffer.getvalue()


def zip_bomb() -> bytes:
    """A docx of some hundred kilobytes whose one part unpacks to 400 MB, and says so."""
    return _archive(_flood(400))


def lying_zip_bomb() -> bytes:
    """The same, but its directory claims that the part is small."""
    whole = bytearray(zip_bomb())
    declared = (400 * 1024 * 1024).to_bytes(4, "little")
    while (at := whole.find(declared)) >= 0:
        whole[at : at + 4] = (1000).to_bytes(4, "little")
    return bytes(whole)


def entity_bomb() -> bytes:
    """A docx whose XML doubles an entity over and over."""
    entities = "".join(f'<!ENTITY e{n} "&e{n - 1};&e{n - 1};">' for n in range(1, 40))
    text = f'<!DOCTYPE d [<!ENTITY e0 "lol">{entities}]><d>&e39;</d>'
    return _archive([text.encode()])


def _flood(megabytes: int) -> list[bytes]:
    return [b"<a>" + b" " * (1024 * 1024 - 3) if n == 0 else b" " * (1024 * 1024) for n in range(megabytes)]


def _archive(pieces: list[bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _TYPES)
        with archive.open(_DOCUMENT, "w") as part:
            for piece in pieces:
                part.write(piece)
    return buffer.getvalue()


def _saved(document: Any) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()
