"""Owns the list of what the product can do: every service by name, built in app.py, called by surfaces."""

from dataclasses import dataclass

from holdfast.features.audit.service import Audit
from holdfast.features.identity.keys import Keys
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sign_in import SignIn
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database


@dataclass(frozen=True, slots=True)
class Services:
    """The product, below any surface."""

    database: Database
    audit: Audit
    identity: Identity
    keys: Keys
    sign_in: SignIn
    workspaces: Workspaces
