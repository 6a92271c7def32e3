"""Owns short names for what tests build: services by name, started and run as the server does it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Gateway
from holdfast.engines.events.bus import EventBus
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.web import WebAccess
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.ask.service import Ask
from holdfast.features.audit.service import Audit
from holdfast.features.chat.service import ChatService
from holdfast.features.chat.turn.turns import ChatTurns
from holdfast.features.client_bundles.service import ClientBundles
from holdfast.features.clients.service import Clients
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores.service import VectorStoreService
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
from holdfast.registry.entities import Entities, EntityType
from holdfast.registry.feature import Feature
from holdfast.server import background as running
from holdfast.server import start as starting
from holdfast.server.features import Features, features
from holdfast.server.parts import build_parts
from holdfast.storage.database import Database
from holdfast.storage.lock import Ownership

_Part = TypeVar("_Part")


class _Named(Generic[_Part]):
    """A part by its name."""

    def __init__(self, kind: type[_Part]) -> None:
        self._kind = kind

    def __get__(self, services: "Services", owner: type["Services"]) -> _Part:
        return services[self._kind]


class Services(Parts):
    """Parts that also go by short names: `services.memory` is `parts[MemoryService]`."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def __getitem__(self, kind: type[_Part]) -> _Part:
        return self.parts[kind]

    def __contains__(self, kind: type[Any]) -> bool:
        return kind in self.parts

    @property
    def made(self) -> tuple[object, ...]:
        return self.parts.made

    events = _Named(EventBus)
    search = _Named(SearchEngine)
    audit = _Named(Audit)
    limiter = _Named(Limiter)
    usage = _Named(Usage)
    identity = _Named(Identity)
    keys = _Named(Keys)
    sign_in = _Named(SignIn)
    invitations = _Named(Invitations)
    tokens = _Named(Tokens)
    idempotency = _Named(IdempotentRequests)
    workspaces = _Named(Workspaces)
    workspace_jobs = _Named(JobService)
    memory = _Named(MemoryService)
    artifacts = _Named(ArtifactService)
    documents = _Named(DocumentService)
    vector_stores = _Named(VectorStoreService)
    repositories = _Named(Repositories)
    repository_finding = _Named(RepositoryFinding)
    webhooks = _Named(Webhooks)
    ask = _Named(Ask)
    synthesis = _Named(Synthesis)
    live_files = _Named(LiveFiles)
    intelligence = _Named(IntelligenceService)
    interchange = _Named(InterchangeService)
    clients = _Named(Clients)
    secrets = _Named(Secrets)
    endpoints = _Named(Endpoints)
    models = _Named(EndpointModels)
    client_bundles = _Named(ClientBundles)
    gateway = _Named(Gateway)
    research_budget = _Named(ResearchBudget)
    chats = _Named(ChatService)
    chat_turns = _Named(ChatTurns)
    responses = _Named(ResponseService)
    database = _Named(Database)
    jobs = _Named(JobEngine)
    git = _Named(GitEngine)
    web = _Named(WebAccess)


Start = starting.Start
__all__ = ["Services", "Start", "background", "build_services", "entities", "first_start", "open_local"]


def build_services(
    settings: Settings,
    database: Database,
    clock: Clock,
    embedder: Embedder | None = None,
    more: Sequence[Feature] = (),
    instead: Mapping[type[Any], object] = {},
) -> Services:
    """Every service on one database, with an embedder of the test's own, and features after the product's.

    `instead` takes the place of what would be built.
    """
    given: dict[type[Any], object] = {Features: Features([*features(), *more]), **instead}
    if embedder is not None:
        given[Embedder] = embedder
    return Services(build_parts(settings, database, clock, given))


async def first_start(services: Services) -> Start:
    """Make the first organization, project, workspace, owner and key."""
    return await starting.first_key(services.parts, await starting.found_organization(services.parts))


def background(services: Services, owner: Ownership | None = None) -> AbstractAsyncContextManager[None]:
    """Run what works beside the requests."""
    return running.background(services.parts, owner)


@asynccontextmanager
async def open_local(settings: Settings) -> AsyncIterator[tuple[Services, Principal]]:
    """The services as whoever runs a command on this machine."""
    async with starting.open_local(settings) as (parts, principal):
        yield Services(parts), principal


def entities(*types: EntityType) -> Entities:
    """Only these types of entity, or every feature's where none is named; nobody follows the end of any."""
    every = [each for feature in features() if feature.entities for each in feature.module("entities").ENTITIES]
    return Entities(lambda: types or every, lambda: (), lambda: ())
