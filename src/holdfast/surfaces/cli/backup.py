"""Owns `holdfast backup` and `holdfast restore`."""

import asyncio
from pathlib import Path
from typing import Annotated

import click

from holdfast.core.clock import SystemClock
from holdfast.core.commands import Argument, Given, Session, command
from holdfast.core.settings import Settings, load
from holdfast.features.audit.marks.heads_file import Break, HeadsFile
from holdfast.features.secrets import store as secret_store
from holdfast.storage import backup as backups
from holdfast.storage.database import Database
from holdfast.storage.files import STORE
from holdfast.surfaces.cli.frame import data_dir_option, exits, json_option
from holdfast.surfaces.cli.printing import Printed


class Target(Given):
    """What `backup` is given."""

    file: Annotated[Path, Argument(path="file")]


@command("backup", help="Write everything to one file; the server may go on serving.")
async def backup(session: Session, database: Database, given: Target) -> None:
    made = await backups.backup(database, given.file)
    told: dict[str, object] = {
        "file": str(made.file),
        "bytes": made.bytes,
        "schema_version": made.schema_version,
        "audit_heads": [f"{name}:{sequence}:{hash}" for name, (sequence, hash) in sorted(made.heads.items())],
    }
    missing = await database.read(secret_store.only_in_cluster)
    if missing:
        told["secrets_only_in_cluster"] = missing
    session.out.record(told)


@click.command("restore", help="Bring a backup into an empty data directory or database; stop the server first.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Overwrite what is there.")
@data_dir_option
@json_option
def restore(file: Path, replace: bool, data_dir: Path | None, as_json: bool) -> None:
    with exits():
        settings = load(data_dir=data_dir)
        target: Path | str = settings.database_url or settings.data_dir.expanduser() / STORE
        done = asyncio.run(backups.restore(file, target, replace=replace))
        _tell_heads_file(settings, done)
        where = "the database" if settings.database_url else str(target)
        Printed(as_json).record({"restored": where, "schema_version": done.schema_version})


def _tell_heads_file(settings: Settings, done: backups.Backup) -> None:
    """Write down where the audit chains go on, so that `audit verify` can tell a restore from a chain cut short."""
    file = HeadsFile(settings.data_dir, done.dialect)
    sequences = {name: sequence for name, (sequence, _) in done.heads.items()}
    try:
        file.append_break(Break(SystemClock().now(), f"the backup {done.file.name} was restored", sequences))
    except OSError as problem:
        click.echo(f"holdfast: {file.path} could not be written ({problem.strerror}).", err=True)
