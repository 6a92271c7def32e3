"""Owns `holdfast repos`: adding repositories, bringing them up to date, how good their memory is, and removing them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.core.commands import FAILED, Argument, Commands, InWorkspace, Option, Session
from holdfast.core.settings import Settings
from holdfast.core.text.counting import many
from holdfast.core.text.printable import printable
from holdfast.engines.search.model import VectorCount
from holdfast.features.repositories.commands.finding import check_within, files, search
from holdfast.features.repositories.commands.waiting import finish
from holdfast.features.repositories.hosts.webhooks import PATH
from holdfast.features.repositories.model import NewRepository
from holdfast.features.repositories.operations.repositories import (
    RepositoryAnswer,
    RepositoryStatusAnswer,
    SyncAnswer,
    WebhookAnswer,
    repository_answer,
    status_answer,
)
from holdfast.features.repositories.service import Repositories
from holdfast.storage.running import known_url

repos = Commands("repos", help="Repositories: their whole history, remembered, searched and asked.")
repos.add(search)
repos.add(files)

_COLUMNS = ["slug", "state", "commits", "files", "items", "synthesis", "last_synced_at", "location"]
_Wait = Annotated[bool, Field(description="Return when its history can be found and has been summed up.")]
_Embed = Annotated[bool, Field(description="Wait until everything is found by meaning too, however long.")]


class One(InWorkspace):
    """A repository that is named; its name is the organization's, so no workspace need be."""

    slug: Annotated[str, Argument()]


class Add(InWorkspace):
    """What `add` is given."""

    location: Annotated[str, Argument("PATH_OR_URL")]
    slug: str | None = Field(None, description="Its name in the whole organization (default: made from the name).")
    name: str | None = Field(None, description="How people see it (default: the last part of the path or URL).")
    branch: str = Field("", description="The branch to follow (default: the repository's own).")
    key_from: Annotated[str | None, Option(metavar="SECRET")] = Field(
        None, description="The workspace's secret with the token for its host."
    )
    host: Literal["github", "gitlab"] | None = Field(None, description="Whose API it has (default: by the URL).")
    wait: _Wait = False
    embed: _Embed = False


@repos.command("add", help="Remember a repository: a directory on this machine, or a git URL.", begins_store=True)
async def add(session: Session, service: Repositories, given: Add) -> None:
    new = NewRepository(
        location=given.location,
        slug=given.slug,
        name=given.name,
        branch=given.branch,
        key_from=given.key_from,
        host=given.host,
    )
    added = await service.add(session.principal, await session.workspace(given.workspace), new)
    await finish(session, added, str(added.job_id), wait=given.wait, embed=given.embed)


class SyncNow(One):
    """What `sync` is given."""

    wait: _Wait = False
    embed: _Embed = False


@repos.command("sync", help="Bring a repository up to date.")
async def sync(session: Session, service: Repositories, given: SyncNow) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    queued = await service.sync(session.principal, given.slug)
    await finish(session, queued, str(queued.job_id), wait=given.wait, embed=given.embed)


class Listing(InWorkspace):
    """What `list` is given."""

    limit: int = Field(100, ge=1, le=200)


@repos.command("list", help="List repositories, of every workspace unless one is named.")
async def list_(session: Session, service: Repositories, given: Listing) -> None:
    within = None if given.workspace is None else await session.workspace(given.workspace)
    page = await service.list(session.principal, workspace_id=within, limit=given.limit)
    found = [repository_answer(each, session.principal) for each in page.items]
    rows = found if session.out.as_json else map(_row, found)
    session.out.table(rows, _COLUMNS, "No repository yet: `holdfast repos add PATH_OR_URL`")
    if page.next_cursor is not None:
        session.out.note("There are more; raise --limit to see them.")


@repos.command("status", help="Show how good a repository's memory is and what is being done about it.")
async def status(session: Session, service: Repositories, given: One) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    found = await status_answer(service, session.principal, given.slug)
    session.out.record(found, [printable(line) for line in _status_lines(found)])


class Syncs(One):
    """What `syncs` is given."""

    limit: int = Field(20, ge=1, le=200)


@repos.command("syncs", help="List a repository's syncs, newest first.")
async def syncs(session: Session, service: Repositories, given: Syncs) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    page = await service.syncs(session.principal, given.slug, limit=given.limit)
    counts = ["commits_added", "commits_removed", "files_changed", "files_removed", "items_changed"]
    session.out.table(map(SyncAnswer.of, page.items), ["started_at", "trigger", "status", *counts, "error"])


@repos.command("cancel", help="Stop what is queued or running for a repository; what is done stays.")
async def cancel(session: Session, service: Repositories, given: One) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    found = await service.cancel(session.principal, given.slug)
    session.out.record(repository_answer(found, session.principal), [f"What ran for {given.slug} is being stopped."])


class Webhook(One):
    """What `webhook` is given."""

    secret: Annotated[str | None, Option(metavar="SECRET")] = Field(
        None, description="The workspace's secret that the host signs webhooks with."
    )


@repos.command("webhook", help="Accept webhooks signed with a secret, or none without one.")
async def webhook(session: Session, service: Repositories, settings: Settings, given: Webhook) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    found = await service.sign_webhooks(session.principal, given.slug, given.secret)
    url = f"{known_url(settings)}{PATH}{found.id}"
    session.out.record(WebhookAnswer(slug=found.slug, url=url, secret=found.webhook_secret))


class Remove(One):
    """What `remove` is given."""

    yes: bool = Field(False, description="Do not ask.")


@repos.command(
    "remove",
    help="Forget a repository with everything that was made of it; the repository itself stays as it is.",
)
async def remove(session: Session, service: Repositories, given: Remove) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    found = await service.get(session.principal, given.slug)
    question = f"Forget {found.slug} with {many(found.commits, 'commit')} and {many(found.files, 'file')}?"
    if not given.yes and not session.out.confirm(question):
        session.out.note("Nothing was forgotten.")
        raise SystemExit(FAILED)
    await service.remove(session.principal, given.slug)
    session.out.record({"slug": given.slug, "removed": True}, [f"Forgot {given.slug}."])


def _row(found: RepositoryAnswer) -> dict[str, Any]:
    return {**found.model_dump(), **found.counts.model_dump(), "synthesis": found.synthesis.status}


def _status_lines(found: RepositoryStatusAnswer) -> list[str]:
    points, counts = found.score, found.counts
    lines = [
        f"{found.slug}: {found.state}" + (f" ({found.reason})" if found.reason else ""),
        f"memory score: {points.total} of 100 (ingestion {points.ingestion} of 25, synthesis "
        f"{points.synthesis} of 25, coverage {points.coverage} of 25, freshness {points.freshness} of 15, "
        f".keystone {points.keystone_folder} of 10)",
        f"location: {found.location}",
        f"head: {found.head or '-'}",
        f"last synced: {found.last_synced_at or 'never'}",
        f"synthesis: {found.synthesis.status} ({found.synthesis.progress} %)",
        f"kept: {many(counts.commits, 'commit')}, {many(counts.files, 'file')}, "
        f"{many(counts.items, 'item')} of its host; {many(counts.entries, 'passage')}, "
        f"{many(found.vectors.vectors, 'vector')}",
    ]
    waiting = VectorCount(found.vectors.vectors, found.vectors.waiting, found.vectors.seconds).said
    if waiting:
        lines.append(f"waiting: {waiting}")
    for job in found.work:
        so_far = f", {job.done:,.0f} of {job.total:,.0f}" if job.total else ""
        lines.append(f"{job.kind}: {job.state}{so_far} {job.message}".rstrip())
    return lines
