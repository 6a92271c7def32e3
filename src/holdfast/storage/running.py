"""Owns where the server of a data directory answers, as commands beside it find out."""

import asyncio
from urllib.error import URLError
from urllib.request import urlopen

from holdfast.core.settings import Settings
from holdfast.storage.lock import server_url


def told_url(settings: Settings) -> str | None:
    """Where the server of the data directory said it answers, if one runs."""
    return None if settings.database_url else server_url(settings.data_dir.expanduser())


def known_url(settings: Settings) -> str:
    """Where the server of the data directory said it answers, or where one would."""
    return (told_url(settings) or settings.public_url or f"http://{settings.host}:{settings.port}").rstrip("/")


async def is_serving(settings: Settings) -> bool:
    """Whether a server of the data directory answers."""
    url = told_url(settings)
    return url is not None and await answers(url)


async def answers(url: str) -> bool:
    """Whether a server answers there."""
    return await asyncio.to_thread(_answers, url)


def _answers(url: str) -> bool:
    if not url.startswith(("http://", "https://")):
        return False
    try:
        with urlopen(f"{url}/healthz", timeout=2) as answer:  # noqa: S310 – the scheme is checked above
            return bool(answer.status == 200)
    except (URLError, OSError, ValueError):
        return False
