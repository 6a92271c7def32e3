"""Owns what the parts of project intelligence stand on: the gate, the record of every change, the checks of text."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Invalid, Unavailable, UpstreamFailed
from holdfast.core.paging import decode_cursor
from holdfast.core.principal import Principal
from holdfast.core.text.secrets_scan import first_secret_kind
from holdfast.engines.events import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.keeper import embedded_text
from holdfast.engines.search.model import Entry
from holdfast.features.audit.service import Audit
from holdfast.features.intelligence.model import MAX_TITLE
from holdfast.features.intelligence.store import Position
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx


@dataclass(frozen=True, slots=True)
class IntelligenceBase:
    """The services below, and the few things that every change does with them."""

    database: Database
    audit: Audit
    workspaces: Workspaces
    search: SearchEngine
    events: EventBus
    clock: Clock

    async def reader(self, principal: Principal, workspace_id: str) -> str:
        """The workspace's own id, if the principal may read there."""
        principal.require_any("read", "inference")
        return await self.database.glance(lambda tx: self.enter(tx, principal, workspace_id))

    async def writer(self, principal: Principal, workspace_id: str) -> str:
        """The workspace's own id, if the principal may write there; asked before any work is done for them."""
        principal.require("inference")
        return await self.database.glance(lambda tx: self.enter(tx, principal, workspace_id))

    def enter(self, tx: Tx, principal: Principal, workspace_id: str) -> str:
        """The workspace's own id, if the principal may see it."""
        return self.workspaces.check(tx, principal, workspace_id).id

    def record(
        self,
        tx: Tx,
        principal: Principal,
        action: str,
        *,
        workspace_id: str,
        id: str,
        detail: Mapping[str, object] = {},
    ) -> None:
        """Write a change into the audit, and tell who listens once it is durable. `action` is `noun.verb`."""
        kind = action.partition(".")[0]
        self.audit.record(
            tx, principal, action, resource=kind, resource_id=id, workspace_id=workspace_id, detail=detail
        )
        self.events.publish(tx, action, {"type": kind, "id": id}, workspace_id=workspace_id)

    async def vectors(self, entry: Entry) -> NDArray[np.float32] | None:
        """The entry's vector, computed before the transaction that keeps it; None leaves it to the background."""
        try:
            return await self.search.embed([embedded_text(entry.title, entry.text)])
        except (UpstreamFailed, Unavailable):
            return None


def checked_title(text: str) -> str:
    """A title on one line."""
    return " ".join(checked_text(text, "title", MAX_TITLE, required=True).split())


def checked_text(text: str, field: str, max_length: int, *, required: bool = False) -> str:
    """The text without surrounding space; Invalid when it is too long, missing, or carries a credential."""
    bare = text.strip()
    if required and not bare:
        raise Invalid(f"The {field} is empty.", fields=[FieldError(field, "write at least one word")])
    if len(bare) > max_length:
        problem = f"at most {max_length} characters; this has {len(bare)}"
        raise Invalid(f"The {field} is too long.", fields=[FieldError(field, problem)])
    if "\x00" in bare:
        raise Invalid(f"The {field} cannot be stored.", fields=[FieldError(field, "remove the NUL character")])
    kind = first_secret_kind([bare])
    if kind is not None:
        problem = f"this looks like it holds a credential ({kind}); leave it out, nothing was stored"
        raise Invalid(f"The {field} carries a credential.", fields=[FieldError(field, problem)], code="secret_refused")
    return bare


def position(cursor: str | None) -> Position | None:
    """Where a page begins, from a cursor over (moment, id)."""
    if cursor is None:
        return None
    moment, id = decode_cursor(cursor, int, str)
    return int(moment), str(id)
