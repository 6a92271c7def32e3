"""Owns `holdfast import` and `holdfast export`."""

from pathlib import Path
from typing import Any

import click

from holdfast.core.errors import HoldfastError, UpstreamFailed
from holdfast.features.interchange.model import Report
from holdfast.features.interchange.places import folder_files, folder_sink
from holdfast.surfaces.cli.frame import FAILED, Session, command, workspace_option

group = click.Group("interchange")

_SHOWN_PROBLEMS = 20
_EMBEDDED_AT_ONCE = 1_000


@command(
    group,
    "import",
    click.argument("path", type=click.Path(path_type=Path)),
    workspace_option,
    help=(
        "Import a folder, a file or a ZIP archive: Markdown notes, CLAUDE.md and AGENTS.md, mem0 and basic-memory "
        "exports, server-memory's JSON lines, or an export of Holdfast. Running it again imports only what is new."
    ),
)
async def import_(session: Session, path: Path, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    report = await session.services.interchange.import_files(session.principal, id, folder_files(path))
    await _embed(session)
    session.out.record(report_fields(report), _lines(report))
    if report.problems and not (report.created or report.updated or report.unchanged):
        raise SystemExit(FAILED)


@command(
    group,
    "export",
    click.argument("directory", type=click.Path(path_type=Path)),
    workspace_option,
    click.option("--replace", is_flag=True, help="Write over an earlier export in the same folder."),
    help="Export memories, decisions, milestones, artifacts and relations to Markdown with front matter.",
)
async def export(session: Session, directory: Path, workspace: str | None, replace: bool) -> None:
    id = await session.workspace(workspace)
    try:
        counts = await session.services.interchange.export(
            session.principal, id, folder_sink(directory, replace=replace)
        )
    except OSError as problem:
        raise HoldfastError(f"The export could not be written to {directory} ({problem.strerror}).") from None
    wrote = ", ".join(f"{number} {type}" for type, number in counts.items()) or "nothing: the workspace is empty"
    session.out.record({"directory": str(directory), **counts}, [f"Exported {wrote} to {directory}."])


async def _embed(session: Session) -> None:
    """Make what came in findable by meaning at once; a lot of it is left to the server."""
    search = session.services.search
    pending = (await search.progress()).pending
    if pending <= _EMBEDDED_AT_ONCE:
        try:
            await search.tend()
            return
        except UpstreamFailed as problem:
            session.out.note(problem.message)
    session.out.note(f"{pending} passages are found by their words now, and by meaning once the server has read them.")


def report_fields(report: Report) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "created": report.created,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "ignored_files": report.ignored,
        "problems": [{"file": each.file, "reason": each.reason} for each in report.problems],
        "more_problems": report.more_problems,
    }


def _lines(report: Report) -> list[str]:
    created = ", ".join(f"{number} {type}" for type, number in report.created.items()) or "nothing new"
    lines = [f"Imported {created}; {report.updated} updated, {report.unchanged} known already."]
    if report.ignored:
        lines.append(f"{report.ignored} files of other kinds were passed over.")
    lines += [f"Left out: {each.file}: {each.reason}" for each in report.problems[:_SHOWN_PROBLEMS]]
    hidden = len(report.problems) - _SHOWN_PROBLEMS + report.more_problems
    if hidden > 0:
        lines.append(f"… and {hidden} more; --json shows them.")
    return lines
