"""Owns the keys that statements are signed with: Ed25519, the private half sealed under the master key."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)

from holdfast.core.clock import Clock
from holdfast.core.errors import Invalid
from holdfast.engines.master_key import KeyRing, MasterKey, MasterKeyWrong
from holdfast.features.cases.proofs import store
from holdfast.features.cases.proofs.statement import Envelope, Signature, encoding, envelope_of
from holdfast.storage.database import Database, Tx


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What anybody can check a statement with."""

    id: str
    pem: str
    created_at: int


class SigningKey:
    """A key pair; the private half never leaves this object."""

    __slots__ = ("_private", "id", "pem")

    def __init__(self, raw: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(raw)
        public = self._private.public_key()
        self.id = key_id(public)
        self.pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def sign(self, payload: bytes) -> Envelope:
        """The payload in an envelope with its signature."""
        return envelope_of(payload, [Signature(self.id, self._private.sign(encoding(payload)))])


class SigningKeys:
    """This installation's keys. One that its master key no longer opens gives way to a new one; its public half stays,
    so that statements go on being good."""

    def __init__(self, database: Database, ring: KeyRing, clock: Clock) -> None:
        self._database = database
        self._ring = ring
        self._clock = clock
        self._current: SigningKey | None = None

    async def current(self) -> SigningKey:
        """The key that new statements are signed with."""
        if self._current is not None:
            return self._current
        known = await self._database.read(self._opened)
        key = known if known is not None else await self._database.write(self._made)
        self._current = key
        return key

    async def public(self) -> Sequence[PublicKey]:
        """The public halves, newest first."""
        rows = await self._database.read(store.keys)
        return [PublicKey(id, pem, created_at) for id, pem, _, created_at in rows]

    def reseal(self, tx: Tx, key: MasterKey) -> int:
        """Keep every private half that can be opened under another master key; how many those are."""
        count = 0
        for id, _, sealed, _ in store.keys(tx):
            try:
                raw = self._ring.named(sealed.key_id).open(sealed, _bound_to(id))
            except MasterKeyWrong:
                # It gave way to a newer one when its master key was lost.
                continue
            store.reseal_key(tx, id, key.seal(raw, _bound_to(id)))
            count += 1
        return count

    def _opened(self, tx: Tx) -> SigningKey | None:
        for id, _, sealed, _ in store.keys(tx):
            try:
                return SigningKey(bytes.fromhex(self._ring.named(sealed.key_id).open(sealed, _bound_to(id))))
            except (MasterKeyWrong, ValueError):
                continue
        return None

    def _made(self, tx: Tx) -> SigningKey:
        found = self._opened(tx)
        if found is not None:
            return found
        raw = Ed25519PrivateKey.generate().private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        key = SigningKey(raw)
        store.add_key(tx, key.id, key.pem, self._ring.current().seal(raw.hex(), _bound_to(key.id)), self._clock.now())
        return key


def read_public_key(pem: str) -> Ed25519PublicKey:
    """A public key from its PEM; Invalid for anything else."""
    try:
        found = load_pem_public_key(pem.encode())
    except ValueError:
        found = None
    if not isinstance(found, Ed25519PublicKey):
        raise Invalid("This is no Ed25519 public key in PEM; `holdfast cases keys` prints the right ones.")
    return found


def verified(envelope: Envelope, keys: Sequence[Ed25519PublicKey]) -> str | None:
    """The id of the key by which one of the envelope's signatures is good; None where none is."""
    signed = encoding(envelope.payload)
    for key in keys:
        for signature in envelope.signatures:
            try:
                key.verify(signature.sig, signed)
            except InvalidSignature:
                continue
            return key_id(key)
    return None


def key_id(key: Ed25519PublicKey) -> str:
    """What a key is called: the hash of its public half, as it is in PEM."""
    raw = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "ed25519:" + base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")


def _bound_to(id: str) -> str:
    return f"proof key {id}"
