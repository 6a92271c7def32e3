"""Owns the start: open the store, migrate it, make or find the first organization and its first key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.parts import Parts
from holdfast.core.principal import SCOPES, Principal
from holdfast.core.settings import Settings
from holdfast.features.audit.service import Audit
from holdfast.features.identity import store as identity_store
from holdfast.features.identity.keys import store as key_store
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import Identity, local_principal
from holdfast.features.secrets import store as secret_store
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces import store as workspace_store
from holdfast.features.workspaces.service import Workspaces
from holdfast.server.parts import build_parts, close
from holdfast.storage.database import Database, NoStore, StartFailed, Tx
from holdfast.storage.files import STORE, make_directory, tighten
from holdfast.storage.lock import DataDirectoryLock
from holdfast.storage.schema import has_schema, migrate
from holdfast.storage.sqlite import SqliteDatabase

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
    if settings.workers > 1:
        return SqliteDatabase(directory / STORE, changes_seconds=0)
    return SqliteDatabase(directory / STORE)


@dataclass(frozen=True, slots=True)
class Start:
    """What a start found or made; the key only when it is new."""

    project_id: str
    workspace_id: str
    owner_id: str
    organization_id: str
    api_key: str | None


async def first_key(parts: Parts, start: Start) -> Start:
    """The start with a key where there never was one: whoever calls this shows it, for it is kept nowhere."""

    def work(tx: Tx) -> str | None:
        # Two replicas may start together: one of them makes the key.
        identity_store.lock_organization(tx, start.organization_id)
        if not start.project_id or key_store.any_made(tx, start.organization_id):
            return None
        principal = local_principal(start.organization_id)
        key = NewKey(name="first", project_id=start.project_id, scopes=frozenset(SCOPES), allow_destructive=False)
        minted = parts[Keys].mint(tx, principal, key)
        parts[Audit].record(tx, principal, "key.create", resource="key", resource_id=minted.key.id)
        return minted.secret

    return replace(start, api_key=await parts[Database].write(work))


async def found_organization(parts: Parts) -> Start:
    """Make the first organization, project, workspace and owner, or find them. No key: nobody would see it."""

    def work(tx: Tx) -> Start:
        organization = identity_store.first_organization(tx)
        if organization is not None:
            return _found(tx, organization.id)
        founded = parts[Identity].found(tx, "My team", FIRST_OWNER)
        workspace = parts[Workspaces].add(tx, founded.organization.id, founded.project.id, "Default")
        principal = local_principal(founded.organization.id)
        parts[Audit].record(tx, principal, "workspace.create", resource="workspace", resource_id=workspace.id)
        return Start(founded.project.id, workspace.id, founded.owner_id, founded.organization.id, None)

    start = await parts[Database].write(work)
    if await parts[Database].read(lambda tx: bool(secret_store.from_before_hosts(tx))):
        await _bind_earlier_secrets(parts)
    return start


async def _bind_earlier_secrets(parts: Parts) -> None:
    """Bind what earlier versions left without hosts to where it is used."""
    # Imported only where an earlier version left some: no other command need load them.
    from holdfast.features.secrets.service import Secrets
    from holdfast.server.features import Features

    uses = [each.module("building").secret_uses(parts) for each in parts[Features] if each.uses_secrets]
    await parts[Secrets].bind_earlier(lambda tx: chain.from_iterable(used(tx) for used in uses))


def _found(tx: Tx, organization_id: str) -> Start:
    projects = identity_store.projects(tx, organization_id, None, "", 1)
    workspaces = workspace_store.page(tx, organization_id, None, "", 1)
    owner_id = identity_store.first_owner(tx, organization_id) or ""
    project_id = projects[0].id if projects else ""
    return Start(project_id, workspaces[0].id if workspaces else "", owner_id, organization_id, None)


@asynccontextmanager
async def open_parts(
    settings: Settings, *, begins: bool = True, given: dict[type[Any], object] = {}
) -> AsyncIterator[Parts]:
    """The parts on a migrated store, without background work: what a command or a test needs.

    Unless it `begins` a store there must be one: reading leaves nothing behind where nobody had anything.
    """
    if not begins and settings.database_url is None and not (settings.data_dir.expanduser() / STORE).is_file():
        raise _no_store(settings)
    database = open_database(settings)
    try:
        if not begins and not await database.read(has_schema):
            raise _no_store(settings)
        await migrate(database)
        parts = build_parts(settings, database, SystemClock(), given)
        await parts[Audit].prepare()
        try:
            yield parts
        finally:
            await close(parts)
    finally:
        await database.close()


def _no_store(settings: Settings) -> NoStore:
    if settings.database_url is not None:
        return NoStore("The database of HOLDFAST_DATABASE_URL holds no Holdfast yet; start one with `holdfast up`.")
    return NoStore(
        f"There is no Holdfast in {settings.data_dir.expanduser()} yet; start one with `holdfast up`, "
        "or say where yours is with --data-dir or HOLDFAST_DATA_DIR."
    )


@asynccontextmanager
async def open_local(settings: Settings, *, begins: bool = True) -> AsyncIterator[tuple[Parts, Principal]]:
    """The parts as whoever runs a command on this machine; makes the first organization where there is none."""
    async with open_parts(settings, begins=begins) as parts:
        start = await found_organization(parts)
        yield parts, local_principal(start.organization_id)
        # No server may be running to do it.
        await parts[Audit].close()
        if Usage in parts:
            await parts[Usage].flush()


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
