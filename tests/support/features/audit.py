"""Owns an audit trail for tests: with a master key that every test shares, and a heads file where one is wanted."""

from pathlib import Path

from holdfast.core.clock import Clock
from holdfast.engines.master_key import KeyRing
from holdfast.features.audit.service import Audit
from holdfast.storage.database import Database

MASTER_KEY = "5a" * 32
# Nothing can be made there, whoever runs the tests.
NOWHERE = Path("/dev/null/nowhere")


def audit_trail(database: Database, clock: Clock | None = None, *, directory: Path = NOWHERE) -> Audit:
    """A trail as a server has it; two on one database are two replicas."""
    return Audit(database, KeyRing(directory, MASTER_KEY), directory, clock)
