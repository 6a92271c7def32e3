"""Owns the rules of repositories: who sees one, adding, syncing and removing it, and how good its memory is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.credential import Place
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.core.text.slugs import is_slug, slug_of
from holdfast.engines.events import EventBus
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.transport.address import Location, is_path, spellings
from holdfast.engines.jobs import Job, JobEngine
from holdfast.engines.search import SearchEngine
from holdfast.engines.search.model import VectorCount
from holdfast.features.audit.service import Audit
from holdfast.features.repositories import store
from holdfast.features.repositories.hosts.apis import host_of, token_places
from holdfast.features.repositories.model import (
    REPOSITORY,
    SYNC_KIND,
    SYNTHESIS_KIND,
    AlreadyAdded,
    Breakdown,
    Host,
    NewRepository,
    Repository,
    RepositoryNotFound,
    SlugTaken,
    Sync,
    Trigger,
)
from holdfast.features.repositories.places import Places
from holdfast.features.repositories.score import score
from holdfast.features.secrets.service import Secrets
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.storage.database import Database, Tx

MAX_NAME = 120
MAX_REPOSITORIES_ASKED = 20

RESERVED_SLUGS = frozenset({"search", "ask", "files"})
"""Paths below `…/repositories` that are no repository."""


class Repositories:
    """The repositories of an organization. A caller sees those of the workspaces that they see."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        secrets: Secrets,
        search: SearchEngine,
        events: EventBus,
        jobs: JobEngine,
        git: GitEngine,
        clock: Clock,
        entities: Entities,
        *,
        allowed_paths: Sequence[str] = (),
        host_urls: Mapping[str, str] = {},
    ) -> None:
        """`allowed_paths` are directories whose repositories may be added over the network; `host_urls` the APIs."""
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._secrets = secrets
        self._search = search
        self._events = events
        self._jobs = jobs
        self._git = git
        self._clock = clock
        self._places = Places(git, allowed_paths)
        self._host_urls = dict(host_urls)
        self._entities = entities

    async def add(self, principal: Principal, workspace_id: str, new: NewRepository) -> Repository:
        """Remember a repository from now on; its first sync is queued."""
        principal.require("inference")
        location = await self._places.admit(principal, new.location, new.branch)
        host, full_name = host_of(location, new.host, self._host_urls)
        slugged = new.slug if new.slug and is_slug(new.slug) else ""
        name = _checked_name(new.name or full_name.rsplit("/", 1)[-1] or slugged or _last_part(location))

        def work(tx: Tx) -> Repository:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            if new.key_from is not None:
                places = self._token_places(location.text, host)
                self._secrets.use(tx, principal, workspace.id, new.key_from, places, field="key_from")
            # Whoever gives it a slug of its own means to have it twice.
            there = store.at(tx, workspace.id, spellings(location), new.branch) if new.slug is None else None
            if there is not None:
                raise AlreadyAdded(there)
            now = self._clock.now()
            repository = Repository(
                id=new_id("repo"),
                organization_id=workspace.organization_id,
                project_id=workspace.project_id,
                workspace_id=workspace.id,
                slug=self._slug(tx, workspace.organization_id, new.slug, name),
                name=name,
                location=location.text,
                is_local=location.is_local,
                host=host,
                full_name=full_name,
                key_from=new.key_from,
                branch=new.branch,
                created_by=principal.actor,
                created_by_name=principal.name,
                created_at=now,
                updated_at=now,
            )
            if not store.insert(tx, repository):
                raise SlugTaken(repository.slug)
            self._record(tx, principal, "repository.add", repository, {"location": location.text})
            return replace(repository, job_id=self.enqueue_sync(tx, repository, "add"))

        return await self._database.write(work)

    async def get(self, principal: Principal, slug: str) -> Repository:
        """One repository, by its slug."""
        principal.require_any("read", "inference")
        return await self._database.glance(lambda tx: self.find(tx, principal, slug))

    async def list(
        self, principal: Principal, *, workspace_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Repository]:
        """The repositories that the principal sees, of one workspace where one is given, by slug."""
        principal.require_any("read", "inference")
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""

        def work(tx: Tx) -> Page[Repository]:
            within = None if workspace_id is None else self._workspaces.check(tx, principal, workspace_id).id
            found: list[Repository] = []
            position = after
            # A narrow key sees few of many: read on until the page is full.
            while len(found) <= limit:
                rows = store.page(tx, principal.organization_id, workspace_id=within, after=position, limit=200)
                found += [row for row in rows if _sees(principal, row)]
                if len(rows) < 200:
                    break
                position = rows[-1].slug
            return page_of(found[: limit + 1], limit, lambda row: [row.slug])

        return await self._database.read(work)

    async def named(self, principal: Principal, slugs: Sequence[str]) -> Sequence[Repository]:
        """The repositories of these slugs, each once; the first that is not the caller's is named in the error."""
        principal.require_any("read", "inference")
        wanted = list(dict.fromkeys(slugs))
        if not 1 <= len(wanted) <= MAX_REPOSITORIES_ASKED:
            problem = f"name 1 to {MAX_REPOSITORIES_ASKED} repositories by their slugs"
            raise Invalid("Which repositories?", fields=[FieldError("projectSlugs", problem)])
        return await self._database.read(lambda tx: [self.find(tx, principal, slug) for slug in wanted])

    def find(self, tx: Tx, principal: Principal, slug: str) -> Repository:
        """Like `get`, within a transaction; the one gate of everything that is kept of a repository."""
        found = store.find(tx, principal.organization_id, slug)
        if found is None or not _sees(principal, found):
            raise RepositoryNotFound(slug)
        return found

    async def sync(self, principal: Principal, slug: str) -> Repository:
        """Bring a repository up to date soon; a sync that waits already is not queued twice."""
        principal.require("inference")

        def work(tx: Tx) -> Repository:
            found = self.find(tx, principal, slug)
            self._record(tx, principal, "repository.sync", found)
            return replace(found, job_id=self.enqueue_sync(tx, found, "manual"), state="queued")

        return await self._database.write(work)

    def enqueue_sync(self, tx: Tx, repository: Repository, trigger: Trigger) -> str:
        """Queue a sync with the change that causes it; the job's id."""
        job_id = self._jobs.enqueue(
            tx,
            SYNC_KIND,
            {"repository_id": repository.id, "trigger": trigger},
            workspace_id=repository.workspace_id,
            key=repository.id,
        )
        changes: dict[str, object] = {"job_id": job_id}
        if repository.state != "syncing":
            changes["state"] = "queued"
        store.update(tx, repository.id, self._clock.now(), changes)
        self.tell(tx, repository, "queued", trigger=trigger)
        return job_id

    def tell(self, tx: Tx, repository: Repository, what: str, **facts: object) -> None:
        """Publish how far a repository is, once this is durable."""
        payload = {"repository_id": repository.id, "slug": repository.slug, **facts}
        self._events.publish(tx, f"repository.{what}", payload, workspace_id=repository.workspace_id)

    async def sign_webhooks(self, principal: Principal, slug: str, secret: str | None) -> Repository:
        """Accept webhooks that are signed with this secret of the workspace; None accepts none."""
        principal.require("inference")

        def work(tx: Tx) -> Repository:
            found = self.find(tx, principal, slug)
            if secret is not None:
                self._secrets.use(tx, principal, found.workspace_id, secret, [], field="secret")
            store.update(tx, found.id, self._clock.now(), {"webhook_secret": secret})
            self._record(tx, principal, "repository.webhook", found, {"signed_with": secret})
            return replace(found, webhook_secret=secret)

        return await self._database.write(work)

    async def remove(self, principal: Principal, slug: str) -> Repository:
        """Forget a repository with everything that was made of it, except what people made their own."""
        principal.require("inference")

        def work(tx: Tx) -> Repository:
            found = self.find(tx, principal, slug)
            for job in self._work(tx, found):
                self._jobs.cancel(tx, job.id)
            # A sync that begins just now waits here, and then finds nothing.
            store.hold(tx, found.id)
            self._entities.forget(tx, found.workspace_id, REPOSITORY, found.slug)
            self._search.remove_collection(tx, found.workspace_id, found.id)
            store.delete(tx, found.id)
            self._record(tx, principal, "repository.remove", found)
            return found

        removed = await self._database.write(work)
        await self._git.forget(removed.id)
        return removed

    async def work(self, principal: Principal, slug: str) -> Sequence[Job]:
        """What waits or runs for a repository, in the order in which it will be over."""
        principal.require_any("read", "inference")
        return await self._database.read(lambda tx: self._work(tx, self.find(tx, principal, slug)))

    async def cancel(self, principal: Principal, slug: str) -> Repository:
        """Stop what waits or runs for a repository; what it has done so far stays."""
        principal.require("inference")

        def work(tx: Tx) -> Repository:
            found = self.find(tx, principal, slug)
            for job in self._work(tx, found):
                self._jobs.cancel(tx, job.id)
            self._record(tx, principal, "repository.cancel", found)
            return self.find(tx, principal, slug)

        return await self._database.write(work)

    def _work(self, tx: Tx, repository: Repository) -> Sequence[Job]:
        return [job for kind in (SYNC_KIND, SYNTHESIS_KIND) for job in self._jobs.unfinished(tx, kind, repository.id)]

    async def syncs(self, principal: Principal, slug: str, *, limit: int = 50, cursor: str | None = None) -> Page[Sync]:
        """The log of a repository's syncs, newest first."""
        principal.require_any("read", "inference")
        before = None
        if cursor:
            moment, last = decode_cursor(cursor, int, str)
            before = (int(moment), str(last))

        def work(tx: Tx) -> Page[Sync]:
            found = self.find(tx, principal, slug)
            rows = store.syncs(tx, found.id, before=before, limit=limit + 1)
            return page_of(rows, limit, lambda row: [row.started_at, row.id])

        return await self._database.read(work)

    async def status(self, principal: Principal, slug: str) -> tuple[Repository, Breakdown, VectorCount]:
        """A repository, the score of its memory, and how far its vectors are."""
        found = await self.get(principal, slug)
        (count,) = await self.vectors([found])
        return found, score(found, count.vectors, self._clock.now()), count

    async def vectors(self, repositories: Sequence[Repository]) -> Sequence[VectorCount]:
        """How far the vectors of repositories are, which whoever asks was found to see."""
        return await self._database.read(
            lambda tx: [self._search.vectors(tx, each.workspace_id, each.id) for each in repositories]
        )

    def secret_uses(self, tx: Tx) -> Iterable[tuple[str, str, Place]]:
        """Which secrets the repositories of every workspace are read with: the workspace, the name, where they go."""
        for found in store.with_keys(tx):
            for place in self._token_places(found.location, found.host):
                yield found.workspace_id, str(found.key_from), place

    def _token_places(self, location: str, host: Host) -> Sequence[Place]:
        return [] if is_path(location) else token_places(location, host, self._host_urls)

    def _slug(self, tx: Tx, organization_id: str, wanted: str | None, name: str) -> str:
        if wanted is not None:
            if not is_slug(wanted):
                problem = "use up to 80 lower-case letters, digits and single hyphens, such as my-api"
                raise Invalid("The slug cannot be used.", fields=[FieldError("slug", problem)])
            if wanted in RESERVED_SLUGS:
                problem = f"{wanted!r} has a meaning of its own; choose another"
                raise Invalid("The slug cannot be used.", fields=[FieldError("slug", problem)])
            return wanted
        base = slug_of(name, fallback="repository", max_length=60)
        taken = store.slugs(tx, organization_id) | RESERVED_SLUGS
        return next(s for n in range(1, len(taken) + 2) if (s := base if n == 1 else f"{base}-{n}") not in taken)

    def _record(
        self,
        tx: Tx,
        principal: Principal,
        action: str,
        repository: Repository,
        detail: Mapping[str, object] = {},
    ) -> None:
        self._audit.record(
            tx,
            principal,
            action,
            resource="repository",
            resource_id=repository.id,
            workspace_id=repository.workspace_id,
            detail={"slug": repository.slug, **detail},
        )
        self.tell(tx, repository, action.partition(".")[2])


def _sees(principal: Principal, repository: Repository) -> bool:
    return principal.sees_project(repository.project_id) and principal.sees_workspace(repository.workspace_id)


def _checked_name(name: str) -> str:
    tidy = " ".join(name.split())
    if not tidy or len(tidy) > MAX_NAME or not tidy.isprintable():
        problem = f"use 1 to {MAX_NAME} printable characters"
        raise Invalid("The repository cannot be named so.", fields=[FieldError("name", problem)])
    return tidy


def _last_part(location: Location) -> str:
    last = location.path.rstrip("/").removesuffix("/.git").rsplit("/", 1)[-1].removesuffix(".git")
    return last[:MAX_NAME] or "repository"
