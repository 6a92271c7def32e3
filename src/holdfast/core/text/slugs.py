"""Owns slugs: readable names for URLs, made from titles."""

import re
import unicodedata

_SHAPE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def slug_of(text: str, *, fallback: str, max_length: int = 60) -> str:
    """Lower-case words joined by hyphens, cut at a word; `fallback` when no letter survives."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word[:max_length]
        if len(longer) > max_length:
            break
        slug = longer
    return slug or fallback


def is_slug(text: str) -> bool:
    """Whether `text` is a slug of at most 80 characters."""
    return len(text) <= 80 and _SHAPE.fullmatch(text) is not None
