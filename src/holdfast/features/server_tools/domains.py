"""Owns which places of the web a turn may see: `example.com` with all below it, or `example.com/docs`."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from holdfast.core.errors import HoldfastError
from holdfast.engines.web_search.engine import MAX_QUERY

_MOST_HINTS = 5


class UrlNotAllowed(HoldfastError):
    """Whoever asked for the turn shut this place out of it."""

    code = "url_not_allowed"
    status = 403

    def __init__(self, url: str) -> None:
        super().__init__(f"This request may not read {url[:200]!r}: its domains leave it out. Use another source.")


def is_allowed(url: str, allowed: Sequence[str], blocked: Sequence[str]) -> bool:
    """Whether a page may be seen; without a list of allowed places all are but the blocked."""
    if any(_covers(place, url) for place in blocked):
        return False
    return not allowed or any(_covers(place, url) for place in allowed)


def hinted(query: str, allowed: Sequence[str], blocked: Sequence[str]) -> str:
    """The query with words that search engines know for places, so that more of the hits may be seen."""
    hints = " OR ".join(f"site:{place}" for place in allowed[:_MOST_HINTS])
    hints = f" ({hints})" if len(allowed) > 1 else f" {hints}" if hints else ""
    hints += "".join(f" -site:{place}" for place in blocked[:_MOST_HINTS])
    return query + hints if len(query) + len(hints) <= MAX_QUERY else query


def _covers(place: str, url: str) -> bool:
    parts = urlsplit(url)
    domain, _, path = place.lower().partition("/")
    host = (parts.hostname or "").rstrip(".")
    named = f"{host}:{parts.port}" if ":" in domain else host
    if named != domain and not named.endswith(f".{domain}"):
        return False
    prefix = f"/{path}".rstrip("/").lower()
    asked = parts.path.lower()
    return asked == prefix or asked.startswith(f"{prefix}/")
