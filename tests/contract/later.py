"""Owns the rows that need no proof yet, each with the work that will bring it; a row leaves when it is built."""

LATER: dict[str, str] = {}
