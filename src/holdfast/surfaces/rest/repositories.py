"""Owns the REST operations of repositories: adding, syncing, watching and removing them."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.clock import iso, iso_or_none
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.core.slugs import is_slug
from holdfast.engines.jobs import Job, JobState
from holdfast.features.repositories.hosts.webhooks import PATH
from holdfast.features.repositories.model import (
    Breakdown,
    Host,
    NewRepository,
    Repository,
    RepositoryNotFound,
    State,
    Sync,
    SyncStatus,
    SynthesisStatus,
    Trigger,
)
from holdfast.features.repositories.service import Repositories
from holdfast.features.secrets.service import shown_name
from holdfast.features.workspaces.service import Workspaces

BASE = "/api/workspaces/{workspace_id}/repositories"
ONE = BASE + "/{slug}"
TAG = "repositories"
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]


class RepositoryBody(Model):
    location: Text = Field(
        min_length=1, max_length=2000, description="A git URL, or a path that the operator lets be added"
    )
    slug: Text | None = Field(default=None, max_length=200, description="Its name in the whole organization")
    name: Text | None = Field(default=None, max_length=400, description="How people see it")
    branch: Text = Field(default="", max_length=250, description="The branch to follow; empty for the default one")
    key_from: Text | None = Field(
        default=None,
        max_length=200,
        description="The workspace's secret that holds the token for its host; naming one takes an admin",
    )
    host: Host | None = Field(default=None, description="Whose API speaks for it; told by the URL when left out")


class WebhookBody(Model):
    secret: Text | None = Field(
        max_length=200,
        description="The workspace's secret that webhooks are signed with, which takes an admin; null accepts none",
    )


class CountsAnswer(Model):
    commits: int
    files: int
    items: int = Field(description="Pull requests, issues, releases and discussions")
    entries: int = Field(description="What search can find")
    keystone_files: int = Field(description="Files below `.keystone/`")


class SynthesisState(Model):
    status: SynthesisStatus
    progress: int = Field(description="0 to 100")
    completed_at: str | None
    head: str = Field(description="The commit that it stands on")


class RepositoryAnswer(Model):
    id: str
    workspace_id: str
    slug: str
    name: str
    location: str
    is_local: bool
    host: Host
    full_name: str
    branch: str
    head: str = Field(description="The commit that the last completed sync saw")
    key_from: str | None = Field(description="Null also for keys without the scope `management`")
    webhook_secret: str | None = Field(description="Null also for keys without the scope `management`")
    state: State
    reason: str | None
    job_id: str | None = Field(description="The last sync's job")
    ingested: bool = Field(description="Whether a sync has completed")
    last_synced_at: str | None
    synthesis: SynthesisState
    counts: CountsAnswer
    created_by: str
    created_by_name: str
    created_at: str
    updated_at: str


class ScoreAnswer(Model):
    total: int
    ingestion: int
    synthesis: int
    coverage: int
    freshness: int
    keystone_folder: int


class WorkAnswer(Model):
    job_id: str
    kind: str
    state: JobState
    done: float = Field(description="Of `total`, where it is known")
    total: float | None
    message: str


class RepositoryStatusAnswer(RepositoryAnswer):
    score: ScoreAnswer = Field(description="How good its memory is, in a hundred points")
    work: list[WorkAnswer] = Field(description="What is queued or running for it, with its progress")


class SyncAnswer(Model):
    id: str
    job_id: str
    trigger: Trigger
    status: SyncStatus
    started_at: str
    finished_at: str | None
    commits_added: int
    commits_removed: int
    files_changed: int
    files_removed: int
    items_changed: int
    error: str | None


class WebhookAnswer(Model):
    slug: str
    url: str = Field(description="Where the host sends its webhooks")
    secret: str | None = Field(description="The workspace's secret that they are signed with; null: none are accepted")


class Gate:
    """Finds the repository that a call is about, in the workspace that its path names."""

    def __init__(self, repositories: Repositories, workspaces: Workspaces) -> None:
        self._repositories = repositories
        self._workspaces = workspaces

    async def find(self, call: Call) -> Repository:
        """The repository of the path."""
        return (await self.named(call, [call.path["slug"]]))[0]

    async def named(self, call: Call, slugs: Sequence[str]) -> list[Repository]:
        """The repositories of these slugs; NotFound for one of another workspace, like for one that is not there."""
        workspace = await self._workspaces.get(call.principal, call.path["workspace_id"])
        found = []
        for slug in slugs:
            if not is_slug(slug):
                raise RepositoryNotFound(slug[:200])
            repository = await self._repositories.get(call.principal, slug)
            if repository.workspace_id != workspace.id:
                raise RepositoryNotFound(slug)
            found.append(repository)
        return found


def operations(repositories: Repositories, gate: Gate, public_url: str) -> list[Operation]:
    """Everything about repositories but what is in them."""

    async def add(call: Call) -> RepositoryAnswer:
        body: RepositoryBody = call.body
        new = NewRepository(
            location=body.location,
            slug=body.slug,
            name=body.name,
            branch=body.branch,
            key_from=body.key_from,
            host=body.host,
        )
        return repository_answer(await repositories.add(call.principal, call.path["workspace_id"], new), call.principal)

    async def page(call: Call) -> Page[RepositoryAnswer]:
        asked: PageQuery = call.query
        found = await repositories.list(
            call.principal, workspace_id=call.path["workspace_id"], limit=asked.limit, cursor=asked.cursor
        )
        return found.map(lambda each: repository_answer(each, call.principal))

    async def get(call: Call) -> RepositoryStatusAnswer:
        return await _status(call, (await gate.find(call)).slug)

    async def sync(call: Call) -> RepositoryStatusAnswer:
        slug = (await gate.find(call)).slug
        await repositories.sync(call.principal, slug)
        return await _status(call, slug)

    async def cancel(call: Call) -> RepositoryStatusAnswer:
        slug = (await gate.find(call)).slug
        await repositories.cancel(call.principal, slug)
        return await _status(call, slug)

    async def syncs(call: Call) -> Page[SyncAnswer]:
        asked: PageQuery = call.query
        slug = (await gate.find(call)).slug
        found = await repositories.syncs(call.principal, slug, limit=asked.limit, cursor=asked.cursor)
        return found.map(_sync_answer)

    async def webhook(call: Call) -> WebhookAnswer:
        body: WebhookBody = call.body
        slug = (await gate.find(call)).slug
        signed = await repositories.sign_webhooks(call.principal, slug, body.secret)
        return WebhookAnswer(slug=signed.slug, url=f"{public_url}{PATH}{signed.id}", secret=signed.webhook_secret)

    async def remove(call: Call) -> None:
        await repositories.remove(call.principal, (await gate.find(call)).slug)

    async def _status(call: Call, slug: str) -> RepositoryStatusAnswer:
        found, score = await repositories.status(call.principal, slug)
        work = await repositories.work(call.principal, slug)
        return RepositoryStatusAnswer(
            **repository_answer(found, call.principal).model_dump(),
            score=_score_answer(score),
            work=[_work_answer(job) for job in work],
        )

    return [
        Operation(
            method="GET",
            path=BASE,
            handler=page,
            summary="List repositories, by slug",
            tag=TAG,
            access=READ,
            query=PageQuery,
            answer=RepositoryAnswer,
            paged=True,
        ),
        Operation(
            method="POST",
            path=BASE,
            handler=add,
            summary="Remember a repository; its first sync is queued",
            tag=TAG,
            access=WRITE,
            body=RepositoryBody,
            answer=RepositoryAnswer,
            status=201,
        ),
        Operation(
            method="GET",
            path=ONE,
            handler=get,
            summary="Get a repository, the score of its memory, and how far its sync and synthesis are",
            tag=TAG,
            access=READ,
            answer=RepositoryStatusAnswer,
        ),
        Operation(
            method="POST",
            path=ONE + "/sync",
            handler=sync,
            summary="Bring a repository up to date",
            tag=TAG,
            access=WRITE,
            answer=RepositoryStatusAnswer,
            status=202,
        ),
        Operation(
            method="POST",
            path=ONE + "/cancel",
            handler=cancel,
            summary="Stop what is queued or running for a repository",
            tag=TAG,
            access=WRITE,
            answer=RepositoryStatusAnswer,
        ),
        Operation(
            method="GET",
            path=ONE + "/syncs",
            handler=syncs,
            summary="List a repository's syncs, newest first",
            tag=TAG,
            access=READ,
            query=PageQuery,
            answer=SyncAnswer,
            paged=True,
        ),
        Operation(
            method="PUT",
            path=ONE + "/webhook",
            handler=webhook,
            summary="Say which secret a repository's webhooks are signed with; answers where to send them",
            tag=TAG,
            access=WRITE,
            body=WebhookBody,
            answer=WebhookAnswer,
        ),
        Operation(
            method="DELETE",
            path=ONE,
            handler=remove,
            summary="Forget a repository with everything that was made of it",
            tag=TAG,
            access=WRITE,
            status=204,
        ),
    ]


def repository_answer(repository: Repository, principal: Principal) -> RepositoryAnswer:
    """A repository as REST shows it to somebody."""
    return RepositoryAnswer(
        id=repository.id,
        workspace_id=repository.workspace_id,
        slug=repository.slug,
        name=repository.name,
        location=repository.location,
        is_local=repository.is_local,
        host=repository.host,
        full_name=repository.full_name,
        branch=repository.branch,
        head=repository.head,
        key_from=shown_name(principal, repository.key_from),
        webhook_secret=shown_name(principal, repository.webhook_secret),
        state=repository.state,
        reason=repository.reason,
        job_id=repository.job_id,
        ingested=repository.ingested,
        last_synced_at=iso_or_none(repository.last_synced_at),
        synthesis=SynthesisState(
            status=repository.synthesis_status,
            progress=repository.synthesis_progress,
            completed_at=iso_or_none(repository.synthesised_at),
            head=repository.synthesised_head,
        ),
        counts=CountsAnswer(
            commits=repository.commits,
            files=repository.files,
            items=repository.items,
            entries=repository.entries,
            keystone_files=repository.keystone_files,
        ),
        created_by=repository.created_by,
        created_by_name=repository.created_by_name,
        created_at=iso(repository.created_at),
        updated_at=iso(repository.updated_at),
    )


def _score_answer(score: Breakdown) -> ScoreAnswer:
    return ScoreAnswer(
        total=score.total,
        ingestion=score.ingestion,
        synthesis=score.synthesis,
        coverage=score.coverage,
        freshness=score.freshness,
        keystone_folder=score.keystone_folder,
    )


def _work_answer(job: Job) -> WorkAnswer:
    return WorkAnswer(
        job_id=job.id, kind=job.kind, state=job.state, done=job.done, total=job.total, message=job.message
    )


def _sync_answer(sync: Sync) -> SyncAnswer:
    return SyncAnswer(
        id=sync.id,
        job_id=sync.job_id,
        trigger=sync.trigger,
        status=sync.status,
        started_at=iso(sync.started_at),
        finished_at=iso_or_none(sync.finished_at),
        commits_added=sync.commits_added,
        commits_removed=sync.commits_removed,
        files_changed=sync.files_changed,
        files_removed=sync.files_removed,
        items_changed=sync.items_changed,
        error=sync.error,
    )
