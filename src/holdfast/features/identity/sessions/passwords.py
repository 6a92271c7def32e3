"""Owns passwords: argon2id, off the event loop, and as slow for nobody as for somebody."""

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from holdfast.core.errors import FieldError, Invalid

MIN_LENGTH = 10
MAX_LENGTH = 1000

HASHER = PasswordHasher()
"""Sixty-four megabytes and a tenth of a second for each password: the library's choice, after RFC 9106."""
# Checked when there is no such account, so that a stranger cannot time which addresses exist.
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$Pu6TMRDPiIwaVaHpQvmBAy7qYYpvWjdGYRfZnXU9vRM"


async def hash_password(password: str) -> str:
    """What is kept of a password; Invalid when it is too short or too long."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        problem = f"write {MIN_LENGTH} to {MAX_LENGTH} characters"
        raise Invalid("The password cannot be used.", fields=[FieldError("password", problem)])
    return await asyncio.to_thread(HASHER.hash, password)


async def verify_password(password_hash: str | None, password: str) -> bool:
    """Whether the password is the one; takes as long when there is no account."""
    matches = await asyncio.to_thread(_matches, password_hash or _NOBODY, password[:MAX_LENGTH])
    return matches and password_hash is not None


def _matches(password_hash: str, password: str) -> bool:
    try:
        return HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False
