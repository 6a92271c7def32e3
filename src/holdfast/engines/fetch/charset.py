"""Owns turning bytes into text by what they say they are."""

import codecs
import re

# Python knows codecs that are not character sets, some of them slow on purpose-made input.
_KNOWN = re.compile(
    r"utf-?(8|16(le|be)?|32(le|be)?)|iso-?8859-\d{1,2}|latin-?1|(windows-|cp)\d{3,4}|shift[_-]jis|sjis"
    r"|euc-(jp|kr)|gb(2312|k|18030)|big5(-hkscs)?|koi8-[ru]|(us-)?ascii|macintosh|tis-620",
    re.IGNORECASE,
)


_NAMES = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "ascii", "macintosh", "tis-620"),
    *(f"iso-8859-{part}" for part in range(1, 17) if part != 12),
    *(f"cp{page}" for page in (437, 850, 852, 866, 874, 932, 936, 949, 950, *range(1250, 1259))),
    *("shift_jis", "euc-jp", "euc-kr", "gb2312", "gbk", "gb18030", "big5", "big5-hkscs", "koi8-r", "koi8-u"),
)


def load_codecs() -> None:
    """Import what decoding may need, for a process that can't open files later."""
    for name in _NAMES:
        codecs.lookup(name)


def decode(body: bytes, charset: str = "", guess: str = "cp1252") -> str:
    """Text by its byte-order mark, else the declared charset, else UTF-8, else the guess."""
    if body.startswith(b"\xef\xbb\xbf"):
        return body[3:].decode("utf-8", "replace")
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return body.decode("utf-16", "replace")
    for name in (charset, "utf-8", guess):
        if _KNOWN.fullmatch(name) is None:
            continue
        try:
            return body.decode(name)
        except (LookupError, UnicodeDecodeError):
            continue
    return body.decode("utf-8", "replace")
