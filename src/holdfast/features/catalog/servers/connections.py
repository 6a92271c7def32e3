"""Owns how an entry becomes a connection: references read at the start, one server for each environment, shared."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from holdfast.core.principal import Principal
from holdfast.core.text import jsontext
from holdfast.engines.mcp_client.base import Connection, ServerDescription, ServerFailed
from holdfast.engines.mcp_client.pool import ConnectionPool
from holdfast.engines.mcp_client.stdio import open_stdio
from holdfast.engines.runtime.base import KeptAt, Mounted, RunLimits, RunSpec, Runtime
from holdfast.engines.runtime.images import Images
from holdfast.engines.runtime.packages import Packages
from holdfast.features.catalog import store
from holdfast.features.catalog.manifest import env_problems, invalid_entry, places_of
from holdfast.features.catalog.model import CatalogEntry, EntryNotFound, NotReady
from holdfast.features.catalog.servers.addresses import filled, parameters_of, references_in
from holdfast.features.catalog.servers.states import ServerStates
from holdfast.features.secrets.masking import SecretMask
from holdfast.features.secrets.references import References, referred
from holdfast.storage.database import Database, Tx

MAX_REMEMBERED = 500
"""Of how many servers the last words are kept."""
Key = tuple[str, int, str, str | None]


@dataclass(frozen=True, slots=True)
class ServerStart:
    """What a server is started or reached with. Values may be secret, so they are in no repr, log or command line."""

    entry: CatalogEntry
    env: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    """The values among them that came from secrets."""
    kept: Mapping[str, KeptAt]
    """Where a cluster has those of the environment that it keeps."""
    user_id: str | None
    """Whose login a remote server sees; None where nobody's is needed."""
    beside: str | None = None
    """The session whose agent it is for, where it runs together with that."""
    url: str | None = field(default=None, repr=False)
    """A remote server's address, with what its references stand for."""
    durable: bool = False
    """Whether its `/work` is the entry's own directory, which stays; else it is private and gone when it stops."""

    def mask(self) -> SecretMask:
        """What hides the secrets that the server was given, by their names."""
        spec = self.entry.spec
        query = dict(parameters_of(self.url)) if self.url else {}
        given = ((spec.env, self.env), (spec.headers, self.headers), (references_in(spec.url or ""), query))
        named = ((referred(value), values.get(name, "")) for said, values in given for name, value in said.items())
        return SecretMask((secret, value) for secret, value in named if secret is not None)

    @property
    def key(self) -> Key:
        """Which running server serves this: another environment or another person's login is another one."""
        parts = [sorted(self.env.items()), sorted(self.headers.items()), self.url, self.durable]
        given = hashlib.sha256(jsontext.dumps(parts)).hexdigest()
        return (self.entry.id, self.entry.revision, given, self.user_id)


class OpenRemote(Protocol):
    """Connects to a remote server, with a person's login where it wants one."""

    async def __call__(self, start: ServerStart, /) -> Connection: ...


class LoginOwner(Protocol):
    """The person whom a principal acts for: themselves, or whoever owns the key; None where there is none."""

    def __call__(self, tx: Tx, principal: Principal, /) -> str | None: ...


