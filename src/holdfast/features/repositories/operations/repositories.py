"""Owns the REST operations of repositories: adding, syncing, watching and removing them."""

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.model import Answer, Model, PageQuery, Text, Time
from holdfast.core.operations import Call, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.engines.jobs import JobState
from holdfast.features.repositories.hosts.webhooks import PATH
from holdfast.features.repositories.model import (
    Host,
    NewRepository,
    Repository,
    State,
    SyncStatus,
    SynthesisStatus,
    Trigger,
)
from holdfast.features.repositories.operations.named import BASE, ONE, TAG, check_within
from holdfast.features.repositories.service import Repositories
from holdfast.features.secrets.service import shown_name
from holdfast.features.workspaces.service import Workspaces

api = Operations(TAG)


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


class CountsAnswer(Answer):
    commits: int
    files: int
    items: int = Field(description="Pull requests, issues, releases and discussions")
    entries: int = Field(description="What search can find")
    keystone_files: int = Field(description="Files below `.keystone/`")


class SynthesisAnswer(Answer):
    status: SynthesisStatus = Field(validation_alias="synthesis_status")
    progress: int = Field(validation_alias="synthesis_progress", description="0 to 100")
    completed_at: Time | None = Field(validation_alias="synthesised_at")
    head: str = Field(validation_alias="synthesised_head", description="The commit that it stands on")


class RepositoryAnswer(Answer):
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
    last_synced_at: Time | None
    synthesis: SynthesisAnswer
    counts: CountsAnswer
    created_by: str
    created_by_name: str
    created_at: Time
    updated_at: Time


class ScoreAnswer(Answer):
    total: int
    ingestion: int
    synthesis: int
    coverage: int
    freshness: int
    keystone_folder: int


class WorkAnswer(Answer):
    job_id: str = Field(validation_alias="id")
    kind: str
    state: JobState
    done: float = Field(description="Of `total`, where it is known")
    total: float | None
    message: str


class VectorsAnswer(Answer):
    vectors: int = Field(description="Passages that are found by their meaning")
    waiting: int = Field(description="Passages that are found by their words only, until they have their vector")
    seconds: float | None = Field(
        description="Until none waits, at the rate measured last; null where none was embedded in the last ten minutes"
    )


class RepositoryStatusAnswer(RepositoryAnswer):
    score: ScoreAnswer = Field(description="How good its memory is, in a hundred points")
    vectors: VectorsAnswer = Field(description="How far its vectors are")
    work: list[WorkAnswer] = Field(description="What is queued or running for it, with its progress")


class SyncAnswer(Answer):
    id: str
    job_id: str
    trigger: Trigger
    status: SyncStatus
    started_at: Time
    finished_at: Time | None
    commits_added: int
    commits_removed: int
    files_changed: int
    files_removed: int
    items_changed: int
    error: str | None


class WebhookAnswer(Answer):
    slug: str
    url: str = Field(description="Where the host sends its webhooks")
    secret: str | None = Field(description="The workspace's secret that they are signed with; null: none are accepted")


def _more(repository: Repository, principal: Principal) -> dict[str, object]:
    """What a repository's answer has beyond its fields: secrets are named to some only."""
    return {
        "key_from": shown_name(principal, repository.key_from),
        "webhook_secret": shown_name(principal, repository.webhook_secret),
        "synthesis": SynthesisAnswer.of(repository),
        "counts": CountsAnswer.of(repository),
    }


def repository_answer(repository: Repository, principal: Principal) -> RepositoryAnswer:
    """A repository as REST shows it to somebody."""
    return RepositoryAnswer.of(repository, **_more(repository, principal))


async def status_answer(repositories: Repositories, principal: Principal, slug: str) -> RepositoryStatusAnswer:
    """How good a repository's memory is, and what is being done about it."""
    # Work first: what ends in between is shown as ready and still at work, never as unready with nobody at work.
    work = await repositories.work(principal, slug)
    found, score, vectors = await repositories.status(principal, slug)
    return RepositoryStatusAnswer.of(
        found, **_more(found, principal), score=score, vectors=VectorsAnswer.of(vectors), work=work
    )


@api.get(BASE, READ, "List repositories, by slug")
async def page(
    repositories: Repositories, principal: Principal, workspace_id: str, query: PageQuery
) -> Page[RepositoryAnswer]:
    found = await repositories.list(principal, workspace_id=workspace_id, limit=query.limit, cursor=query.cursor)
    return found.map(lambda each: repository_answer(each, principal))


@api.post(BASE, WRITE, "Remember a repository; its first sync is queued", status=201)
async def add(
    repositories: Repositories, principal: Principal, workspace_id: str, body: RepositoryBody
) -> RepositoryAnswer:
    return repository_answer(await repositories.add(principal, workspace_id, body.into(NewRepository)), principal)


@api.get(ONE, READ, "Get a repository, the score of its memory, and how far its sync and synthesis are")
async def get(
    repositories: Repositories, workspaces: Workspaces, principal: Principal, workspace_id: str, slug: str
) -> RepositoryStatusAnswer:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    return await status_answer(repositories, principal, slug)


@api.post(ONE + "/sync", WRITE, "Bring a repository up to date", status=202)
async def sync(
    repositories: Repositories, workspaces: Workspaces, principal: Principal, workspace_id: str, slug: str
) -> RepositoryStatusAnswer:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    await repositories.sync(principal, slug)
    return await status_answer(repositories, principal, slug)


@api.post(ONE + "/cancel", WRITE, "Stop what is queued or running for a repository")
async def cancel(
    repositories: Repositories, workspaces: Workspaces, principal: Principal, workspace_id: str, slug: str
) -> RepositoryStatusAnswer:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    await repositories.cancel(principal, slug)
    return await status_answer(repositories, principal, slug)


@api.get(ONE + "/syncs", READ, "List a repository's syncs, newest first")
async def syncs(
    repositories: Repositories,
    workspaces: Workspaces,
    principal: Principal,
    workspace_id: str,
    slug: str,
    query: PageQuery,
) -> Page[SyncAnswer]:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    return (await repositories.syncs(principal, slug, limit=query.limit, cursor=query.cursor)).map(SyncAnswer.of)


@api.put(
    ONE + "/webhook",
    WRITE,
    "Say which secret a repository's webhooks are signed with; answers where to send them",
)
async def webhook(
    repositories: Repositories,
    workspaces: Workspaces,
    principal: Principal,
    workspace_id: str,
    slug: str,
    body: WebhookBody,
    call: Call,
) -> WebhookAnswer:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    signed = await repositories.sign_webhooks(principal, slug, body.secret)
    return WebhookAnswer(slug=signed.slug, url=f"{call.public_url}{PATH}{signed.id}", secret=signed.webhook_secret)


@api.delete(ONE, WRITE, "Forget a repository with everything that was made of it")
async def remove(
    repositories: Repositories, workspaces: Workspaces, principal: Principal, workspace_id: str, slug: str
) -> None:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    await repositories.remove(principal, slug)
