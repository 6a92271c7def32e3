"""Owns `holdfast repos`: adding repositories, bringing them up to date, how good their memory is, and removing them."""

import sys
from typing import Any

import click

from holdfast.core.clock import iso, iso_or_none
from holdfast.features.repositories.model import NewRepository, Repository, Sync
from holdfast.features.repositories.tools import status_output
from holdfast.features.repositories.webhooks import PATH
from holdfast.surfaces.cli.frame import Session, command, workspace_option
from holdfast.surfaces.cli.repo_answers import ask, files, findings, search, tame
from holdfast.surfaces.cli.repo_waiting import embedded, settled
from holdfast.surfaces.cli.server import is_serving, known_url

group = click.Group("repos", help="Repositories: their whole history, remembered, searched and asked.")
for _answers in (search, files, ask, findings):
    group.add_command(_answers)

_slug = click.argument("slug")
_wait = click.option("--wait", is_flag=True, help="Return when its history can be found and has been summed up.")
_embed = click.option("--embed", is_flag=True, help="Wait until everything is found by meaning too, however long.")
_COLUMNS = ["slug", "state", "commits", "files", "items", "synthesis_status", "last_synced_at", "location"]


@command(
    group,
    "add",
    click.argument("location", metavar="PATH_OR_URL"),
    click.option("--slug", help="Its name in the whole organization (default: made from the name)."),
    click.option("--name", help="How people see it (default: the last part of the path or URL)."),
    click.option("--branch", default="", help="The branch to follow (default: the repository's own)."),
    click.option("--key-from", metavar="SECRET", help="The workspace's secret with the token for its host."),
    click.option("--host", type=click.Choice(["github", "gitlab"]), help="Whose API it has (default: by the URL)."),
    workspace_option,
    _wait,
    _embed,
    help="Remember a repository: a directory on this machine, or a git URL.",
)
async def add(
    session: Session,
    location: str,
    slug: str | None,
    name: str | None,
    branch: str,
    key_from: str | None,
    host: Any,
    workspace: str | None,
    wait: bool,
    embed: bool,
) -> None:
    new = NewRepository(location=location, slug=slug, name=name, branch=branch, key_from=key_from, host=host)
    added = await session.services.repositories.add(session.principal, await session.workspace(workspace), new)
    await _finish(session, added, str(added.job_id), wait=wait, embed=embed)


@command(group, "sync", _slug, _wait, _embed, help="Bring a repository up to date.")
async def sync(session: Session, slug: str, wait: bool, embed: bool) -> None:
    queued = await session.services.repositories.sync(session.principal, slug)
    await _finish(session, queued, str(queued.job_id), wait=wait, embed=embed)


@command(
    group,
    "list",
    workspace_option,
    click.option("--limit", type=click.IntRange(1, 200), default=100, show_default=True),
    help="List repositories, of every workspace unless one is named.",
)
async def list_(session: Session, workspace: str | None, limit: int) -> None:
    within = None if workspace is None else await session.workspace(workspace)
    page = await session.services.repositories.list(session.principal, workspace_id=within, limit=limit)
    session.out.table(
        (record(each) for each in page.items), _COLUMNS, "No repository yet: holdfast repos add PATH_OR_URL"
    )
    if page.next_cursor is not None:
        session.out.note("There are more; raise --limit to see them.")


@command(group, "status", _slug, help="Show how good a repository's memory is and what is being done about it.")
async def status(session: Session, slug: str) -> None:
    value = await _status(session, slug)
    session.out.record(value, [tame(line) for line in _status_lines(value)])


@command(
    group,
    "syncs",
    _slug,
    click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True),
    help="List a repository's syncs, newest first.",
)
async def syncs(session: Session, slug: str, limit: int) -> None:
    page = await session.services.repositories.syncs(session.principal, slug, limit=limit)
    counts = ["commits_added", "commits_removed", "files_changed", "files_removed", "items_changed"]
    columns = ["started_at", "trigger", "status", *counts, "error"]
    session.out.table((_sync_record(each) for each in page.items), columns)


