"""Owns how services are put together: which engine and which neighbour each is given."""

from collections.abc import Sequence

from holdfast.core.clock import Clock
from holdfast.core.settings import Settings
from holdfast.engines.events.bus import EventBus
from holdfast.engines.extract.engine import ExtractEngine
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.transport.tunnel import Rules
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.jobs.run import JobRun
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.research.deep_think import DeepThink
from holdfast.engines.master_key import KeyRing
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.web import web_access
from holdfast.features.artifacts import store as artifact_store
from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.ask.service import Ask
from holdfast.features.audit.service import Audit
from holdfast.features.chat import store as chat_store
from holdfast.features.chat.record import TurnRecord
from holdfast.features.chat.reminders import Reminders
from holdfast.features.chat.service import ChatService
from holdfast.features.chat.tools import ChatTools
from holdfast.features.chat.turns import ChatTurns
from holdfast.features.client_bundles.service import ClientBundles
from holdfast.features.clients.service import Clients
from holdfast.features.deep_think.service import DeepThinkService
from holdfast.features.documents import ingest
from holdfast.features.documents import store as document_store
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores import VectorStoreService
from holdfast.features.endpoints.addresses import AddressRules
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity import store as identity_store
from holdfast.features.identity.idempotency import IdempotentRequests
from holdfast.features.identity.keys import store as key_store
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.keys.tokens import Tokens
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.own_password import OwnPassword
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.features.intelligence.model import Source
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.interchange.service import InterchangeService
from holdfast.features.jobs.service import JobService
from holdfast.features.memory import store as memory_store
from holdfast.features.memory.model import Filters
from holdfast.features.memory.service import MemoryService
from holdfast.features.repositories import store as repository_store
from holdfast.features.repositories.access import Access
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.history.polling import Polling
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.history.sync import CONCURRENCY as SYNCS_AT_ONCE
from holdfast.features.repositories.history.sync import RepositorySync
from holdfast.features.repositories.hosts.items import HostItems, OperatorAccess
from holdfast.features.repositories.hosts.webhooks import Webhooks
from holdfast.features.repositories.model import POLL_KIND, SYNC_KIND, SYNTHESIS_KIND, Repository
from holdfast.features.repositories.overview import overview
from holdfast.features.repositories.service import Repositories
from holdfast.features.responses import service as responses
from holdfast.features.secrets.service import Secrets
from holdfast.features.server_tools.budget import ResearchBudget
from holdfast.features.synthesis.service import CONCURRENCY as SYNTHESES_AT_ONCE
from holdfast.features.synthesis.service import Synthesis
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces import store as workspace_store
from holdfast.features.workspaces.service import Workspaces
from holdfast.services import Services
from holdfast.storage.database import Database, Tx
from holdfast.toolboxes import build_gateway, product_catalog


