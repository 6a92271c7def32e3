"""Owns paging through a list that a service hands over whole: a page of it at a time, so that none is ever too long."""

from collections.abc import Sequence
from typing import TypeVar

from holdfast.surfaces.dashboard.shell.view import PageView

ROWS = 100
_Row = TypeVar("_Row")


def sliced(view: PageView, rows: Sequence[_Row], url: str, *, name: str = "after") -> tuple[Sequence[_Row], str]:
    """The rows that the query's place begins at, and where the next ones are; empty where these are the last."""
    given = view.query.get(name, "")
    start = int(given) if given.isascii() and given.isdigit() and len(given) < 9 else 0
    end = start + ROWS
    return rows[start:end], f"{url}?{name}={end}" if end < len(rows) else ""
