"""Owns the rules of the catalog: who registers MCP servers, and what an entry may say."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.features.audit.service import Audit
from holdfast.features.catalog import store
from holdfast.features.catalog.manifest import check_entry, invalid_entry, places_of
from holdfast.features.catalog.model import CatalogEntry, EntryExists, EntryNotFound, NewEntry
from holdfast.features.catalog.servers.addresses import references_in
from holdfast.features.catalog.servers.connections import ServerConnections
from holdfast.features.catalog.servers.installing import Installations
from holdfast.features.catalog.servers.paths import PathRules
from holdfast.features.catalog.servers.remote_clients import KeepClient, RemoteClients
from holdfast.features.secrets.references import References
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

TOPIC = "catalog"


class ServerCatalog:
    """The MCP servers of each workspace. Changing them takes an admin; whoever may use tools may look."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        references: References,
        events: EventBus,
        clock: Clock,
        connections: ServerConnections,
        installations: Installations,
        paths: PathRules,
        clients: RemoteClients,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._references = references
        self._events = events
        self._clock = clock
        self._connections = connections
        self._installations = installations
        self._paths = paths
        self._clients = clients

    async def list(self, principal: Principal, workspace_id: str) -> Sequence[CatalogEntry]:
        """The workspace's servers, by name."""

        def work(tx: Tx) -> Sequence[CatalogEntry]:
            return store.all_in(tx, self._workspaces.check(tx, principal, workspace_id).id)

        return await self._database.read(work)

    async def page(
        self, principal: Principal, workspace_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[CatalogEntry]:
        """The same, some at a time."""
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""

        def work(tx: Tx) -> Page[CatalogEntry]:
            rows = store.page_in(tx, self._workspaces.check(tx, principal, workspace_id).id, after, limit + 1)
            return page_of(rows, limit, lambda row: [row.name])

        return await self._database.read(work)

    async def get(self, principal: Principal, workspace_id: str, name: str) -> CatalogEntry:
        """One server."""
        return await self._database.read(lambda tx: self.find(tx, principal, workspace_id, name))

    def find(self, tx: Tx, principal: Principal, workspace_id: str, name: str) -> CatalogEntry:
        """The same, within a transaction."""
        found = store.find(tx, self._workspaces.check(tx, principal, workspace_id).id, name)
        if found is None:
            raise EntryNotFound(name)
        return found

    def administered(self, tx: Tx, principal: Principal, workspace_id: str, name: str) -> CatalogEntry:
        """The same, if the principal may also change it."""
        self._workspaces.administered(tx, principal, workspace_id)
        return self.find(tx, principal, workspace_id, name)

    def workspace(self, tx: Tx, principal: Principal, workspace_id: str) -> str:
        """The id of a workspace whose catalog the principal may change."""
        return self._workspaces.administered(tx, principal, workspace_id).id

    async def register(self, principal: Principal, workspace_id: str, new: NewEntry) -> CatalogEntry:
        """Add a server; Invalid names every field that is wrong."""
        keep = await self.looked(principal, workspace_id, new)
        return await self._database.write(lambda tx: self.add(tx, principal, workspace_id, new, keep))

    async def looked(self, principal: Principal, workspace_id: str, new: NewEntry) -> KeepClient:
        """What was found out about a new remote server before it is kept, and how that is kept with it."""
        check_entry(new)
        # Only who may register a server has us ask it.
        await self._database.read(lambda tx: self._workspaces.administered(tx, principal, workspace_id))
        return await self._clients.found(new)

    def add(
        self, tx: Tx, principal: Principal, workspace_id: str, new: NewEntry, keep: KeepClient | None = None
    ) -> CatalogEntry:
        """The same, within a transaction."""
        workspace = self._workspaces.administered(tx, principal, workspace_id)
        new = self._checked(tx, principal, workspace.id, new)
        now = self._clock.now()
        entry = CatalogEntry(
            id=new_id("mcp"),
            workspace_id=workspace.id,
            spec=new,
            revision=1,
            created_at=now,
            updated_at=now,
            updated_by=principal.actor,
        )
        if not store.insert(tx, entry):
            raise EntryExists(new.name)
        entry = self._installations.queue(tx, principal, entry)
        store.update(tx, entry)
        if keep is not None:
            keep(tx, entry.id)
        self._record(tx, principal, "registered", entry)
        return entry

    async def change(self, principal: Principal, workspace_id: str, name: str, new: NewEntry) -> CatalogEntry:
        """Say anew what a server is; what it runs with from its next start. Its tools are pinned by the next probe."""
        before = await self._database.read(lambda tx: self.administered(tx, principal, workspace_id, name))
        check_entry(new)
        keep = await self._clients.found(new) if _is_reached_otherwise(before.spec, new) else None

        def work(tx: Tx) -> CatalogEntry:
            found = self.administered(tx, principal, workspace_id, name)
            wanted = self._checked(tx, principal, found.workspace_id, new, before=found.spec)
            if new.name != name and store.find(tx, found.workspace_id, new.name) is not None:
                raise EntryExists(new.name)
            now = self._clock.now()
            changed = replace(
                found, spec=wanted, revision=found.revision + 1, updated_at=now, updated_by=principal.actor
            )
            # Saving it once more is how what could not be installed is tried again.
            if found.install == "failed" or _runs_otherwise(found.spec, new):
                fresh = replace(changed, install="none", installed=None, problem=None)
                changed = self._installations.queue(tx, principal, fresh)
            else:
                changed = self._installations.queue_probe(tx, principal, changed)
            store.update(tx, changed)
            if keep is not None:
                keep(tx, changed.id)
            self._record(tx, principal, "updated", changed)
            return changed

        changed = await self._database.write(work)
        await self._connections.retire(changed.id)
        return changed

    async def remove(self, principal: Principal, workspace_id: str, name: str) -> None:
        """Forget a server and its tools; what runs of it is stopped."""

        def work(tx: Tx) -> CatalogEntry:
            found = self.administered(tx, principal, workspace_id, name)
            store.delete(tx, found.id)
            self._record(tx, principal, "removed", found)
            return found

        await self._connections.forget((await self._database.write(work)).id)

    async def reset(self, principal: Principal, workspace_id: str, name: str) -> None:
        """Stop a server and delete what it kept in its own directory."""

        def work(tx: Tx) -> CatalogEntry:
            found = self.administered(tx, principal, workspace_id, name)
            self._record(tx, principal, "reset", found)
            return found

        await self._connections.forget((await self._database.write(work)).id)

    async def logs(self, principal: Principal, workspace_id: str, name: str) -> str:
        """The last of what the server wrote to stderr; an admin's to read, for servers write what they like there."""
        found = await self._database.read(lambda tx: self.administered(tx, principal, workspace_id, name))
        return self._connections.logs(found.id)

    def _checked(
        self, tx: Tx, principal: Principal, workspace_id: str, new: NewEntry, before: NewEntry | None = None
    ) -> NewEntry:
        check_entry(new)
        places = places_of(new)
        if before is not None and (_is_only_switched(before, new) or _is_same_image(before, new)):
            # Whoever registered it was let to name these files; any admin may switch it off and on, and tell an image
            # what its own manifest asks for.
            paths, wrong = before.paths, list[FieldError]()
        else:
            paths, wrong = self._paths.named(principal, new)
        wrong += self._references.check(tx, principal, workspace_id, new.env, places, field="env")
        wrong += self._references.check(tx, principal, workspace_id, new.headers, places, field="headers")
        wrong += self._references.check(tx, principal, workspace_id, references_in(new.url or ""), places, field="url")
        if wrong:
            raise invalid_entry(wrong)
        return replace(new, paths=paths)

    def _record(self, tx: Tx, principal: Principal, action: str, entry: CatalogEntry) -> None:
        spec = entry.spec
        self._audit.record(
            tx,
            principal,
            f"workspace.mcp.{action}",
            resource="mcp_server",
            resource_id=entry.id,
            workspace_id=entry.workspace_id,
            detail={
                "name": spec.name,
                "shape": spec.shape,
                "runs": spec.image or spec.command or spec.url,
                "env_names": sorted(spec.env),
                "allow": list(spec.allow),
                "enabled": spec.enabled,
            },
        )
        payload = {"id": entry.id, "name": spec.name, "action": action}
        self._events.publish(tx, f"{TOPIC}.{action}", payload, workspace_id=entry.workspace_id)


def _is_only_switched(old: NewEntry, new: NewEntry) -> bool:
    return replace(new, enabled=old.enabled, paths=old.paths) == old


def _is_same_image(old: NewEntry, new: NewEntry) -> bool:
    return old.shape == new.shape == "image" and old.image == new.image


def _is_reached_otherwise(old: NewEntry, new: NewEntry) -> bool:
    return (old.shape, old.url, set(old.headers)) != (new.shape, new.url, set(new.headers))


def _runs_otherwise(old: NewEntry, new: NewEntry) -> bool:
    def program(spec: NewEntry) -> tuple[object, ...]:
        return (spec.shape, spec.image, spec.command, spec.args, spec.url)

    return program(old) != program(new)