def build_services(settings: Settings, database: Database, clock: Clock, embedder: Embedder | None = None) -> Services:
    """Every service on one database. Tests bring an embedder of their own."""
    events = EventBus(database, clock)
    jobs = JobEngine(database, events)
    search = SearchEngine(database, embedder or build_embedder(settings), clock)
    ring = KeyRing(settings.data_dir, settings.secrets_master_key)
    audit = Audit(database, ring, settings.data_dir, clock, workspace_store.administered)
    limiter = Limiter(database, clock)
    usage = Usage(database, clock, key_store.spenders)
    own_password = OwnPassword(database, limiter, settings.sign_ins_per_minute)
    identity = Identity(database, audit, clock, own_password, people_make_organizations=settings.allow_organizations)
    sign_in = SignIn(database, audit, clock)
    keys = Keys(database, audit, clock, _missing_workspace)
    workspaces = Workspaces(
        database, audit, clock, identity_store.project_exists, identity_store.is_member, chat_store.exists
    )
    secrets = Secrets(database, audit, workspaces, ring, clock)
    endpoints = Endpoints(
        database,
        audit,
        workspaces,
        secrets,
        clock,
        identity_store.project_exists,
        _workspace_ids,
        AddressRules(settings.upstream_allow),
    )
    intelligence = IntelligenceService(
        database,
        audit,
        workspaces,
        search,
        events,
        clock,
        titles={
            "memory": _memory_title,
            "artifact": _artifact_title,
            "document": _document_title,
            "repository": _repository_title,
        },
        recent={
            "memory": _recent_memories,
            "artifact": _recent_artifacts,
            "document": _recent_documents,
            "repository": _recent_repositories,
        },
    )
    memory = MemoryService(
        database,
        audit,
        workspaces,
        search,
        events,
        clock,
        forgotten=lambda tx, workspace_id, id: intelligence.forget(tx, workspace_id, "memory", id),
        named=lambda workspace_id, query: repository_finding.named(workspace_id, query),
    )
    artifacts = ArtifactService(
        database,
        audit,
        workspaces,
        search,
        events,
        clock,
        forgotten=lambda tx, workspace_id, id: intelligence.forget(tx, workspace_id, "artifact", id),
    )
    documents = DocumentService(
        database,
        audit,
        workspaces,
        search,
        events,
        jobs,
        clock,
        max_bytes=settings.max_upload_bytes,
        forgotten=lambda tx, workspace_id, id: intelligence.forget(tx, workspace_id, "document", id),
    )
    reading = ingest.Ingestion(database, search, events, ExtractEngine(at_once=ingest.AT_ONCE), clock)
    jobs.handle(ingest.KIND, reading.run, concurrency=ingest.AT_ONCE, reserved=1)
    web = web_access(
        search_backend=settings.web_search,
        search_url=settings.web_search_url,
        search_key=settings.web_search_key,
        allow_private=settings.fetch_allow,
        github_url=settings.github_url,
        github_token=settings.github_token,
        gitlab_url=settings.gitlab_url,
        gitlab_token=settings.gitlab_token,
    )
    git = GitEngine(settings.data_dir.expanduser() / "repositories", Rules(settings.fetch_allow))
    host_urls = {"github": settings.github_url, "gitlab": settings.gitlab_url}
    host_tokens = {"github": settings.github_token, "gitlab": settings.gitlab_token}
    repositories = Repositories(
        database,
        audit,
        workspaces,
        secrets,
        search,
        events,
        jobs,
        git,
        clock,
        allowed_paths=settings.repository_paths,
        host_urls=host_urls,
        forgotten=lambda tx, repository: forget_repository(tx, repository),
    )
    repository_access = Access(database, secrets, host_urls=host_urls, host_tokens=host_tokens)
    host_items = HostItems(
        database,
        secrets,
        search,
        clock,
        web.guard,
        {
            "github": OperatorAccess(settings.github_url, settings.github_token, "HOLDFAST_GITHUB_TOKEN"),
            "gitlab": OperatorAccess(settings.gitlab_url, settings.gitlab_token, "HOLDFAST_GITLAB_TOKEN"),
        },
    )
    repository_sync = RepositorySync(
        database, repositories, search, jobs, git, repository_access, clock, items=host_items.sync
    )
    polling = Polling(repositories, clock, poll_seconds=settings.repository_poll_seconds)
    live_files = LiveFiles(database, repositories, git, repository_access)
    repository_finding = RepositoryFinding(database, search, repositories, clock)
    models = EndpointModels(database, endpoints)
    synthesis = Synthesis(
        database, audit, repositories, live_files, artifacts, intelligence, models, usage, jobs, clock
    )

    def forget_repository(tx: Tx, repository: Repository) -> None:
        synthesis.forget(tx, repository)
        intelligence.forget(tx, repository.workspace_id, "repository", repository.slug)

    # One more than a workspace alone gets: a long first sync of one does not keep another's waiting.
    jobs.handle(SYNC_KIND, repository_sync.run, concurrency=SYNCS_AT_ONCE + 1, reserved=1, ended=repository_sync.ended)
    jobs.handle(SYNTHESIS_KIND, synthesis.run, concurrency=SYNTHESES_AT_ONCE, ended=synthesis.ended)
    jobs.handle(POLL_KIND, polling.run, concurrency=1, every_seconds=polling.turn_seconds)
    vector_stores = VectorStoreService(database, audit, workspaces, documents, clock)
    chats = ChatService(database, audit, workspaces, search, events, clock)
    research_budget = ResearchBudget(database, limiter, clock, calls_per_minute=settings.research_calls_per_minute)
    loop = Loop()
    gateway = build_gateway(lambda: product_catalog(services), audit, artifacts, usage)
    chat_turns = ChatTurns(
        TurnRecord(database, chats, workspaces, search, clock),
        ChatTools(gateway, documents, vector_stores),
        Reminders(memory),
        workspaces,
        usage,
        loop,
        deep_think=DeepThinkService(database, workspaces, artifacts, DeepThink(loop), clock),
        max_rounds=settings.max_tool_rounds,
    )
    services = Services(
        database=database,
        events=events,
        jobs=jobs,
        search=search,
        audit=audit,
        limiter=limiter,
        usage=usage,
        identity=identity,
        keys=keys,
        sign_in=sign_in,
        invitations=Invitations(database, audit, clock, sign_in, own_password),
        tokens=Tokens(
            database,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            secret=settings.jwt_secret,
            jwks_url=settings.jwt_jwks_url,
            verified_claim=settings.jwt_verified_claim,
        ),
        idempotency=IdempotentRequests(database, clock),
        workspaces=workspaces,
        workspace_jobs=JobService(database, audit, workspaces, jobs),
        memory=memory,
        artifacts=artifacts,
        documents=documents,
        vector_stores=vector_stores,
        repositories=repositories,
        repository_finding=repository_finding,
        webhooks=Webhooks(database, secrets, repositories, clock),
        ask=Ask(
            database,
            repositories,
            repository_finding,
            live_files,
            models,
            usage,
            loop,
            gateway,
            weekly_tokens=settings.weekly_token_limit,
        ),
        git=git,
        live_files=live_files,
        synthesis=synthesis,
        intelligence=intelligence,
        interchange=InterchangeService(database, audit, workspaces, search, events, clock, intelligence),
        clients=Clients(
            database,
            clock,
            ttl_seconds=settings.mcp_session_ttl_seconds,
            max_sessions=settings.mcp_max_sessions,
            max_sessions_each=settings.mcp_max_sessions_each,
        ),
        web=web,
        research_budget=research_budget,
        gateway=gateway,
        chats=chats,
        chat_turns=chat_turns,
        responses=responses.ResponseService(database, audit, workspaces, jobs, clock),
        client_bundles=ClientBundles(keys, workspaces, _expected_url(settings)),
        secrets=secrets,
        endpoints=endpoints,
        models=models,
        background=(
            ("audit", audit.run, audit.stop),
            ("keys", keys.run, keys.stop),
            ("limits", limiter.run, limiter.stop),
            ("usage", usage.run, usage.stop),
            ("events", events.run, events.stop),
            ("search", search.run, search.stop),
            ("jobs", jobs.run, jobs.stop),
        ),
    )
    jobs.handle(responses.KIND, lambda run: _respond(services, run), concurrency=8, reserved=1, max_attempts=3)
    return services


