"""Owns numbers of things as people read them: 1 memory, 2 memories, 1,200 files."""

import re

_Y = re.compile(r"[^aeiou]y$")


def many(count: int, noun: str) -> str:
    """So many of a thing, given in the singular."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    return noun[:-1] + "ies" if _Y.search(noun) else noun + "s"
