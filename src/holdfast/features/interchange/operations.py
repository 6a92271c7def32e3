"""Owns the REST operations of import and export."""

import asyncio
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterator
from typing import IO

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.errors import Invalid
from holdfast.core.model import Answer, Model
from holdfast.core.operations import Call, Download, Operations
from holdfast.core.principal import Principal
from holdfast.features.interchange.formats.places import archive_files, archive_sink
from holdfast.features.interchange.model import ImportTooLarge, SourceFile
from holdfast.features.interchange.service import InterchangeService

MAX_IMPORT_BYTES = 128 * 1024 * 1024
MAX_IMPORT_THINGS = 100_000
_SPOOL_BYTES = 4 * 1024 * 1024
_CHUNK = 256 * 1024
_WORKSPACE = "/api/workspaces/{workspace_id}"

api = Operations("import and export")


class ImportProblemAnswer(Answer):
    file: str
    reason: str


class ImportAnswer(Answer):
    created: dict[str, int] = Field(description="New things by type")
    updated: int = Field(description="Memories whose exported text was edited")
    unchanged: int = Field(description="Known already")
    ignored_files: int = Field(validation_alias="ignored", description="Files of kinds that hold nothing to import")
    problems: list[ImportProblemAnswer] = Field(description="What was left out, and why")
    more_problems: int = Field(description="How many problems are not listed")


class ExportQuery(Model):
    derived: bool = Field(default=False, description="Also what is derived from repositories, which they give again")


async def _receive(call: Call, body: IO[bytes]) -> None:
    size = 0
    async for chunk in call.stream():
        size += len(chunk)
        if size > MAX_IMPORT_BYTES:
            raise ImportTooLarge(MAX_IMPORT_BYTES)
        await asyncio.to_thread(body.write, chunk)


def _files(body: IO[bytes]) -> Iterator[SourceFile]:
    """An archive's files; otherwise the body is one file, named by what it looks like."""
    body.seek(0)
    start = body.read(512)
    body.seek(0)
    if not start.strip():
        raise Invalid("There is nothing to import: send a ZIP archive, Markdown or JSON lines as the body.")
    if start.startswith(b"PK"):
        return archive_files(body)  # type: ignore[arg-type]
    name = "import.jsonl" if start.lstrip()[:1] in (b"{", b"[") else "import.md"
    return iter([SourceFile(name, body.read())])


async def _chunks(body: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        while chunk := await asyncio.to_thread(body.read, _CHUNK):
            yield chunk
    finally:
        body.close()


@api.post(
    _WORKSPACE + "/import",
    WRITE_INTEL,
    "Import a ZIP archive of files, one Markdown file, or JSON lines",
    upload="application/octet-stream",
)
async def import_files(
    interchange: InterchangeService, principal: Principal, workspace_id: str, call: Call
) -> ImportAnswer:
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as body:
        await _receive(call, body)
        files = await asyncio.to_thread(_files, body)
        report = await interchange.import_files(principal, workspace_id, files, most=MAX_IMPORT_THINGS)
    return ImportAnswer.of(report)


@api.get(
    _WORKSPACE + "/export",
    READ_INTEL,
    "Export the workspace as a ZIP archive of Markdown files",
    produces="application/zip",
)
async def export(
    interchange: InterchangeService, principal: Principal, workspace_id: str, query: ExportQuery
) -> Download:
    body = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 – closed when it is sent
    try:
        with zipfile.ZipFile(body, "w") as archive:
            await interchange.export(principal, workspace_id, archive_sink(archive), derived=query.derived)
        size = body.tell()
        body.seek(0)
    except BaseException:
        body.close()
        raise
    return Download(_chunks(body), "application/zip", "workspace.zip", {"Content-Length": str(size)})
