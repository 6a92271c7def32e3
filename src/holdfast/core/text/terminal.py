"""Owns how text that others wrote is shown on a terminal, which would obey its control characters."""

import re

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def as_shown(text: str) -> str:
    """The text with a mark in place of whatever would steer the terminal, or turn around what follows it."""
    return _OBEYED.sub("\ufffd", text.replace("\r\n", "\n"))
