"""Owns `holdfast status`."""

from pydantic import Field

from holdfast.core.commands import Given, Session, command
from holdfast.core.settings import Settings
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.service import Identity
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database
from holdfast.storage.running import answers, known_url


class Where(Given):
    """What `status` is given."""

    url: str | None = Field(None, description="Where the server runs.")


@command("status", help="Show what is stored here and whether a server answers.")
async def status(
    session: Session,
    identity: Identity,
    workspaces: Workspaces,
    keys: Keys,
    database: Database,
    settings: Settings,
    given: Where,
) -> None:
    principal = session.principal
    address = (given.url or known_url(settings)).rstrip("/")
    session.out.record(
        {
            "url": address,
            "running": await answers(address),
            "store": database.dialect,
            "organization_id": principal.organization_id,
            "projects": len((await identity.projects(principal, limit=200)).items),
            "workspaces": len((await workspaces.list(principal, limit=200)).items),
            "active_keys": sum(key.revoked_at is None for key in (await keys.list(principal, limit=200)).items),
        }
    )