async def _respond(services: Services, run: JobRun) -> None:
    """Answer a background response with the model behind its endpoint."""
    # Imported only where it is used: the endpoint's surface costs start-up time and memory.
    from holdfast.openai_door import EndpointTurns

    await services.responses.answer(run, EndpointTurns(services).answering)


def _expected_url(settings: Settings) -> str:
    """Where clients reach the server, as far as the settings tell."""
    host = settings.host if settings.host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 – compared, not bound
    return settings.public_url or f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def build_embedder(settings: Settings) -> Embedder:
    """The configured embedder; the embedded one loads its model at the first text."""
    if settings.embedder == "upstream" and settings.embeddings_url and settings.embeddings_model:
        # Imported only where it is used: the HTTP client costs start-up time and memory.
        from holdfast.engines.search.embedders.upstream import UpstreamEmbedder

        return UpstreamEmbedder(
            settings.embeddings_url,
            settings.embeddings_model,
            settings.embeddings_dimensions,
            api_key=settings.embeddings_key,
        )
    return MiniLmEmbedder()


def _missing_workspace(tx: Tx, organization_id: str, project_id: str | None, ids: frozenset[str]) -> str | None:
    for id in sorted(ids):
        found = workspace_store.find(tx, organization_id, id)
        if found is None or (project_id is not None and found.project_id != project_id):
            return id
    return None


def _workspace_ids(tx: Tx, organization_id: str, project_id: str) -> Sequence[str]:
    return [found.id for found in workspace_store.page(tx, organization_id, project_id, "", 1000)]


def _memory_title(tx: Tx, workspace_id: str, id: str) -> str | None:
    found = memory_store.find(tx, workspace_id, id)
    return found.title if found and found.id == id else None


def _artifact_title(tx: Tx, workspace_id: str, id: str) -> str | None:
    found = artifact_store.find(tx, workspace_id, ArtifactReference(artifact_id=id))
    return found.title if found else None


def _document_title(tx: Tx, workspace_id: str, id: str) -> str | None:
    found = document_store.find(tx, workspace_id, id)
    return found.title if found else None


def _repository_title(tx: Tx, workspace_id: str, slug: str) -> str | None:
    """People and agents call a repository by its slug, so what is said of one names that."""
    found = repository_store.find_in(tx, workspace_id, slug)
    return found.name if found else None


def _recent_repositories(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = repository_store.of_workspace(tx, workspace_id, limit)
    return [
        Source("repository", row.slug, row.name, overview(tx, row), row.last_synced_at or row.created_at, row.state)
        for row in rows
    ]


def _recent_documents(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = document_store.page(tx, workspace_id, chat_id=None, state="ready", before=None, limit=limit)
    return [Source("document", row.id, row.title, _beginning(tx, row.id), row.created_at, row.format) for row in rows]


def _beginning(tx: Tx, document_id: str) -> str:
    return "\n\n".join(chunk.text for chunk in document_store.chunks(tx, document_id, start=0, limit=1))


def _recent_memories(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = memory_store.page(tx, workspace_id, Filters(), None, limit)
    return [Source("memory", row.id, row.title, row.content, row.learned_at, row.category) for row in rows]


def _recent_artifacts(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = artifact_store.page(tx, workspace_id, chat_id=None, type=None, limit=limit)
    return [Source("artifact", row.id, row.title, row.identifier, row.updated_at, row.type) for row in rows]
