"""Owns one entry with everything around it: its tools, what installs it, what it wrote, and who is signed in there."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.errors import NotFound
from holdfast.core.principal import Principal
from holdfast.engines.jobs import Job
from holdfast.features.catalog.model import CatalogEntry, ConnectedPerson, PinnedTool
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.jobs.service import JobService


@dataclass(frozen=True, slots=True)
class ServerDetail:
    """An entry as a person looks at it."""

    entry: CatalogEntry
    tools: Sequence[PinnedTool]
    people: Sequence[ConnectedPerson]
    """Who has a login at a remote server: all of them for an admin, else their own."""
    job: Job | None
    """What installs its package, while it does."""
    logs: str
    """The last of what it wrote; empty for who may not read that."""


class ServerDetails:
    """Looks at one server from all sides."""

    def __init__(self, catalog: ServerCatalog, pins: ToolPins, logins: RemoteLogins, jobs: JobService) -> None:
        self._catalog = catalog
        self._pins = pins
        self._logins = logins
        self._jobs = jobs

    async def of(self, principal: Principal, workspace_id: str, name: str, *, with_logs: bool) -> ServerDetail:
        """Everything about a server; its logs only `with_logs`, for they are an admin's to read."""
        entry = await self._catalog.get(principal, workspace_id, name)
        is_remote = entry.spec.shape == "remote"
        return ServerDetail(
            entry,
            await self._pins.of(principal, workspace_id, name),
            await self._logins.people(principal, workspace_id, name) if is_remote else (),
            await self._job(principal, workspace_id, entry),
            await self._catalog.logs(principal, workspace_id, name) if with_logs else "",
        )

    async def _job(self, principal: Principal, workspace_id: str, entry: CatalogEntry) -> Job | None:
        if entry.install != "installing" or entry.job_id is None:
            return None
        try:
            return await self._jobs.get(principal, workspace_id, entry.job_id)
        except NotFound:
            # It ended between the two looks.
            return None
