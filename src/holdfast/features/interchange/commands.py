"""Owns `holdfast import` and `holdfast export`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.commands import FAILED, Argument, InWorkspace, Session, command
from holdfast.core.errors import HoldfastError, UpstreamFailed
from holdfast.core.text.counting import many
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.interchange.formats.places import folder_files, folder_sink
from holdfast.features.interchange.model import Report
from holdfast.features.interchange.operations import ImportAnswer
from holdfast.features.interchange.service import InterchangeService

_SHOWN_PROBLEMS = 20
_EMBEDDED_AT_ONCE = 1_000


class Import(InWorkspace):
    """What `import` is given."""

    path: Annotated[Path, Argument()]


@command(
    "import",
    begins_store=True,
    help="Import a folder, a file or a ZIP archive: Markdown notes, CLAUDE.md and AGENTS.md, mem0 and basic-memory "
    "exports, server-memory's JSON lines, or an export of Holdfast. Running it again imports only what is new.",
)
async def import_(session: Session, service: InterchangeService, search: SearchEngine, given: Import) -> None:
    id = await session.workspace(given.workspace)
    report = await service.import_files(session.principal, id, folder_files(given.path))
    await _embed(session, search)
    session.out.record(ImportAnswer.of(report), _lines(report))
    if report.problems and not (report.created or report.updated or report.unchanged):
        raise SystemExit(FAILED)


class Export(InWorkspace):
    """What `export` is given."""

    directory: Annotated[Path, Argument()]
    replace: bool = Field(False, description="Write over an earlier export in the same folder.")
    derived: bool = Field(False, description="Also what is derived from repositories, which they give again.")


@command(
    "export",
    help="Export memories, decisions, milestones, artifacts, documents, cases and relations to Markdown with front "
    "matter. What is derived from repositories is left out unless --derived is given.",
)
async def export(session: Session, service: InterchangeService, given: Export) -> None:
    id = await session.workspace(given.workspace)
    directory = given.directory
    try:
        sink = folder_sink(directory, replace=given.replace)
        counts = await service.export(session.principal, id, sink, derived=given.derived)
    except OSError as problem:
        raise HoldfastError(f"The export could not be written to {directory} ({problem.strerror}).") from None
    wrote = ", ".join(many(number, type) for type, number in counts.items()) or "nothing: the workspace is empty"
    session.out.record({"directory": str(directory), **counts}, [f"Exported {wrote} to {directory}."])


async def _embed(session: Session, search: SearchEngine) -> None:
    """Make what came in findable by meaning at once; a lot of it is left to the server."""
    pending = (await search.progress()).pending
    if pending <= _EMBEDDED_AT_ONCE:
        try:
            await search.tend()
            return
        except UpstreamFailed as problem:
            session.out.note(problem.message)
    waiting = many(pending, "passage")
    session.out.note(f"{waiting} can be found by words now, and by meaning once the server has come to them.")


def _lines(report: Report) -> list[str]:
    created = ", ".join(many(number, type) for type, number in report.created.items()) or "nothing new"
    lines = [f"Imported {created}; {report.updated} updated, {report.unchanged} known already."]
    if report.ignored:
        lines.append(f"Passed over: {many(report.ignored, 'file')} of other kinds.")
    lines += [f"Left out: {each.file}: {each.reason}" for each in report.problems[:_SHOWN_PROBLEMS]]
    hidden = len(report.problems) - _SHOWN_PROBLEMS + report.more_problems
    if hidden > 0:
        lines.append(f"… and {hidden} more; --json shows them.")
    return lines
