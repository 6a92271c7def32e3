"""Owns `holdfast doctor`: checks of the machine and of the data, each with what to do."""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import click

from holdfast.core.errors import HoldfastError
from holdfast.core.settings import Settings, load
from holdfast.core.text.counting import many
from holdfast.engines.runtime.chosen import runtime_of
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.storage.database import Database, NoStore
from holdfast.storage.files import tighten
from holdfast.storage.sqlite import SQLITE_VERSION
from holdfast.surfaces.cli.frame import FAILED, ProgramEntry, as_called, data_dir_option, exits, json_option
from holdfast.surfaces.cli.printing import Printed

LOW_DISK_BYTES = 1024**3
_YEAR_2026 = 1_767_225_600


@dataclass(frozen=True, slots=True)
class Checked:
    """One check: how it went, and what to do about it."""

    check: str
    state: Literal["ok", "warning", "problem"]
    finding: str
    remedy: str = ""


@click.command("doctor", help="Check this machine and the data, and say what to do.")
@click.option("--search", is_flag=True, help="Also prove that every row and its search index agree.")
@data_dir_option
@json_option
@click.pass_context
def doctor(context: click.Context, search: bool, data_dir: Path | None, as_json: bool) -> None:
    with exits():
        # The data first: which directory is looked at is found out together with it.
        settings, in_data = asyncio.run(_data(context.find_root().obj, data_dir, search))
        findings = [*(check(settings) for check in _MACHINE), *in_data]
    Printed(as_json).table([_shown(finding) for finding in findings], ["check", "state", "finding", "remedy"])
    if any(finding.state == "problem" for finding in findings):
        raise SystemExit(FAILED)


def _shown(finding: Checked) -> dict[str, str]:
    return {name: as_called(text) for name, text in asdict(finding).items()}


async def _data(entry: ProgramEntry, data_dir: Path | None, search: bool) -> tuple[Settings, list[Checked]]:
    """Open the store as any command does, and look at what is in it; the settings that this took."""
    try:
        async with entry.opens(data_dir, False) as (parts, _):
            found = [Checked("storage", "ok", f"{parts[Database].dialect} opens and is migrated")]
            found.append(await _audit(parts[Audit]))
            if search:
                found += _search_findings(await parts[SearchEngine].check())
                found.append(Checked("vectors", "ok", (await parts[SearchEngine].progress()).said))
            return parts[Settings], found
    except NoStore as none:
        return load(data_dir=data_dir), [Checked("storage", "warning", none.message)]
    except HoldfastError as error:
        return load(data_dir=data_dir), [Checked("storage", "problem", error.message)]


async def _audit(audit: Audit) -> Checked:
    checked = [await audit.verify(organization_id) for organization_id in await audit.organizations()]
    count = sum(len(each.problems) for each in checked)
    if count:
        return Checked("audit", "problem", f"{many(count, 'row')} out of the chain", "run `holdfast audit verify`")
    notes = list(dict.fromkeys(note for each in checked for note in each.notes))
    return Checked("audit", "ok", " ".join(["the chain is whole.", *notes]) if notes else "the chain is whole")


def _search_findings(problems: Iterable[str]) -> list[Checked]:
    remedy = "restore a backup, or export and import the workspace"
    found = [Checked("search", "problem", problem, remedy) for problem in problems]
    return found or [Checked("search", "ok", "every row and its index agree")]


def _python(settings: Settings) -> Checked:
    version = ".".join(map(str, sys.version_info[:3]))
    return Checked("python", "ok", version)


def _sqlite(settings: Settings) -> Checked:
    version = SQLITE_VERSION
    if tuple(map(int, version.split("."))) < (3, 51, 3):
        remedy = "install the pysqlite3 package: older SQLite can damage a WAL file when it is reset"
        return Checked("sqlite", "warning", version, remedy)
    return Checked("sqlite", "ok", version)


def _disk(settings: Settings) -> Checked:
    directory = settings.data_dir.expanduser()
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free
    if free < LOW_DISK_BYTES:
        return Checked("disk", "warning", f"{free // 1024**2} MiB free", f"free some space under {directory}")
    return Checked("disk", "ok", f"{free // 1024**3} GiB free")


def _files(settings: Settings) -> Checked:
    directory = settings.data_dir.expanduser()
    if not directory.is_dir():
        return Checked("files", "ok", "there is no data directory yet")
    complaints = tighten(directory)
    if complaints:
        remedy = f"make {directory} and what is in it its owner's alone: `chmod -R go= {directory}`"
        return Checked("files", "problem", " ".join(complaints), remedy)
    return Checked("files", "ok", f"nobody but their owner gets at the files in {directory}")


def _clock(settings: Settings) -> Checked:
    if time.time() < _YEAR_2026:
        return Checked("clock", "problem", time.strftime("%Y-%m-%d"), "set the clock: keys and sessions expire by it")
    return Checked("clock", "ok", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _sandbox(settings: Settings) -> Checked:
    try:
        leak = asyncio.run(_confined(settings))
    except HoldfastError as problem:
        return Checked("sandbox", "warning", problem.message)
    if leak is not None:
        return Checked("sandbox", "warning", leak)
    where = "pods of the cluster" if settings.runtime == "kubernetes" else "sandboxes of this machine"
    return Checked("sandbox", "ok", f"agents, MCP servers and proofs run in {where}")


async def _confined(settings: Settings) -> str | None:
    """Run what every one of them is run by, once; a sentence where it has a network that it must not have."""
    runtime = runtime_of(settings)
    try:
        await runtime.check()
        if settings.runtime != "kubernetes":
            return None
        # It brings much that a machine's own sandboxes do not need.
        from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime

        return await runtime.open_network() if isinstance(runtime, KubernetesRuntime) else None
    finally:
        await runtime.close()


def _postgresql(settings: Settings) -> Checked:
    if settings.database_url is None:
        return Checked("postgresql", "ok", "not configured; the embedded store is used")
    import psycopg

    try:
        with psycopg.connect(settings.database_url, connect_timeout=5) as connection:
            row = connection.execute(
                "SELECT installed_version FROM pg_available_extensions WHERE name = 'vector'"
            ).fetchone()
            server = connection.info.server_version // 10_000
    except psycopg.Error as problem:
        first = str(problem).strip().splitlines()[0]
        return Checked("postgresql", "problem", first, "check HOLDFAST_DATABASE_URL and that the server runs")
    if row is None:
        return Checked(
            "postgresql", "problem", f"{server} without pgvector", "install the pgvector extension on the server"
        )
    return Checked("postgresql", "ok", f"{server} with pgvector")


_MACHINE: tuple[Callable[[Settings], Checked], ...] = (_python, _sqlite, _disk, _files, _clock, _sandbox, _postgresql)
