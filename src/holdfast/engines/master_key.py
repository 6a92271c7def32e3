"""Owns the master key and what is done with it: sealing values, opening them, and changing the key."""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.core.errors import HoldfastError, Unavailable

NONCE_BYTES = 12
FILE = "master.key"
NEXT_FILE = "master.key.next"
LOCK_FILE = "master.key.lock"
_HEX = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class Sealed:
    """What is kept of a value: useless without the master key that `key_id` names."""

    key_id: str
    nonce: bytes
    ciphertext: bytes


class MasterKeyWrong(Unavailable):
    """The key that a value was sealed under is not here; the message says where it is looked for."""

    code = "master_key"


class MasterKey:
    """32 random bytes that never leave this object, known to the outside by the first half of their hash."""

    __slots__ = ("_cipher", "_text", "id")

    def __init__(self, text: str) -> None:
        """`text` is 64 hexadecimal digits."""
        if _HEX.fullmatch(text.strip()) is None:
            raise MasterKeyWrong("A master key is 64 hexadecimal digits, such as `openssl rand -hex 32` makes.")
        raw = bytes.fromhex(text.strip())
        self._text = raw.hex()
        self._cipher = AESGCM(raw)
        self.id = hashlib.sha256(b"holdfast master key" + raw).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"MasterKey({self.id})"

    @classmethod
    def fresh(cls) -> "MasterKey":
        """A new key."""
        return cls(secrets.token_hex(32))

    def seal(self, value: str, bound_to: str) -> Sealed:
        """Encrypt with a fresh nonce; opens only together with what it is bound to."""
        nonce = os.urandom(NONCE_BYTES)
        return Sealed(self.id, nonce, self._cipher.encrypt(nonce, value.encode(), bound_to.encode()))

    def open(self, sealed: Sealed, bound_to: str) -> str:
        """The value; MasterKeyWrong when it was moved to another row or changed."""
        try:
            return self._cipher.decrypt(sealed.nonce, sealed.ciphertext, bound_to.encode()).decode()
        except InvalidTag:
            raise MasterKeyWrong("A secret was changed in the store and cannot be opened; set it anew.") from None

    def write(self, path: Path) -> None:
        """Keep the key in a file that only its owner reads, durable before anything is sealed under it."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self._text + "\n")
            file.flush()
            os.fsync(file.fileno())
        _sync_directory(path.parent)


class KeyRing:
    """The master key from the setting or from a file in the data directory, which the first secret makes."""

    def __init__(self, directory: Path, configured: str | None) -> None:
        self._directory = directory.expanduser()
        self._configured = None if configured is None else MasterKey(configured)
        self._known: dict[str, MasterKey] = {}

    @property
    def is_configured(self) -> bool:
        """Whether the operator holds the key, rather than the data directory."""
        return self._configured is not None

    def current(self) -> MasterKey:
        """The key that new values are sealed under."""
        if self._configured is not None:
            return self._configured
        path = self._directory / FILE
        found = _read(path)
        if found is not None:
            return found
        fresh = MasterKey.fresh()
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            made = self._directory / f"{FILE}.{secrets.token_hex(4)}"
            fresh.write(made)
            try:
                # Two processes may both have found none; a link never replaces what another made.
                os.link(made, path)
            except FileExistsError:
                return _read(path) or fresh
            finally:
                made.unlink()
            _sync_directory(self._directory)
        except OSError as problem:
            raise MasterKeyWrong(f"The master key cannot be kept in {path} ({problem.strerror}).") from None
        return fresh

    def named(self, key_id: str) -> MasterKey:
        """The key of this id, looked for again in the files when it is not known yet."""
        if self._configured is not None and self._configured.id == key_id:
            return self._configured
        if key_id not in self._known:
            found = [_read(self._directory / FILE), _read(self._directory / NEXT_FILE)]
            self._known = {key.id: key for key in found if key is not None}
        if key_id not in self._known:
            raise MasterKeyWrong(
                f"The secrets here were sealed under the master key {key_id}, which is neither "
                f"WORKSPACE_SECRETS_MASTER_KEY nor in {self._directory / FILE}; bring it back."
            )
        return self._known[key_id]

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Alone among the processes of this data directory, so that no two prepare a key at once."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.fdopen(os.open(self._directory / LOCK_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w")
        except OSError as problem:
            raise MasterKeyWrong(f"{self._directory} cannot be written to ({problem.strerror}).") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise MasterKeyWrong("Another process is changing the master key; try again when it is done.") from None
            yield

    def prepare(self) -> MasterKey:
        """A new key beside the present one, in its own file until `adopt`; a killed change left one to go on with."""
        path = self._directory / NEXT_FILE
        left = _read(path)
        if left is not None:
            return left
        fresh = MasterKey.fresh()
        fresh.write(path)
        return fresh

    def adopt(self) -> None:
        """Make the prepared key the present one."""
        (self._directory / NEXT_FILE).replace(self._directory / FILE)
        _sync_directory(self._directory)


def _read(path: Path) -> MasterKey | None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise MasterKeyWrong(f"The master key in {path} cannot be read ({type(problem).__name__}).") from None
    try:
        return MasterKey(text)
    except HoldfastError:
        raise MasterKeyWrong(
            f"The file {path} does not hold 64 hexadecimal digits; bring the right one back."
        ) from None


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
