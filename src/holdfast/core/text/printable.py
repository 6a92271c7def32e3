"""Owns what of a text a terminal may be given: nobody else's words move its cursor or turn its lines."""

import re

# Controls but tab and line feed; marks that turn the direction of what follows; halves of characters.
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with a mark in place of each character that a terminal would act on."""
    return _ACTS.sub("\ufffd", text.replace("\r\n", "\n"))


def printable_json(text: str) -> str:
    """The same JSON with each such character written by its number; line ends within it are that already."""
    return _ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
