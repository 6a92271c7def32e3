"""Owns how an entry becomes a connection to its server: references read at the start, one server for each environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.core.principal import Principal
from holdfast.engines.mcp_client.base import Connection, ServerDescription
from holdfast.features.catalog import store
from holdfast.features.catalog.manifest import env_problems, invalid_entry, places_of
from holdfast.features.catalog.model import CatalogEntry, EntryNotFound, NotReady
from holdfast.features.secrets.references import References
from holdfast.storage.database import Database, Tx


@dataclass(frozen=True, slots=True)
class ServerStart:
    """What a server is started or reached with. Values may be secret, so they are in no repr, log or command line."""

    entry: CatalogEntry
    env: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    user_id: str | None
    """Whose login a remote server sees; None where nobody's is needed."""


class ServerConnections(Protocol):
    """The running servers: started when first needed, shared, stopped when idle."""

    async def connection(self, start: ServerStart) -> Connection:
        """An open connection to just this server in just this environment."""
        ...

    async def describe(self, start: ServerStart) -> ServerDescription:
        """What the server says of itself now."""
        ...

    def logs(self, server_id: str) -> str:
        """The last of what an entry's server wrote to stderr here."""
        ...

    async def retire(self, server_id: str) -> None:
        """Stop an entry's servers: it was changed or removed."""
        ...

    async def close(self) -> None:
        """Stop every server."""
        ...


class LoginOwner(Protocol):
    """The person whom a principal acts for: themselves, or whoever owns the key; None where there is none."""

    def __call__(self, tx: Tx, principal: Principal, /) -> str | None: ...


class ServerStarts:
    """Makes an entry ready to start: everything is checked again, for a secret may have been cleared since."""

    def __init__(self, database: Database, references: References, owner: LoginOwner) -> None:
        self._database = database
        self._references = references
        self._owner = owner

    async def of(self, principal: Principal, server_id: str) -> ServerStart:
        """What to start an entry with, for this principal."""

        def work(tx: Tx) -> ServerStart:
            entry = store.by_id(tx, server_id)
            if entry is None:
                raise EntryNotFound(server_id)
            return self.within(tx, principal, entry)

        return await self._database.read(work)

    def within(self, tx: Tx, principal: Principal, entry: CatalogEntry) -> ServerStart:
        """The same, within a transaction; NotReady or ReferenceBroken with what is missing."""
        spec = entry.spec
        if entry.install == "installing":
            raise NotReady(f"The package of {spec.name} is still being installed; try again in a moment.")
        if entry.install == "failed":
            raise NotReady(f"The package of {spec.name} could not be installed: {entry.problem}")
        wrong = env_problems(spec.manifest, spec.env)
        if wrong:
            raise invalid_entry(wrong)
        places = places_of(spec)
        env = self._references.resolve(tx, entry.workspace_id, spec.env, places, field="env")
        headers = self._references.resolve(tx, entry.workspace_id, spec.headers, places, field="headers")
        user_id = self._owner(tx, principal) if spec.shape == "remote" else None
        return ServerStart(entry, env, headers, user_id)
