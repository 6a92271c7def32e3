"""Owns reading Word, PowerPoint and Excel files as Markdown and rows of text."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from xml.etree.ElementTree import Element

from holdfast.engines.extract.archive import OfficeArchive, local

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_HEADING_NAME = re.compile(r"heading ([1-6])")
_DATE_FORMATS = frozenset({*range(14, 23), *range(45, 48)})
_MAX_COLUMNS = 256


def word_markdown(archive: OfficeArchive) -> Iterator[str]:
    """Paragraphs, headings and tables of a document as blocks of Markdown, then its notes."""
    levels = _heading_levels(archive)
    for element in archive.elements("word/document.xml", f"{_W}p", f"{_W}tbl"):
        if element.tag == f"{_W}tbl":
            yield "\n".join(_word_rows(element))
        elif words := _word_text(element).strip():
            style = element.find(f"{_W}pPr/{_W}pStyle")
            level = levels.get(style.get(f"{_W}val", ""), 0) if style is not None else 0
            yield f"{'#' * level} {' '.join(words.split())}" if level else words
    for part in ("word/footnotes.xml", "word/endnotes.xml"):
        for element in archive.elements(part, f"{_W}p"):
            if words := _word_text(element).strip():
                yield words


def slides(archive: OfficeArchive) -> Iterator[tuple[int, str, str]]:
    """(number from 1, title, text with speaker notes) of each slide, in the order they are shown."""
    targets = archive.targets("ppt/presentation.xml")
    order = [element.get(_R, "") for element in archive.elements("ppt/presentation.xml", f"{_P}sldId")]
    for number, name in enumerate((targets[key] for key in order if key in targets), 1):
        title, blocks = "", list[str]()
        for shape in archive.elements(name, f"{_P}sp", f"{_P}graphicFrame"):
            words = "\n".join(_paragraphs(shape))
            if not title and _is_title(shape):
                title = " ".join(words.split())
            elif words:
                blocks.append(words)
        for target in archive.targets(name).values():
            if "notesSlide" in target:
                notes = [line for shape in archive.elements(target, f"{_P}sp") for line in _paragraphs(shape)]
                blocks.append("\n".join(line for line in notes if not line.isdigit()))
        yield number, title, "\n\n".join(block for block in blocks if block)


def sheets(archive: OfficeArchive) -> Iterator[tuple[int, str, Iterator[list[str]]]]:
    """(number from 1, name, rows of cells) of each sheet."""
    targets = archive.targets("xl/workbook.xml")
    named = [(e.get("name", ""), e.get(_R, "")) for e in archive.elements("xl/workbook.xml", f"{_S}sheet")]
    strings = [_shared_string(element) for element in archive.elements("xl/sharedStrings.xml", f"{_S}si")]
    dates = _date_styles(archive)
    for number, (name, key) in enumerate(named, 1):
        if key in targets:
            yield number, name, _rows(archive, targets[key], strings, dates)


def _heading_levels(archive: OfficeArchive) -> dict[str, int]:
    """Style ids that are headings. Ids are translated by Word, names are not."""
    found = {f"Heading{level}": level for level in range(1, 7)} | {"Title": 1}
    for style in archive.elements("word/styles.xml", f"{_W}style"):
        name = style.find(f"{_W}name")
        text = name.get(f"{_W}val", "").lower() if name is not None else ""
        if match := _HEADING_NAME.fullmatch(text):
            found[style.get(f"{_W}styleId", "")] = int(match[1])
        elif text == "title":
            found[style.get(f"{_W}styleId", "")] = 1
    return found


def _word_text(element: Element) -> str:
    parts = []
    for each in element.iter():
        name = local(each)
        if name == "t" and each.tag == f"{_W}t":
            parts.append(each.text or "")
        elif name == "tab":
            parts.append("\t")
        elif name in ("br", "cr"):
            parts.append("\n")
    return "".join(parts)


def _word_rows(table: Element) -> Iterator[str]:
    for row in table.iter(f"{_W}tr"):
        cells = [" ".join(_word_text(cell).split()) for cell in row.iter(f"{_W}tc")]
        if any(cells):
            yield " | ".join(cells)


def _is_title(shape: Element) -> bool:
    placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return placeholder is not None and placeholder.get("type") in ("title", "ctrTitle")


def _paragraphs(shape: Element) -> Iterator[str]:
    for paragraph in shape.iter(f"{_A}p"):
        words = "".join(each.text or "" for each in paragraph.iter(f"{_A}t")).strip()
        if words:
            yield words


def _shared_string(element: Element) -> str:
    """The words of a string in one or several runs, without the phonetic aid that East Asian ones carry."""
    aid = {id(each) for hint in element.iter(f"{_S}rPh") for each in hint.iter()}
    return "".join(each.text or "" for each in element.iter(f"{_S}t") if id(each) not in aid)


def _date_styles(archive: OfficeArchive) -> frozenset[str]:
    """The cell styles that show a number as a date."""
    custom = set()
    for element in archive.elements("xl/styles.xml", f"{_S}numFmt"):
        code = re.sub(r'"[^"]*"|\[[^\]]*\]', "", element.get("formatCode", "").lower())
        if re.search(r"[yd]|h.*m", code):
            custom.add(element.get("numFmtId", ""))
    found = set()
    for group in archive.elements("xl/styles.xml", f"{_S}cellXfs"):
        for number, style in enumerate(group):
            id = style.get("numFmtId", "")
            if id in custom or (_is_number(id) and int(id) in _DATE_FORMATS):
                found.add(str(number))
    return frozenset(found)


def _rows(archive: OfficeArchive, part: str, strings: list[str], dates: frozenset[str]) -> Iterator[list[str]]:
    for row in archive.elements(part, f"{_S}row"):
        cells = [_cell(cell, strings, dates) for cell in list(row)[:_MAX_COLUMNS]]
        if any(cells):
            yield cells


def _cell(cell: Element, strings: list[str], dates: frozenset[str]) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return " ".join("".join(each.text or "" for each in cell.iter(f"{_S}t")).split())
    value = (cell.findtext(f"{_S}v") or "").strip()
    if kind == "s":
        return " ".join(strings[int(value)].split()) if _is_number(value) and int(value) < len(strings) else ""
    if kind == "b":
        return {"1": "TRUE", "0": "FALSE"}.get(value, value)
    if kind == "n" and value and cell.get("s") in dates:
        return _date(value)
    return " ".join(value.split())


def _is_number(text: str) -> bool:
    """Whether it counts something: superscripts are digits too, and there are numbers that take minutes to read."""
    return text.isascii() and text.isdecimal() and len(text) < 10


def _date(value: str) -> str:
    """A serial day number as ISO 8601; day 0 is 1899-12-30, Excel's leap-year error included."""
    try:
        moment = datetime(1899, 12, 30, tzinfo=UTC) + timedelta(days=float(value))
    except (ValueError, OverflowError):
        return value
    seconds = round(moment.timestamp()) % 86400
    return moment.date().isoformat() if seconds == 0 else moment.replace(microsecond=0, tzinfo=None).isoformat(" ")
