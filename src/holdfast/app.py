"""The only place that builds things: settings → database → engines → services → surfaces."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain

from holdfast.core.clock import SystemClock
from holdfast.core.principal import SCOPES, Principal
from holdfast.core.settings import Settings
from holdfast.features.identity import store as identity_store
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import local_principal
from holdfast.features.workspaces import store as workspace_store
from holdfast.services import Services
from holdfast.storage.database import Database, StartFailed, Tx
from holdfast.storage.files import make_directory, tighten
from holdfast.storage.lock import DataDirectoryLock
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.wiring import build_services

_log = logging.getLogger(__name__)

FIRST_OWNER = "owner@localhost"


def open_database(settings: Settings) -> Database:
    """PostgreSQL where a URL is set, otherwise the file in the data directory."""
    if settings.database_url is not None:
        # Imported only where it is used: the driver costs start-up time and memory.
        from holdfast.storage.postgresql import PostgresDatabase

        return PostgresDatabase(settings.database_url)
    directory = settings.data_dir.expanduser()
    try:
        make_directory(directory)
        # What cannot be changed is said by `up` and `doctor`.
        tighten(directory, deep=False)
    except OSError as problem:
        raise StartFailed(
            f"The data directory {directory} cannot be used ({problem.strerror}); "
            "make it writable, or choose another with --data-dir."
        ) from None
    return SqliteDatabase(directory / "holdfast.db")


@dataclass(frozen=True, slots=True)
class Start:
    """What a start found or made; the key only when it is new."""

    project_id: str
    workspace_id: str
    owner_id: str
    organization_id: str
    api_key: str | None


async def first_start(services: Services) -> Start:
    """Make the first organization, project, workspace, owner and key; a later start finds them."""

    def work(tx: Tx) -> Start:
        organization = identity_store.first_organization(tx)
        if organization is not None:
            return _found(tx, organization.id)
        founded = services.identity.found(tx, "My team", FIRST_OWNER)
        workspace = services.workspaces.add(tx, founded.organization.id, founded.project.id, "Default")
        principal = local_principal(founded.organization.id)
        key = NewKey(name="first", project_id=founded.project.id, scopes=frozenset(SCOPES), allow_destructive=False)
        minted = services.keys.mint(tx, principal, key)
        services.audit.record(tx, principal, "workspace.create", resource="workspace", resource_id=workspace.id)
        services.audit.record(tx, principal, "key.create", resource="key", resource_id=minted.key.id)
        return Start(founded.project.id, workspace.id, founded.owner_id, founded.organization.id, minted.secret)

    start = await services.database.write(work)
    await services.secrets.bind_earlier(
        lambda tx: chain(services.endpoints.secret_uses(tx), services.repositories.secret_uses(tx))
    )
    return start


def _found(tx: Tx, organization_id: str) -> Start:
    projects = identity_store.projects(tx, organization_id, None, "", 1)
    workspaces = workspace_store.page(tx, organization_id, None, "", 1)
    owner_id = identity_store.first_owner(tx, organization_id) or ""
    project_id = projects[0].id if projects else ""
    return Start(project_id, workspaces[0].id if workspaces else "", owner_id, organization_id, None)


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """The services on a migrated store, without background work: what a command or a test needs."""
    database = open_database(settings)
    try:
        await migrate(database)
        services = build_services(settings, database, SystemClock())
        await services.audit.prepare()
        try:
            yield services
        finally:
            await services.models.close()
            await services.web.close()
            await services.git.close()
    finally:
        await database.close()


@asynccontextmanager
async def open_local(settings: Settings) -> AsyncIterator[tuple[Services, Principal]]:
    """The services as whoever runs a command on this machine; makes the first organization where there is none."""
    async with open_services(settings) as services:
        start = await first_start(services)
        yield services, local_principal(start.organization_id)
        # No server may be running to do it.
        await services.audit.close()
        await services.usage.flush()


@asynccontextmanager
async def background(services: Services) -> AsyncIterator[None]:
    """Run what works beside the requests: sealing, flushing, jobs, events, embedding."""
    async with AsyncExitStack() as stack:
        for name, run, stop in services.background:
            task = asyncio.create_task(_forever(name, run), name=name)
            stack.push_async_callback(_end, task, stop)
        yield


async def _forever(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Background work that fails is logged and begun again: a passing fault must not end it for good."""
    while True:
        try:
            await run()
            return
        except Exception:
            _log.exception("background work failed; it starts again", extra={"work": name})
            await asyncio.sleep(1)


async def _end(task: "asyncio.Task[None]", stop: Callable[[], Awaitable[None]]) -> None:
    await stop()
    done, _ = await asyncio.wait({task}, timeout=10)
    if not done:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def lock_data_directory(settings: Settings) -> DataDirectoryLock | None:
    """Keep the embedded store to one server; PostgreSQL serves several."""
    if settings.database_url is not None:
        return None
    directory = settings.data_dir.expanduser()
    try:
        make_directory(directory)
    except OSError as problem:
        raise StartFailed(
            f"The data directory {directory} cannot be used ({problem.strerror}); "
            "make it writable, or choose another with --data-dir."
        ) from None
    return DataDirectoryLock(directory)
