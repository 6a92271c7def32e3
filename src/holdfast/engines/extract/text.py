"""Owns reading text files: finding the encoding, refusing what is not text, and making it safe to store."""

import re
from pathlib import Path

from resiliparse.parse.encoding import detect_encoding

from holdfast.engines.extract.model import ExtractionFailed

_UNSTORABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0e-\x1f\ufffe\uffff]")
_MOST_CONTROLS = 0.02


def read_text(path: Path, most: int) -> tuple[str, bool]:
    """The file's text, decoded from at most `most` bytes, and whether it was cut."""
    with path.open("rb") as file:
        raw = file.read(most + 1)
    cut = len(raw) > most
    return clean(decode(raw[:most], cut=cut)), cut


def decode(raw: bytes, *, cut: bool = False, markup: bool = False) -> str:
    """Text from bytes: by its mark, else UTF-8, else the encoding it looks like; ExtractionFailed if it is not text."""
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if raw.startswith(mark):
            return raw.decode(encoding, "replace")
    try:
        # A cut may fall inside a character; what is left of it is no error.
        return _without_broken_end(raw).decode() if cut else raw.decode()
    except UnicodeDecodeError:
        pass
    controls = len(re.findall(rb"[\x00-\x08\x0e-\x1f]", raw[:65536]))
    if controls > _MOST_CONTROLS * min(len(raw), 65536):
        raise ExtractionFailed("It is not text in any encoding known here.", code="not_text")
    try:
        return raw.decode(detect_encoding(raw, from_html_meta=markup) or "cp1252", "replace")
    except LookupError:
        return raw.decode("cp1252", "replace")


def clean(text: str) -> str:
    """Without what no store can hold (NUL, lone surrogates) or nobody can read (control characters)."""
    return _UNSTORABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n"))


def _without_broken_end(raw: bytes) -> bytes:
    for back in range(1, 5):
        lead = raw[-back]
        if lead & 0xC0 != 0x80:
            return raw[:-back] if lead >= 0xC0 else raw
    return raw
