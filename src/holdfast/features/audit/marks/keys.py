"""Owns the audit key: what events and heads are marked with, kept in the store sealed under the master key."""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from holdfast.core.clock import Clock
from holdfast.engines.master_key import KeyRing, MasterKey, MasterKeyWrong, Sealed
from holdfast.features.audit.marks import key_store
from holdfast.storage.database import Tx

MARKED = (
    "id",
    "organization_id",
    "project_id",
    "workspace_id",
    "at",
    "actor",
    "actor_name",
    "proof",
    "action",
    "resource",
    "resource_id",
    "outcome",
    "times",
    "detail",
)
_marked = itemgetter(*MARKED)
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class AuditKey:
    """32 random bytes, known to the outside by the first half of their hash; what is marked has a purpose each."""

    __slots__ = ("_checkpoints", "_heads", "_rows", "_text", "id")

    def __init__(self, text: str) -> None:
        raw = bytes.fromhex(text)
        self._text = text
        self._rows = _derived(raw, b"holdfast audit event")
        self._heads = _derived(raw, b"holdfast audit head")
        self._checkpoints = _derived(raw, b"holdfast audit checkpoint")
        self.id = hashlib.sha256(b"holdfast audit key" + raw).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"AuditKey({self.id})"

    def mark(self, event: Mapping[str, Any]) -> str:
        """The mark of an event: over every content column, before it has a place in the chain."""
        return self._rows.over(_marked(event))

    def marked(self, event: Mapping[str, Any]) -> bool:
        """Whether the event bears this key's mark."""
        return _same(lambda: self.mark(event), event["mac"])

    def mark_head(self, head: Mapping[str, Any]) -> str:
        """The mark of a head: how long a chain was at a moment, and its last seal."""
        return self._heads.over([head[name] for name in ("organization_id", "sequence", "hash", "sealed_at")])

    def marked_head(self, head: Mapping[str, Any]) -> bool:
        """Whether the head bears this key's mark."""
        return _same(lambda: self.mark_head(head), head["mac"])

    def mark_checkpoint(self, row: Mapping[str, Any]) -> str:
        """The mark of a checkpoint: up to where a chain is taken as it was found, and why."""
        names = ("organization_id", "sequence", "hash", "reason", "at")
        return self._checkpoints.over([row[name] for name in names])

    def marked_checkpoint(self, row: Mapping[str, Any]) -> bool:
        """Whether the checkpoint bears this key's mark."""
        return _same(lambda: self.mark_checkpoint(row), row["mac"])

    def sealed(self, master: MasterKey) -> Sealed:
        """This key as it is kept."""
        return master.seal(self._text, _bound_to(self.id))


class AuditKeys:
    """The installation's audit key, found in the store or made there; replicas find the same one."""

    def __init__(self, ring: KeyRing, clock: Clock) -> None:
        self._ring = ring
        self._clock = clock
        self._current: AuditKey | None = None

    @property
    def current(self) -> AuditKey | None:
        """The key in use, once a transaction that saw it was committed."""
        return self._current

    def find(self, tx: Tx) -> AuditKey | None:
        """The newest key here that this installation's master key opens."""
        found = next((key for key in self.known(tx).values() if key is not None), None)
        if found is not None:
            self._adopt(tx, found)
        return found

    def known(self, tx: Tx) -> dict[str, AuditKey | None]:
        """Every key that the store has, newest first; None for one whose master key is not here."""
        keys: dict[str, AuditKey | None] = {}
        for id, sealed in key_store.every(tx):
            if keys.get(id) is None:
                keys[id] = self._opened(id, sealed)
        return keys

    def make(self, tx: Tx) -> AuditKey:
        """A new key, kept with what `tx` changes."""
        key = AuditKey(secrets.token_hex(32))
        key_store.insert(tx, key.id, key.sealed(self._ring.current()), self._clock.now())
        self._adopt(tx, key)
        return key

    def reseal(self, tx: Tx, master: MasterKey, *, keep: bool) -> None:
        """Seal every key that opens under another master key too; `keep` while replicas still have the old one."""
        for id, key in self.known(tx).items():
            if key is not None:
                created_at = key_store.forget(tx, id, except_master="" if not keep else self._ring.current().id)
                key_store.insert(tx, id, key.sealed(master), created_at)

    def _adopt(self, tx: Tx, key: AuditKey) -> None:
        # Only once it is durable: a key that was rolled back must mark nothing.
        tx.after_commit(lambda: setattr(self, "_current", key))

    def _opened(self, id: str, sealed: Sealed) -> AuditKey | None:
        try:
            key = AuditKey(self._ring.named(sealed.key_id).open(sealed, _bound_to(id)))
        except (MasterKeyWrong, ValueError):
            return None
        return key if key.id == id else None


def canonical(values: Sequence[object]) -> bytes:
    """One spelling of a row's values; TypeError for what JSON has no word for."""
    return _ENCODER.encode(values).encode()


class _Mac:
    """HMAC-SHA256 with its key taken in beforehand: every change waits for a mark, so it must cost microseconds."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = key.ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def over(self, values: Sequence[object]) -> str:
        inner = self._inner.copy()
        inner.update(canonical(values))
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()


def _same(mark: Any, borne: object) -> bool:
    try:
        return isinstance(borne, str) and hmac.compare_digest(mark().encode(), borne.encode())
    except (TypeError, ValueError):
        # A value of a kind that we never write.
        return False


def _derived(raw: bytes, purpose: bytes) -> _Mac:
    return _Mac(HKDFExpand(hashes.SHA256(), 32, purpose).derive(raw))


def _bound_to(id: str) -> str:
    return f"audit key {id}"
