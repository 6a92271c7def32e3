"""Owns the list of what the product can do: every service by name, built in wiring.py, called by surfaces."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import TypeVar

from holdfast.core.tools.gateway import Gateway
from holdfast.engines.events.bus import EventBus
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.web import WebAccess
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.ask.service import Ask
from holdfast.features.audit.service import Audit
from holdfast.features.chat.service import ChatService
from holdfast.features.chat.turns import ChatTurns
from holdfast.features.client_bundles.service import ClientBundles
from holdfast.features.clients.service import Clients
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores import VectorStoreService
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.idempotency import IdempotentRequests
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.keys.tokens import Tokens
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.interchange.service import InterchangeService
from holdfast.features.jobs.service import JobService
from holdfast.features.memory.service import MemoryService
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.hosts.webhooks import Webhooks
from holdfast.features.repositories.service import Repositories
from holdfast.features.responses.service import ResponseService
from holdfast.features.secrets.service import Secrets
from holdfast.features.server_tools.budget import ResearchBudget
from holdfast.features.synthesis.service import Synthesis
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database

_Part = TypeVar("_Part")
Step = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The product, below any surface."""

    database: Database
    events: EventBus
    jobs: JobEngine
    search: SearchEngine
    audit: Audit
    limiter: Limiter
    usage: Usage
    identity: Identity
    keys: Keys
    sign_in: SignIn
    invitations: Invitations
    tokens: Tokens
    idempotency: IdempotentRequests
    workspaces: Workspaces
    workspace_jobs: JobService
    memory: MemoryService
    artifacts: ArtifactService
    documents: DocumentService
    vector_stores: VectorStoreService
    repositories: Repositories
    repository_finding: RepositoryFinding
    webhooks: Webhooks
    ask: Ask
    git: GitEngine
    synthesis: Synthesis
    live_files: LiveFiles
    intelligence: IntelligenceService
    interchange: InterchangeService
    clients: Clients
    secrets: Secrets
    endpoints: Endpoints
    models: EndpointModels
    client_bundles: ClientBundles
    web: WebAccess
    research_budget: ResearchBudget
    gateway: Gateway
    chats: ChatService
    chat_turns: ChatTurns
    responses: ResponseService
    background: tuple[tuple[str, Step, Step], ...]
    """What works beside the requests: name, run, stop; stopped in reverse order."""

    def __getitem__(self, kind: type[_Part]) -> _Part:
        """The service of that class."""
        for each in fields(self):
            service = getattr(self, each.name)
            if type(service) is kind:
                found: _Part = service
                return found
        raise LookupError(f"There is no {kind.__name__} among the services.")
