"""Owns `holdfast repos`: adding repositories, bringing them up to date, how good their memory is, and removing them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.core.clock import iso, iso_or_none
from holdfast.core.commands import FAILED, Argument, Commands, InWorkspace, Option, Session
from holdfast.core.settings import Settings
from holdfast.core.text.counting import many
from holdfast.engines.search.model import VectorCount
from holdfast.features.repositories.commands.finding import check_within, files, search, tame
from holdfast.features.repositories.commands.waiting import finish, record
from holdfast.features.repositories.hosts.webhooks import PATH
from holdfast.features.repositories.model import NewRepository, Sync
from holdfast.features.repositories.service import Repositories
from holdfast.features.repositories.tools import status_output
from holdfast.storage.running import known_url

repos = Commands("repos", help="Repositories: their whole history, remembered, searched and asked.")
repos.add(search)
repos.add(files)

_COLUMNS = ["slug", "state", "commits", "files", "items", "synthesis_status", "last_synced_at", "location"]
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
    session.out.table(map(record, page.items), _COLUMNS, "No repository yet: `holdfast repos add PATH_OR_URL`")
    if page.next_cursor is not None:
        session.out.note("There are more; raise --limit to see them.")


@repos.command("status", help="Show how good a repository's memory is and what is being done about it.")
async def status(session: Session, service: Repositories, given: One) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    value = await _status(session, service, given.slug)
    session.out.record(value, [tame(line) for line in _status_lines(value)])


class Syncs(One):
    """What `syncs` is given."""

    limit: int = Field(20, ge=1, le=200)


@repos.command("syncs", help="List a repository's syncs, newest first.")
async def syncs(session: Session, service: Repositories, given: Syncs) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    page = await service.syncs(session.principal, given.slug, limit=given.limit)
    counts = ["commits_added", "commits_removed", "files_changed", "files_removed", "items_changed"]
    session.out.table(map(_sync_record, page.items), ["started_at", "trigger", "status", *counts, "error"])


@repos.command("cancel", help="Stop what is queued or running for a repository; what is done stays.")
async def cancel(session: Session, service: Repositories, given: One) -> None:
    await check_within(session, service, [given.slug], given.workspace)
    found = await service.cancel(session.principal, given.slug)
    session.out.record(record(found), [f"What ran for {given.slug} is being stopped."])


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
    session.out.record({"slug": found.slug, "url": url, "webhook_secret": found.webhook_secret})


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


async def _status(session: Session, service: Repositories, slug: str) -> dict[str, Any]:
    found, score, vectors = await service.status(session.principal, slug)
    work = await service.work(session.principal, slug)
    return {
        **status_output(found, score, vectors).model_dump(mode="json", by_alias=True),
        "name": found.name,
        "workspaceId": found.workspace_id,
        "location": found.location,
        "branch": found.branch,
        "head": found.head,
        "state": found.state,
        "reason": found.reason,
        "commits": found.commits,
        "files": found.files,
        "items": found.items,
        "entries": found.entries,
        "waitingForVectors": vectors.waiting,
        "secondsToVectors": None if vectors.seconds is None else round(vectors.seconds),
        "work": [
            {"kind": job.kind, "state": job.state, "done": job.done, "total": job.total, "message": job.message}
            for job in work
        ],
    }


def _status_lines(value: dict[str, Any]) -> list[str]:
    points = value["breakdown"]
    lines = [
        f"{value['slug']}: {value['state']}" + (f" ({value['reason']})" if value["reason"] else ""),
        f"memory score: {value['memoryScore']} of 100 (ingestion {points['ingestion']} of 25, synthesis "
        f"{points['synthesis']} of 25, coverage {points['coverage']} of 25, freshness {points['freshness']} of 15, "
        f".keystone {points['keystoneFolder']} of 10)",
        f"location: {value['location']}",
        f"head: {value['head'] or '-'}",
        f"last synced: {value['lastSyncedAt'] or 'never'}",
        f"synthesis: {value['synthesisStatus']} ({value['synthesisProgress']} %)",
        f"kept: {many(value['commits'], 'commit')}, {many(value['files'], 'file')}, "
        f"{many(value['items'], 'item')} of its host; {many(value['entries'], 'passage')}, "
        f"{many(value['embeddingCount'], 'vector')}",
    ]
    waiting = VectorCount(value["embeddingCount"], value["waitingForVectors"], value["secondsToVectors"]).said
    if waiting:
        lines.append(f"waiting: {waiting}")
    for job in value["work"]:
        so_far = f", {job['done']:,.0f} of {job['total']:,.0f}" if job["total"] else ""
        lines.append(f"{job['kind']}: {job['state']}{so_far} {job['message']}".rstrip())
    return lines


def _sync_record(sync: Sync) -> dict[str, Any]:
    return {
        "id": sync.id,
        "job_id": sync.job_id,
        "trigger": sync.trigger,
        "status": sync.status,
        "started_at": iso(sync.started_at),
        "finished_at": iso_or_none(sync.finished_at),
        "commits_added": sync.commits_added,
        "commits_removed": sync.commits_removed,
        "files_changed": sync.files_changed,
        "files_removed": sync.files_removed,
        "items_changed": sync.items_changed,
        "error": None if sync.error is None else tame(sync.error),
    }
