"""Owns documents that an attacker would upload: generated, small on the wire, each with how its reading may end."""

import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen import canvas

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


@dataclass(frozen=True, slots=True)
class Hostile:
    """A file. `reason_code` is how it fails; None when it is read after all, `refused` when it is not even taken."""

    filename: str
    content: Callable[[], bytes]
    reason_code: str | None = None
    told: str = ""
    """A part of what whoever uploaded it is told."""


def zipped(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An Office file of any parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        for name, data in parts.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def docx(body: str, before: str = "") -> bytes:
    """A Word file whose document is this XML."""
    return zipped({"word/document.xml": f'{before}<w:document xmlns:w="{WORD}">{body}</w:document>'.encode()})


def xlsx(rows: str, strings: str = "", before: str = "", sheets: int = 1) -> bytes:
    """A workbook with one sheet, listed once or many times over."""
    listed = '<sheet name="s" r:id="r1"/>' * sheets
    target = '<Relationship Id="r1" Target="worksheets/sheet1.xml"/>'
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{_RELATIONS}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}">{target}</Relationships>',
        "xl/sharedStrings.xml": f'{before}<sst xmlns="{SHEET}">{strings}</sst>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
    }
    return zipped({name: text.encode() for name, text in parts.items()})


def pdf(objects: list[bytes], *, root: int = 1) -> bytes:
    """A PDF of these objects, numbered from 1."""
    out = io.BytesIO(b"%PDF-1.7\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, data in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%b\nendobj\n" % (number, data))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    for place in places:
        out.write(b"%010d 00000 n \n" % place)
    out.write(b"trailer << /Root %d 0 R /Size %d >>\nstartxref\n%d\n%%%%EOF" % (root, len(objects) + 1, start))
    return out.getvalue()


def stream(data: bytes, head: bytes = b"") -> bytes:
    """A packed stream object."""
    packed = zlib.compress(data)
    return b"<< /Filter /FlateDecode /Length %d %b >> stream\n%b\nendstream" % (len(packed), head, packed)


_FONT = b"<< /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> %b >>"


def page(content: bytes, extra: bytes = b"", objects: tuple[bytes, ...] = (), catalog: bytes = b"") -> bytes:
    """A PDF of one page with any content; `objects` are numbered from 5."""
    return pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R %b >>" % catalog,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources %b >>" % (_FONT % extra),
            stream(content),
            *objects,
        ]
    )


def locked_pdf(user: str, owner: str = "owner") -> bytes:
    """A PDF that asks for a password to be opened; with an empty one, only to be changed."""
    buffer = io.BytesIO()
    drawn = canvas.Canvas(buffer, encrypt=StandardEncryption(user, owner, canPrint=0, canCopy=0))
    drawn.drawString(100, 700, "The giraffe is locked up.")
    drawn.save()
    return buffer.getvalue()


def _forms() -> bytes:
    """Ten forms, each drawing the next one ten times: ten billion words from a kilobyte."""
    forms = tuple(
        stream(
            b"/X Do " * 10 if number < 9 else b"BT /F 9 Tf (laugh) Tj ET",
            b"/Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << /XObject << /X %d 0 R >> >>"
            % (number + 6),
        )
        for number in range(10)
    )
    return page(b"/X Do", b"/XObject << /X 5 0 R >>", forms)


def _laughs(name: str = "lol") -> str:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    return f'<!DOCTYPE d [<!ENTITY e0 "{name}">{entities}]>'


def overlapping() -> bytes:
    """Two thousand entries of one docx that share the same packed bytes, each unpacking to a megabyte."""
    whole = zipped(
        {f"word/media{n}.xml": b" " * 1_000_000 for n in range(1)} | {"word/document.xml": b"<a>" + b" " * 10**6}
    )
    data = io.BytesIO(whole)
    with zipfile.ZipFile(data) as archive:
        first = archive.infolist()[-1]
        size = (first.compress_size, first.file_size, first.CRC, first.header_offset)
    entries = b""
    for number in range(2_000):
        name = b"word/x%d.xml" % number if number else b"word/document.xml"
        entries += (
            b"PK\x01\x02\x14\x00\x14\x00\x00\x00\x08\x00" + bytes(4) + size[2].to_bytes(4, "little")
            + size[0].to_bytes(4, "little") + size[1].to_bytes(4, "little") + len(name).to_bytes(2, "little")
            + bytes(12) + size[3].to_bytes(4, "little") + name
        )  # fmt: skip
    body = whole[: whole.rfind(b"PK\x01\x02")]
    body = body[: body.find(b"PK\x01\x02")] if b"PK\x01\x02" in body else body
    count = (2_000).to_bytes(2, "little")
    end = (
        b"PK\x05\x06" + bytes(4) + count + count + len(entries).to_bytes(4, "little") + len(body).to_bytes(4, "little")
    )
    return body + entries + end + bytes(2)


