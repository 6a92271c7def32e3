"""Owns changing files of plain text that people write too: our part stands between two marks."""

from collections.abc import Sequence

from holdfast.features.client_bundles.model import SurfaceName, Unmergeable

_IGNORE_HEADING = "# Holds an API key (written by `holdfast mcp setup`)"


def marks(name: SurfaceName) -> tuple[str, str]:
    """What our part stands between; each surface has a part of its own."""
    return f"<!-- {name}:begin -->", f"<!-- {name}:end -->"


def block(body: str, name: SurfaceName = "xerotier") -> str:
    """Our part with its marks."""
    first, last = marks(name)
    return f"{first}\n{body.strip()}\n{last}"


def merge_block(text: str, body: str, opening: str = "", name: SurfaceName = "xerotier") -> str:
    """The text with our part in it: in place of the earlier one, or at the end."""
    first, last = marks(name)
    newline = "\r\n" if "\r\n" in text else "\n"
    ours = block(body, name).replace("\n", newline)
    begin, end = text.find(first), text.find(last)
    if (begin < 0) != (end < 0) or end < begin or text.count(first) > 1 or text.count(last) > 1:
        raise Unmergeable(f"it has {first} and {last} not just once and in this order; mend or remove the marks.")
    if begin >= 0:
        return text[:begin] + ours + text[end + len(last) :]
    if not text.strip("\ufeff \t\r\n"):
        return text.rstrip(" \t\r\n") + (opening + block(body, name) + "\n").replace("\n", newline)
    gap = newline if text.endswith("\n") else newline * 2
    return text + gap + ours + newline


def merge_ignored(text: str, paths: Sequence[str]) -> str:
    """A .gitignore that names these paths."""
    newline = "\r\n" if "\r\n" in text else "\n"
    named = {line.strip().lstrip("/") for line in text.splitlines()}
    added = [path for path in paths if path not in named]
    if not added:
        return text
    before = text if not text or text.endswith("\n") else text + newline
    heading = [] if _IGNORE_HEADING in text else [*([""] if before else []), _IGNORE_HEADING]
    return before + newline.join([*heading, *added]) + newline