@command(group, "synthesise", _slug, _wait, help="Sum a repository up again; what people edited stays theirs.")
async def synthesise(session: Session, slug: str, wait: bool) -> None:
    queued = await session.services.synthesis.start(session.principal, slug)
    await _finish(session, queued, wait=wait)


@command(group, "cancel", _slug, help="Stop what is queued or running for a repository; what is done stays.")
async def cancel(session: Session, slug: str) -> None:
    found = await session.services.repositories.cancel(session.principal, slug)
    session.out.record(record(found), [f"What ran for {slug} is being stopped."])


@command(
    group,
    "webhook",
    _slug,
    click.option("--secret", metavar="SECRET", help="The workspace's secret that the host signs webhooks with."),
    help="Accept webhooks signed with a secret, or none without one.",
)
async def webhook(session: Session, slug: str, secret: str | None) -> None:
    found = await session.services.repositories.sign_webhooks(session.principal, slug, secret)
    url = f"{known_url().rstrip('/')}{PATH}{found.id}"
    session.out.record({"slug": found.slug, "url": url, "webhook_secret": found.webhook_secret})


@command(
    group,
    "remove",
    _slug,
    click.option("--yes", is_flag=True, help="Do not ask."),
    help="Forget a repository with everything that was made of it; the repository itself stays as it is.",
)
async def remove(session: Session, slug: str, yes: bool) -> None:
    found = await session.services.repositories.get(session.principal, slug)
    if not yes and sys.stdin.isatty():
        question = f"Forget {found.slug} with {_many(found.commits, 'commit')} and {_many(found.files, 'file')}?"
        click.confirm(question, abort=True, err=True)
    await session.services.repositories.remove(session.principal, slug)
    session.out.record({"slug": slug, "removed": True}, [f"Forgot {slug}."])


async def _finish(session: Session, queued: Repository, *job_ids: str, wait: bool, embed: bool = False) -> None:
    """Wait where that is wanted, and answer with how it stands then."""
    if not wait and not embed:
        session.out.record(record(queued), [f"{queued.slug} ({queued.location}) is queued."])
        who = (
            "The server does it in the background"
            if await is_serving()
            else "It begins when a server runs (holdfast up)"
        )
        session.out.note(f"{who}; add --wait to do it now.")
        return
    found = await settled(session, queued.slug, *job_ids)
    if found.reason:
        session.out.note(tame(found.reason))
    left = await embedded(session, whole=embed)
    value = record(found)
    session.out.record(
        {**value, "waiting_for_vectors": left},
        [
            f"{found.slug} is remembered: {_many(found.commits, 'commit')}, {_many(found.files, 'file')}, "
            f"{_many(found.items, 'item')} of its host; {_many(found.entries, 'passage')} to find.",
            f'Ask it: holdfast repos ask "why …" --repo {found.slug}',
        ],
    )


async def _status(session: Session, slug: str) -> dict[str, Any]:
    found, score = await session.services.repositories.status(session.principal, slug)
    work = await session.services.repositories.work(session.principal, slug)
    return {
        **status_output(found, score).model_dump(mode="json", by_alias=True),
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
        f"kept: {_many(value['commits'], 'commit')}, {_many(value['files'], 'file')}, "
        f"{_many(value['items'], 'item')} of its host; {_many(value['embeddingCount'], 'passage')}",
    ]
    for job in value["work"]:
        so_far = f", {job['done']:,.0f} of {job['total']:,.0f}" if job["total"] else ""
        lines.append(f"{job['kind']}: {job['state']}{so_far} {job['message']}".rstrip())
    return lines


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def record(repository: Repository) -> dict[str, Any]:
    """A repository as commands print it."""
    return {
        "slug": repository.slug,
        "id": repository.id,
        "workspace_id": repository.workspace_id,
        "name": repository.name,
        "location": repository.location,
        "host": repository.host,
        "full_name": repository.full_name,
        "branch": repository.branch,
        "head": repository.head,
        "state": repository.state,
        "reason": repository.reason,
        "job_id": repository.job_id,
        "commits": repository.commits,
        "files": repository.files,
        "items": repository.items,
        "entries": repository.entries,
        "synthesis_status": repository.synthesis_status,
        "last_synced_at": iso_or_none(repository.last_synced_at),
        "created_at": iso(repository.created_at),
    }


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