def locked_docx() -> bytes:
    """What Word saves under a password: an old container with two streams in it."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2_000) + "EncryptedPackage".encode("utf-16-le") + bytes(2_000)


def _encrypted_entries() -> bytes:
    whole = bytearray(docx("<w:p><w:r><w:t>locked</w:t></w:r></w:p>"))
    at = -1
    while (at := whole.find(b"PK\x01\x02", at + 1)) >= 0:
        whole[at + 8] |= 1
    at = -1
    while (at := whole.find(b"PK\x03\x04", at + 1)) >= 0:
        whole[at + 6] |= 1
    return bytes(whole)


def _nested_tables(depth: int) -> str:
    open_, close = "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"
    return open_ * depth + "<w:p><w:r><w:t>core</w:t></w:r></w:p>" + close * depth


N = 200_000
FILES = (
    # Pages nested and repeated in every way.
    Hostile("div.html", lambda: b"<div>" * N + b"treasure"),
    Hostile("lists.html", lambda: b"<ul><li>x" * N),
    Hostile("tables.html", lambda: b"<table><tr><td>x" * N),
    Hostile("formatting.html", lambda: b"<b><i>" * N + b"treasure"),
    Hostile("fonts.html", lambda: b"".join(b"<font x=%d>" % n for n in range(50_000)) + b"<p>x" * 50_000),
    Hostile("anchors.html", lambda: b"<a href=x><div>y " * 100_000),
    Hostile("unclosed.html", lambda: b"<p>x <b>" * 100_000),
    Hostile("adoption.html", lambda: (b"<b>" * 50 + b"<div></b>x ") * 5_000),
    Hostile("attributes.html", lambda: b"<p " + b" ".join(b"a%d=1" % n for n in range(500_000)) + b">treasure"),
    Hostile("entities.html", lambda: b"&amp;&#x41; " * 1_000_000),
    Hostile("comments.html", lambda: b"x<!--" * N),
    Hostile("foreign.html", lambda: b"treasure<svg><g><![CDATA[></g>]]>" * 50_000),
    Hostile("quotes.html", lambda: b"treasure<p a='" + b'<p b="' * N),
    Hostile("scripts.html", lambda: b"treasure<script>" * N),
    Hostile("empty.html", lambda: b"<div>" * N, "no_text", "no text"),
    # Text of other kinds.
    Hostile("quotes.md", lambda: b"> " * 500_000 + b"treasure"),
    Hostile("lists.md", lambda: b"".join(b" " * n + b"- x\n" for n in range(2_000))),
    Hostile("brackets.md", lambda: b"[" * 1_000_000 + b"treasure"),
    Hostile("fences.md", lambda: b"```\n" * 200_001 + b"treasure"),
    Hostile("headings.md", lambda: b"# x\n" * 300_000, "no_text", "no text"),
    Hostile("underlines.md", lambda: b"x\n=\n" * 100_000 + b"=" * 1_000_000),
    Hostile("one-line.csv", lambda: b"cell;" * 2_000_000),
    Hostile("spaces.txt", lambda: b"a" + b" " * 10_000_000 + b"b"),
    Hostile("returns.txt", lambda: b"a\r" * 1_000_000),
    Hostile("marks.txt", lambda: "x\u0301".encode() + "\u0301".encode() * 1_000_000),
    Hostile("nested.rtf", lambda: b"{\\rtf1" + b"{" * 500_000),
    Hostile("nested.json", lambda: b"[" * 1_000_000),
    Hostile("nested.yaml", lambda: b"a: {" * 300_000),
    Hostile("nested.xml", lambda: b"<a>" * 500_000),
    Hostile("laughs.xml", lambda: f"{_laughs()}<d>&e11;</d>".encode()),
    *(
        Hostile(f"{name}.{suffix}", partial(bytes, code))
        for suffix in ("py", "js", "ts", "c", "cpp", "java", "rs", "go", "rb", "php", "sh", "cs", "kt", "swift")
        for name, code in (("open", b"(" * 20_000 + b" treasure"), ("mixed", b'{"a[<`' * 2_000 + b" treasure"))
    ),
    Hostile("classes.py", lambda: b"".join(b" " * n + b"class A%d:\n" % n for n in range(1_500))),
    # Office files.
    Hostile(
        "laughs.docx", lambda: docx("<w:p><w:r><w:t>&e11;</w:t></w:r></w:p>", _laughs()), "hostile_xml", "entities"
    ),
    Hostile("laughs.xlsx", lambda: xlsx("", "<si><t>&e11;</t></si>", _laughs()), "hostile_xml", "entities"),
    Hostile(
        "outside.xlsx",
        lambda: xlsx("", "<si><t>&x;</t></si>", '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
        "hostile_xml",
        "entities",
    ),
    Hostile(
        "parameter.xlsx",
        lambda: xlsx("", "", '<!DOCTYPE d [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x">%x;]>'),
        "hostile_xml",
        "entities",
    ),
    Hostile(
        "doctype.docx", lambda: docx("", '<!DOCTYPE d SYSTEM "http://127.0.0.1:9/x.dtd">'), "hostile_xml", "entities"
    ),
    Hostile(
        "square.docx",
        lambda: docx(
            "<w:p><w:r><w:t>" + "&a;" * 50_000 + "</w:t></w:r></w:p>", f'<!DOCTYPE d [<!ENTITY a "{"x" * 50_000}">]>'
        ),
        "hostile_xml",
        "entities",
    ),
    Hostile(
        "deep.docx",
        lambda: docx("<w:sdt>" * 100_000 + "<w:p><w:r><w:t>core</w:t></w:r></w:p>" + "</w:sdt>" * 100_000),
        "damaged",
        "nested too deeply",
    ),
    Hostile("tables.docx", lambda: docx(_nested_tables(60))),
    Hostile("deeper-tables.docx", lambda: docx(_nested_tables(20_000)), "damaged", "nested too deeply"),
    Hostile(
        "paragraphs.docx",
        lambda: docx("<w:p>" * 20_000 + "<w:r><w:t>core</w:t></w:r>" + "</w:p>" * 20_000),
        "damaged",
        "nested too deeply",
    ),
    Hostile(
        "bomb.docx", lambda: zipped({"word/document.xml": b"<a>" + b" " * 300_000_000}), "too_large_unpacked", "unpacks"
    ),
    Hostile("overlapping.docx", overlapping, "too_large_unpacked", "unpacks"),
    Hostile(
        "crowded.docx",
        lambda: zipped({f"word/x{n}.xml": b"" for n in range(12_000)}, zipfile.ZIP_STORED),
        "too_many_parts",
        "parts",
    ),
    Hostile(
        "nested.docx",
        lambda: zipped({"word/document.xml": zipped({"word/document.xml": b"<a/>"})}),
        "damaged",
        "damaged",
    ),
    Hostile(
        "climbing.docx", lambda: zipped({"../../etc/passwd": b"x", "/word/document.xml": b"<a/>"}), "no_text", "no text"
    ),
    Hostile("locked-parts.docx", _encrypted_entries, "password", "password"),
    Hostile("locked.docx", locked_docx, "refused", "password"),
    Hostile(
        "bzip.docx",
        lambda: zipped({"word/document.xml": b"<a>" + b" " * 300_000_000}, zipfile.ZIP_BZIP2),
        "too_large_unpacked",
        "unpacks",
    ),
    Hostile("cells.xlsx", lambda: xlsx("<row>" + "<c><v>1</v></c>" * 20_000 + "</row>")),
    Hostile("sheets.xlsx", lambda: xlsx("<row><c><v>1</v></c></row>", sheets=300)),
    Hostile(
        "numbers.xlsx",
        lambda: xlsx('<row><c t="s"><v>' + "9" * 100_000 + '</v></c><c t="s"><v>²</v></c><c><v>7</v></c></row>'),
    ),
    # PDF.
    Hostile("locked.pdf", lambda: locked_pdf("secret"), "password", "password"),
    Hostile("restricted.pdf", lambda: locked_pdf("")),
    Hostile(
        "script.pdf",
        lambda: page(b"BT /F 9 Tf (treasure) Tj ET", catalog=b"/OpenAction << /S /JavaScript /JS (while(1);) >>"),
    ),
    Hostile(
        "launch.pdf", lambda: page(b"BT /F 9 Tf (treasure) Tj ET", catalog=b"/OpenAction << /S /Launch /F (/bin/sh) >>")
    ),
    Hostile(
        "loop.pdf",
        lambda: pdf([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"]),
        "no_text",
        "no text",
    ),
    Hostile(
        "count.pdf",
        lambda: pdf([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 2000000000 >>"]),
        "damaged",
        "damaged",
    ),
    Hostile("self.pdf", lambda: pdf([b"1 0 R"]), "damaged", "damaged"),
    Hostile(
        "deep.pdf",
        lambda: pdf(
            [
                b"<< /Type /Catalog /Pages 2 0 R /X " + b"[" * 100_000 + b"]" * 100_000 + b" >>",
                b"<< /Type /Pages /Kids [] /Count 0 >>",
            ]
        ),
        "damaged",
        "damaged",
    ),
    Hostile(
        "image.pdf",
        lambda: page(
            b"/I Do BT /F 9 Tf (treasure) Tj ET",
            b"/XObject << /I 5 0 R >>",
            (
                stream(
                    b"\0" * 10_000_000,
                    b"/Type /XObject /Subtype /Image /Width 100000 /Height 100000 "
                    b"/BitsPerComponent 8 /ColorSpace /DeviceGray",
                ),
            ),
        ),
    ),
    Hostile("bomb.pdf", lambda: page(b"BT /F 9 Tf (treasure) Tj ET" + b" " * 50_000_000)),
    Hostile("words.pdf", lambda: page(b"BT /F 9 Tf " + b"(x) Tj " * 300_000 + b"ET")),
    Hostile("graphics.pdf", lambda: page(b"q " * 500_000 + b"BT /F 9 Tf (treasure) Tj ET")),
)
SLOW_FILES = (Hostile("forms.pdf", _forms, "too_slow", "split the file"),)
"""What is ended by the clock; tried under a short one."""
