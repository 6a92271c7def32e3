"""Owns paging through lists: how many rows a page has, and where the next ones are."""

from typing import TypeVar

from holdfast.core.paging import Page

ROWS = 100
_Row = TypeVar("_Row")


def next_of(page: Page[_Row], url: str) -> str:
    """Where the next rows are of a list without other choices; empty where these are the last."""
    return f"{url}?cursor={page.next_cursor}" if page.next_cursor else ""
