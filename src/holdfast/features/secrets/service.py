"""Owns the rules of secrets: who writes and uses them, where they may go, and how the master key is changed."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.credential import Credential, Place
from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.master_key import KeyRing, MasterKey
from holdfast.features.audit.service import Audit
from holdfast.features.identity import store as identity_store
from holdfast.features.identity.service import local_principal
from holdfast.features.secrets import store
from holdfast.features.secrets.hosts import checked_hosts
from holdfast.features.secrets.model import (
    HandedOver,
    Secret,
    SecretKept,
    SecretNotFound,
    SecretNotSet,
    checked_name,
    checked_value,
    why_kept,
)
from holdfast.features.secrets.values import SecretValues
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.seals import Seals
from holdfast.storage.database import Database, Tx

SecretUses = Callable[[Tx], Iterable[tuple[str, str, Place]]]
"""Which secrets a feature sends where: the workspace, the secret's name, the place."""


class Secrets:
    """The one store of secrets. Nobody is answered a value.

    A feature that lets somebody name a secret asks `use` when it is named, and `reveal` each time that it is sent.
    """

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        keys: KeyRing,
        clock: Clock,
        seals: Seals,
        values: SecretValues,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._keys = keys
        self._clock = clock
        self._seals = seals
        self._values = values
        self._changes = 0

    @property
    def changes(self) -> int:
        """Grows with each change that this process made."""
        return self._changes

    def _changed(self) -> None:
        self._changes += 1

    async def list(self, principal: Principal, workspace_id: str) -> Sequence[Secret]:
        """Names and history, by name."""

        def work(tx: Tx) -> Sequence[Secret]:
            return [
                _signed(tx, principal, each) for each in store.all_in(tx, self._listed(tx, principal, workspace_id))
            ]

        return await self._database.read(work)

    async def page(
        self, principal: Principal, workspace_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Secret]:
        """The same, some at a time."""
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""

        def work(tx: Tx) -> Page[Secret]:
            rows = store.page_in(tx, self._listed(tx, principal, workspace_id), after, limit + 1)
            return page_of(rows, limit, lambda row: [row.name]).map(lambda each: _signed(tx, principal, each))

        return await self._database.read(work)

    def _listed(self, tx: Tx, principal: Principal, workspace_id: str) -> str:
        """The workspace's id, for whoever may know the names of its secrets."""
        workspace = self._workspaces.check(tx, principal, workspace_id)
        if not knows_names(principal):
            raise Forbidden(
                "Names of secrets are listed to people of the workspace and to keys with the scope 'management'; "
                f"this credential has {sorted(principal.scopes) or 'none'}."
            )
        return workspace.id

    async def set(
        self, principal: Principal, workspace_id: str, name: str, value: str, hosts: Sequence[str] | None = None
    ) -> Secret:
        """Keep a value under a name, in place of an earlier one; without `hosts` it stays bound to the same.

        Hosts change only together with the value: whoever does not have it cannot have it sent elsewhere.
        """
        current = await self.sealing_key()
        made = await self._database.write(
            lambda tx: self.put(tx, principal, workspace_id, name, value, hosts, sealed_by=current)
        )
        await self._values.sweep()
        return made

    async def sealing_key(self) -> MasterKey:
        """The key that `put` seals with; it may have to be made first."""
        return await asyncio.to_thread(self._keys.current)

    def put(
        self,
        tx: Tx,
        principal: Principal,
        workspace_id: str,
        name: str,
        value: str,
        hosts: Sequence[str] | None = None,
        *,
        sealed_by: MasterKey,
    ) -> Secret:
        """Like `set`, within a transaction."""
        workspace = self._workspaces.administered(tx, principal, workspace_id)
        checked_value(value)
        wanted = None if hosts is None else checked_hosts(hosts)
        key = self._key(tx, sealed_by)
        now = self._clock.now()
        found = store.find(tx, workspace.id, checked_name(name))
        old = found or Secret(new_id("sec"), workspace.id, name, False, now, now, principal.actor)
        # Whoever remembers a value goes by this moment, so no two values may share one.
        moment = now if found is None else max(now, found.updated_at + 1)
        bound = old.hosts if wanted is None else wanted
        new = replace(old, is_set=True, updated_at=moment, updated_by=principal.actor, hosts=bound)
        self._values.keep(tx, old, new, value, key)
        self._record(tx, principal, "replaced" if old.is_set else "set", new)
        if new.hosts != old.hosts:
            self._record(tx, principal, "hosts", new, before=old.hosts)
        return _signed(tx, principal, new)

    async def clear(self, principal: Principal, workspace_id: str, name: str) -> None:
        """Forget the value; forget the name of one that has no value."""

        def work(tx: Tx) -> None:
            workspace = self._workspaces.administered(tx, principal, workspace_id)
            found = store.find(tx, workspace.id, name)
            if found is None:
                raise SecretNotFound(name)
            if found.is_set:
                self._values.give_up(tx, found)
                store.clear(tx, found.id, max(self._clock.now(), found.updated_at + 1), principal.actor)
            else:
                store.delete(tx, found.id)
            self._record(tx, principal, "cleared", found)

        await self._database.write(work)
        await self._values.sweep()

    def use(
        self, tx: Tx, principal: Principal, workspace_id: str, name: str, places: Collection[Place], *, field: str
    ) -> Secret:
        """Let what the principal sets up have a secret at these places; none for one that is never sent.

        It takes an admin of the secret's workspace, asked first: others don't learn which secrets there are. A secret
        without hosts is bound to these places from now on. `field` is where the name was written.
        """
        try:
            workspace = self._workspaces.administered(tx, principal, workspace_id)
        except Forbidden as refused:
            raise Forbidden(f"Using a secret takes an admin of its workspace. {refused.message}") from None
        found = store.find(tx, workspace.id, name)
        if found is None or not found.is_set:
            problem = f"no secret {name[:80]!r} is set in this workspace; set it with `holdfast secrets set`"
            raise Invalid("The secret is not there.", fields=[FieldError(field, problem)])
        if places and not found.hosts and not any(place.is_overheard for place in places):
            found = self._bind(tx, principal, found, [place.name for place in places])
        for place in places:
            why = why_kept(name, found.hosts, place)
            if why is not None:
                raise Invalid("The secret does not go there.", fields=[FieldError(field, why)])
        return found

    def _bind(self, tx: Tx, principal: Principal, secret: Secret, names: Sequence[str]) -> Secret:
        bound = replace(secret, hosts=tuple(dict.fromkeys(names)))
        if not store.bind(tx, secret.id, bound.hosts):
            # Another transaction bound it meanwhile; that one counts.
            return store.find(tx, secret.workspace_id, secret.name) or secret
        self._record(tx, principal, "hosts", bound, before=())
        return bound

    def version(self, tx: Tx, workspace_id: str, name: str) -> object:
        """What changes whenever the secret or where it may go does."""
        found = store.find(tx, workspace_id, name)
        return None if found is None else (found.id, found.is_set, found.updated_at, found.hosts)

    def is_set(self, tx: Tx, workspace_id: str, name: str) -> bool:
        """Whether the workspace has a value of this name, for whoever looks for one in several."""
        found = store.find(tx, workspace_id, name)
        return found is not None and found.is_set

    def reveal(self, tx: Tx, workspace_id: str, name: str, place: Place) -> Credential:
        """The value for one place, to be sent there on the workspace's behalf; SecretKept where it may not go."""
        found, value = self._open(tx, workspace_id, name)
        why = why_kept(name, found.hosts, place)
        if why is not None:
            raise SecretKept(why[0].upper() + why[1:] + ".")
        return Credential(value, place)

    def hand_over(self, tx: Tx, workspace_id: str, name: str, places: Collection[Place]) -> HandedOver:
        """The value, for a process that can reach these places and no others; SecretKept where one is not its own."""
        found = self._set(tx, workspace_id, name)
        handed = self._values.opened(tx, found)
        for place in places:
            why = why_kept(name, found.hosts, place)
            if why is not None:
                raise SecretKept(why[0].upper() + why[1:] + ".")
        return handed

    def value_to_compare(self, tx: Tx, workspace_id: str, name: str) -> str:
        """The value, to hold against what somebody shows us; it is sent nowhere."""
        return self._open(tx, workspace_id, name)[1]

    def _open(self, tx: Tx, workspace_id: str, name: str) -> tuple[Secret, str]:
        found = self._set(tx, workspace_id, name)
        return found, self._values.open(tx, found)

    def _set(self, tx: Tx, workspace_id: str, name: str) -> Secret:
        found = store.find(tx, workspace_id, name)
        if found is None or not found.is_set:
            raise SecretNotSet(name)
        return found

    async def bind_earlier(self, uses: SecretUses) -> int:
        """Bind what earlier versions left without hosts to where it is used (workspace, name, place); how many."""

        def work(tx: Tx) -> int:
            earlier = store.from_before_hosts(tx)
            if not earlier:
                return 0
            hosts: dict[tuple[str, str], list[str]] = {}
            for workspace_id, name, place in uses(tx):
                if not place.is_overheard:
                    hosts.setdefault((workspace_id, name), []).append(place.name)
            for organization_id, secret in earlier:
                names = hosts.get((secret.workspace_id, secret.name), [])
                if names:
                    self._bind(tx, local_principal(organization_id), secret, names)
                else:
                    store.bind(tx, secret.id, ())
            return len(earlier)

        if not await self._database.read(lambda tx: bool(store.from_before_hosts(tx))):
            return 0
        return await self._database.write(work)

    async def change_master_key(self, principal: Principal, new: str | None = None) -> int:
        """Seal every value anew: under the given key, or under a fresh one in the data directory. How many there were.

        Killed at any moment, each value still opens: the new key is on the disk before the first row uses it.
        """
        principal.require("management")
        principal.require_role("owner")
        if new is None and self._keys.is_configured:
            raise Conflict(
                "The master key is in WORKSPACE_SECRETS_MASTER_KEY: write the new one to a file and say "
                "--new-key FILE; then put it into the variable and start again."
            )
        if new is not None:
            key = MasterKey(new)
            return await self._database.write(lambda tx: self._reseal(tx, principal, key, keep=True))
        with self._keys.changing():
            fresh = await asyncio.to_thread(self._keys.prepare)
            count = await self._database.write(lambda tx: self._reseal(tx, principal, fresh, keep=False))
            await asyncio.to_thread(self._keys.adopt)
        return count

    def _reseal(self, tx: Tx, principal: Principal, key: MasterKey, *, keep: bool) -> int:
        # Servers that get the new key by a variable have the old one until they start again.
        self._audit.reseal(tx, key, keep=keep)
        rows = store.every_sealed(tx)
        for secret, sealed in rows:
            value = self._keys.named(sealed.key_id).open(sealed, secret.bound_to)
            store.reseal(tx, secret.id, key.seal(value, secret.bound_to))
        others = self._seals.reseal(tx, key)
        self._audit.record(
            tx,
            principal,
            "secrets.master_key.changed",
            resource="master_key",
            resource_id=key.id,
            detail={"secrets": len(rows), "others": others},
        )
        return len(rows)

    def _key(self, tx: Tx, current: MasterKey) -> MasterKey:
        other = store.other_key(tx, current.id)
        # A second key would leave secrets that only one of two servers can open.
        return current if other is None else self._keys.named(other)

    def _record(
        self, tx: Tx, principal: Principal, action: str, secret: Secret, *, before: Sequence[str] | None = None
    ) -> None:
        tx.after_commit(self._changed)
        detail: dict[str, object] = {"name": secret.name, "hosts": list(secret.hosts)}
        if before is not None:
            detail["before"] = list(before)
        self._audit.record(
            tx,
            principal,
            f"workspace.secret.{action}",
            resource="secret",
            resource_id=secret.id,
            workspace_id=secret.workspace_id,
            detail=detail,
        )


def knows_names(principal: Principal) -> bool:
    """Whether the principal may be shown which secrets there are: a person, or a key that manages."""
    return principal.is_person or "management" in principal.scopes


def shown_name(principal: Principal, name: str | None) -> str | None:
    """A secret's name as a credential may read it in what uses the secret."""
    return name if knows_names(principal) else None


def _signed(tx: Tx, principal: Principal, secret: Secret) -> Secret:
    """The secret with the e-mail of the person who changed it; keys and the command line are shown as they are."""
    person = identity_store.user(tx, principal.organization_id, secret.updated_by)
    return secret if person is None else replace(secret, updated_by=person.email)