class ServerConnections:
    """The running servers: started when first needed, shared, stopped when idle, each in a sandbox of its own."""

    def __init__(
        self,
        runtime: Runtime,
        packages: Packages,
        images: Images,
        pool: ConnectionPool,
        open_remote: OpenRemote,
        limits: RunLimits,
        states: ServerStates,
    ) -> None:
        self._runtime = runtime
        self._packages = packages
        self._images = images
        self._pool = pool
        self._open_remote = open_remote
        self._limits = limits
        self._states = states
        self._keys: dict[str, set[Key]] = {}
        self._last: OrderedDict[str, Connection | str] = OrderedDict()

    @asynccontextmanager
    async def connection(self, start: ServerStart) -> AsyncIterator[Connection]:
        """An open connection to just this server in just this environment, while somebody is in here."""

        self._keys.setdefault(start.entry.id, set()).add(start.key)
        async with self._pool.connection(start.key, lambda: self.open(start)) as connection:
            yield connection

    def running(self, start: ServerStart) -> Connection | None:
        """The open connection to just this server in just this environment; None where it would have to be started."""
        return self._pool.running(start.key)

    async def open(self, start: ServerStart) -> Connection:
        """A server of the caller's own, which nobody else uses and the caller closes."""
        try:
            made = await self._open(start)
        except ServerFailed as problem:
            self._remember(start.entry.id, problem.message)
            raise
        self._remember(start.entry.id, made)
        return made

    async def describe(self, start: ServerStart) -> ServerDescription:
        """What the server says of itself, started anew unless it is at work: what runs may be of yesterday."""
        await self._pool.discard_unused(start.key)
        async with self.connection(start) as connection:
            return await connection.describe()

    def logs(self, server_id: str) -> str:
        """The last of what an entry's server wrote to stderr here, or why it did not start."""
        last = self._last.get(server_id, "")
        return last if isinstance(last, str) else last.logs()

    async def retire(self, server_id: str) -> None:
        """Stop an entry's servers: it was changed or removed."""
        for key in self._keys.pop(server_id, ()):
            await self._pool.discard(key)

    async def forget(self, server_id: str) -> None:
        """Stop an entry's servers, and delete what they kept."""
        await self.retire(server_id)
        await self._states.forget(server_id)

    async def close(self) -> None:
        """Stop every server."""
        await self._pool.close()
        await self._runtime.close()

    async def _open(self, start: ServerStart) -> Connection:
        if start.entry.spec.shape == "remote":
            return await self._open_remote(start)
        return await open_stdio(self._runtime, await self.spec(start))

    async def spec(self, start: ServerStart) -> RunSpec:
        """What a server is started as that is no remote one."""
        return await asyncio.to_thread(self._spec, start)

    def _spec(self, start: ServerStart) -> RunSpec:
        entry, spec = start.entry, start.entry.spec
        command = (spec.command or "", *spec.args)
        mounts = tuple(Mounted(Path(path), path) for path in spec.paths)
        env, root, directory = dict(start.env), None, "/work"
        pin = entry.installed
        if pin is not None and pin.manager == "image":
            image = self._images.find(pin.integrity)
            if image is None:
                raise NotReady(f"The image of {spec.name} is no longer on this machine; save the entry again.")
            command, root, directory = (*image.command, *spec.args), image.root, image.directory or "/work"
            env = {**image.env, **env}
        elif pin is not None and pin.manager != "image":
            package = self._packages.find(pin.manager, pin.integrity)
            if package is None:
                raise NotReady(f"The package of {spec.name} is no longer on this machine; save the entry again.")
            command, mounts = package.command, (*package.mounts, *mounts)
        if start.durable:
            mounts = (*mounts, self._states.mounted(entry.id))
        return RunSpec(
            name=spec.name,
            command=command,
            env=env,
            secrets=start.secrets,
            kept=start.kept,
            directory=directory,
            mounts=mounts,
            root=root,
            egress=spec.allow,
            limits=self._limits,
            role="server",
            tenant=entry.workspace_id,
            group=start.beside,
            image=spec.image if root is not None else None,
        )

    def _remember(self, server_id: str, last: Connection | str) -> None:
        self._last[server_id] = last
        self._last.move_to_end(server_id)
        if len(self._last) > MAX_REMEMBERED:
            self._last.popitem(last=False)


class ServerStarts:
    """Makes an entry ready to start: everything is checked again, for a secret may have been cleared since."""

    def __init__(self, database: Database, references: References, owner: LoginOwner) -> None:
        self._database = database
        self._references = references
        self._owner = owner

    async def of(self, principal: Principal, server_id: str) -> ServerStart:
        """What to start an entry with, for this principal; NotReady or ReferenceBroken with what is missing."""

        def work(tx: Tx) -> ServerStart:
            entry = store.by_id(tx, server_id)
            if entry is None:
                raise EntryNotFound(server_id)
            return self.now(tx, principal, entry)

        return await self._database.read(work)

    def now(self, tx: Tx, principal: Principal, entry: CatalogEntry) -> ServerStart:
        """The same, within a transaction."""
        return replace(self._within(tx, entry, lambda: self._owner(tx, principal)), durable=True)

    def attached(self, tx: Tx, entry: CatalogEntry, env: Mapping[str, str], user_id: str | None) -> ServerStart:
        """What to start an entry with for an agent it is attached to: its attachment's environment, a person's login.

        NotReady, Invalid or ReferenceBroken with what is missing.
        """
        return self._within(tx, replace(entry, spec=replace(entry.spec, env=env)), lambda: user_id)

    async def acts_for(self, principal: Principal) -> str | None:
        """The person whose login at a remote server a principal's calls use."""
        return await self._database.read(lambda tx: self._owner(tx, principal))

    def _within(self, tx: Tx, entry: CatalogEntry, owner: Callable[[], str | None]) -> ServerStart:
        spec = entry.spec
        if entry.install == "installing":
            raise NotReady(f"The package of {spec.name} is still being installed; try again in a moment.")
        if entry.install == "failed":
            problem = f"The package of {spec.name} could not be installed: {entry.problem}"
            raise NotReady(f"{problem} To try again: holdfast catalog set {spec.name}, or save it on its page.")
        wrong = env_problems(spec.manifest, spec.env)
        if wrong:
            raise invalid_entry(wrong)
        places = places_of(spec)
        env = self._references.resolve(tx, entry.workspace_id, spec.env, places, field="env")
        headers = self._references.resolve(tx, entry.workspace_id, spec.headers, places, field="headers")
        asked = references_in(spec.url or "")
        query = self._references.resolve(tx, entry.workspace_id, asked, places, field="url").values
        user_id = owner() if spec.shape == "remote" else None
        # What stands otherwise in the entry is a reference there.
        given = ((env.values, spec.env), (headers.values, spec.headers), (query, asked))
        secrets = frozenset(
            value for values, said in given for name, value in values.items() if value != said.get(name)
        )
        url = None if spec.url is None else filled(spec.url, query)
        return ServerStart(entry, env.values, headers.values, secrets, env.kept, user_id, url=url)
