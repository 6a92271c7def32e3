"""Owns moving values of secrets between the database and a cluster: copying, verifying, and dropping one side."""

import asyncio
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.core.errors import Conflict, HoldfastError
from holdfast.core.principal import Principal
from holdfast.core.text.counting import many
from holdfast.features.audit.service import Audit
from holdfast.features.secrets import store
from holdfast.features.secrets.model import Secret
from holdfast.features.secrets.values import SecretValues
from holdfast.storage.database import Database, Tx

Side = Literal["database", "kubernetes"]
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is wrong with a secret's value in one store."""

    workspace_id: str
    name: str
    problem: str


class NotVerified(Conflict):
    """A store does not have every value that it should; nothing was dropped."""

    code = "secrets_differ"

    def __init__(self, doubts: Sequence[Doubt]) -> None:
        told = "; ".join(f"{each.name} ({each.workspace_id}) {each.problem}" for each in doubts[:_SHOWN])
        more = f"; and {len(doubts) - _SHOWN} more" if len(doubts) > _SHOWN else ""
        what = f"{many(len(doubts), 'secret')} {'is' if len(doubts) == 1 else 'are'} not as the setting says"
        super().__init__(f"{what}: {told}{more}.")
        self.doubts = tuple(doubts)


class WrongStore(Conflict):
    """The setting does not allow the move; the message says what to set."""

    code = "secrets_store"


class SecretStores:
    """Both stores of values, for the owner. No value is printed, logged or compared outside of this process."""

    def __init__(self, database: Database, audit: Audit, values: SecretValues) -> None:
        self._database = database
        self._audit = audit
        self._values = values

    async def copy(self, principal: Principal, to: Side) -> int:
        """Have each value that the other store has in this one too; how many were copied. It can be run again."""
        _owner(principal)
        if not (self._values.in_cluster if to == "kubernetes" else self._values.in_database):
            raise WrongStore(
                f"Values that are set from now on would not go to the {_SAID[to]}: set HOLDFAST_SECRETS_STORE=both "
                "here and for the server, start it again, then copy."
            )
        count = 0
        for secret in await self._database.read(store.every_set):
            count += await (self._to_cluster(secret) if to == "kubernetes" else self._to_database(secret))
        await self._values.sweep()
        await self._record(principal, "copied", to, count)
        return count

    async def verify(self, principal: Principal) -> int:
        """Hold the values of both stores against each other; how many there are. NotVerified names each doubt."""
        _owner(principal)
        doubts = []
        found = await self._database.read(store.every_set)
        for secret in found:
            problem = await self._doubt(secret)
            if problem is not None:
                doubts.append(Doubt(secret.workspace_id, secret.name, problem))
        await self._values.sweep()
        if doubts:
            raise NotVerified(doubts)
        return len(found)

    async def drop(self, principal: Principal, side: Side) -> int:
        """Forget what one store has, once the other is verified to have everything; how many values went."""
        _owner(principal)
        if self._values.in_cluster if side == "kubernetes" else self._values.in_database:
            other = "database" if side == "kubernetes" else "kubernetes"
            raise WrongStore(
                f"The {_SAID[side]} is still used: set HOLDFAST_SECRETS_STORE={other} here and for the server, start "
                "it again, then drop."
            )
        await self.verify(principal)

        def work(tx: Tx) -> int:
            count = 0
            for secret in store.every_set(tx):
                if not secret.is_sealed or secret.k8s_secret_ref is None:
                    continue
                if side == "database":
                    store.unseal(tx, secret.id)
                else:
                    self._values.abandon(tx, secret.k8s_secret_ref)
                    store.refer(tx, secret.id, None, None)
                count += 1
            return count

        count = await self._database.write(work)
        await self._values.sweep()
        await self._record(principal, "dropped", side, count)
        return count

    async def _to_cluster(self, secret: Secret) -> bool:
        if not secret.is_sealed:
            return False
        value = await self._database.read(lambda tx: self._values.unsealed(tx, secret))
        if secret.k8s_secret_ref is not None:
            kept = await self._values.cluster.get(secret.k8s_secret_ref, secret.name)
            if kept is not None and kept.is_fixed and kept.uid == secret.k8s_secret_uid and _equal(kept.value, value):
                return False
        ref, uid = await self._values.make(secret, value)

        def work(tx: Tx) -> bool:
            if store.by_id(tx, secret.id) != secret:
                # Somebody set it meanwhile, and that went to the cluster by itself.
                self._values.abandon(tx, ref)
                return False
            store.refer(tx, secret.id, ref, uid)
            if secret.k8s_secret_ref is not None:
                self._values.abandon(tx, secret.k8s_secret_ref)
            return True

        return await self._database.write(work)

    async def _to_database(self, secret: Secret) -> bool:
        if secret.k8s_secret_ref is None:
            return False
        kept = await self._values.cluster.get(secret.k8s_secret_ref, secret.name)
        if kept is None:
            # Verifying names it.
            return False
        if secret.is_sealed:
            value = await self._database.read(lambda tx: self._values.unsealed(tx, secret))
            if _equal(kept.value, value):
                return False
        key = await asyncio.to_thread(self._values.current_key)

        def work(tx: Tx) -> bool:
            if store.by_id(tx, secret.id) != secret:
                return False
            self._values.sealed_again(tx, secret, kept.value, key)
            return True

        return await self._database.write(work)

    async def _doubt(self, secret: Secret) -> str | None:
        value = None
        if secret.is_sealed:
            try:
                value = await self._database.read(lambda tx: self._values.unsealed(tx, secret))
            except HoldfastError as problem:
                return f"cannot be opened in the database: {problem.message}"
        elif self._values.in_database:
            return "is not in the database"
        if not self._values.in_cluster:
            return None
        if secret.k8s_secret_ref is None:
            return "is not in the cluster"
        kept = await self._values.cluster.get(secret.k8s_secret_ref, secret.name)
        if kept is None:
            return f"has no value in the cluster: {secret.k8s_secret_ref} is gone"
        if kept.uid != secret.k8s_secret_uid or not kept.is_fixed:
            return f"was made anew in the cluster by somebody else: {secret.k8s_secret_ref}"
        if value is not None and not _equal(kept.value, value):
            return "has one value in the database and another in the cluster"
        return None

    async def _record(self, principal: Principal, action: str, side: Side, count: int) -> None:
        detail: dict[str, object] = {"store": side, "secrets": count}
        await self._database.write(
            lambda tx: self._audit.record(
                tx, principal, f"secrets.{action}", resource="secrets", resource_id=side, detail=detail
            )
        )


_SAID: dict[Side, str] = {"database": "database", "kubernetes": "cluster"}


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _owner(principal: Principal) -> None:
    principal.require("management")
    principal.require_role("owner")
