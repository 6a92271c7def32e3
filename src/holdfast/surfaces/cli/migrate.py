"""Owns `holdfast migrate`."""

from holdfast.core.commands import Session, command
from holdfast.storage.database import Database
from holdfast.storage.schema import schema_version


@command("migrate", help="Bring the store to this version, and begin one where there is none.", begins_store=True)
async def migrate(session: Session, database: Database) -> None:
    # Whatever opens a store migrates it, under one lock: by now it is done.
    version = await database.read(schema_version)
    session.out.record(
        {"store": database.dialect, "schema_version": version}, [f"The {database.dialect} store has schema {version}."]
    )
