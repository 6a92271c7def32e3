"""Owns the bare mirrors of repositories that have a URL."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.engines.git.address import Location
from holdfast.engines.git.model import Credentials, GitFailed, Limits, Progress
from holdfast.engines.git.tunnel import Rules


class Mirrors:
    """One bare mirror for each repository id."""

    def __init__(self, directory: Path, rules: Rules, limits: Limits) -> None:
        self._directory = directory

    def path(self, repository_id: str) -> Path:
        """Where a mirror is."""
        return self._directory / f"{repository_id}.git"

    async def update(
        self,
        repository_id: str,
        location: Location,
        credentials: Credentials | None,
        progress: Callable[[Progress], Awaitable[None]] | None,
    ) -> None:
        """Clone or fetch."""
        raise GitFailed("Only local repositories can be read yet.", code="unsupported")

    async def remove(self, repository_id: str) -> None:
        """Remove a mirror."""
