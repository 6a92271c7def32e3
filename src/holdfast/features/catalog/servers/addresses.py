"""Owns references in a remote server's address: the value of a query's parameter, as some servers take their key."""

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote, unquote_plus

Rewrite = Callable[[str, str], str | None]
"""The new value of a parameter, as it is written; None where it stays."""


def references_in(url: str) -> dict[str, str]:
    """The parameters of the query whose value has a reference, by name."""
    return {name: value for _, name, value in _parameters(url) if "${" in value}


def parameters_of(url: str) -> list[tuple[str, str]]:
    """The parameters of the query, as they are meant."""
    return [(name, value) for _, name, value in _parameters(url) if name]


def filled(url: str, values: Mapping[str, str]) -> str:
    """The address with these values in place of references."""
    written = {name: quote(value, safe="") for name, value in values.items()}
    return _rewritten(url, lambda name, value: written.get(name) if "${" in value else None)


def referring(url: str, references: Mapping[str, str | None]) -> str:
    """The address with references as the values of these parameters; None leaves a parameter out."""
    kept = "&".join(raw for raw, name, _ in _parameters(url) if references.get(name, "") is not None)
    before, _, _ = url.partition("#")[0].partition("?")
    return _rewritten(f"{before}?{kept}" if kept else before, lambda name, _: references.get(name))


def _rewritten(url: str, value_of: Rewrite) -> str:
    before, mark, _ = url.partition("#")[0].partition("?")
    parts = []
    for raw, name, value in _parameters(url):
        new = value_of(name, value)
        parts.append(raw if new is None else f"{raw.partition('=')[0]}={new}")
    return f"{before}{mark}{'&'.join(parts)}"


def _parameters(url: str) -> Iterator[tuple[str, str, str]]:
    query = url.partition("#")[0].partition("?")[2]
    for raw in query.split("&") if query else ():
        name, _, value = raw.partition("=")
        yield raw, unquote_plus(name), unquote_plus(value)
