"""Owns asking resiliparse's tree for elements in the ways that were found safe."""

from typing import Any


def select(node: Any, selector: str, limit: int = 100_000) -> list[Any]:
    """Up to `limit` elements below a node that match a CSS selector, in document order."""
    # A slice of such a collection comes back uninitialised, so it is indexed.
    found = node.query_selector_all(selector)
    return [found[index] for index in range(min(len(found), limit))]


def classes(node: Any) -> list[str]:
    """An element's classes."""
    # `node.class_list` gives up a reference that it does not own; after a few hundred the process crashes.
    return (node.getattr("class") or "").split()
