"""Owns how engines are built. Each is imported only when something asks for it: most commands need few."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.clock import Clock
from holdfast.core.parts import Build, Parts
from holdfast.core.settings import Settings
from holdfast.server.features import Features
from holdfast.storage.database import Database

if TYPE_CHECKING:
    from holdfast.engines.events.bus import EventBus
    from holdfast.engines.git.engine import GitEngine
    from holdfast.engines.jobs.engine import JobEngine
    from holdfast.engines.llm.loop import Loop
    from holdfast.engines.master_key import KeyRing
    from holdfast.engines.runners.base import Runners
    from holdfast.engines.runners.installing import InstalledAgents
    from holdfast.engines.runtime.base import Runtime
    from holdfast.engines.runtime.kubernetes.kept import KeptSecrets
    from holdfast.engines.search.embedders.base import Embedder
    from holdfast.engines.search.engine import SearchEngine
    from holdfast.engines.web import WebAccess

Step = Callable[[], Awaitable[None]]
CLOSES = ("WebAccess", "GitEngine", "ProcessRuntime", "KubernetesRuntime", "KeptSecrets")
"""Those that hold connections or processes."""


def builder(kind: type[Any]) -> Build | None:
    """How an engine is built; None for what is no engine."""
    return _BUILDERS.get(kind.__name__)


def background(parts: Parts) -> Iterator[tuple[str, Step, Step, bool]]:
    """Those that work beside the requests: name, run, stop, whether one process does it for all."""
    from holdfast.engines.events.bus import EventBus
    from holdfast.engines.jobs.engine import JobEngine
    from holdfast.engines.search.engine import SearchEngine

    events, search, jobs = parts[EventBus], parts[SearchEngine], parts[JobEngine]
    yield "events", events.run, events.stop, False
    yield "search", search.run, search.stop, True
    yield "jobs", jobs.run, jobs.stop, True
    if parts[Settings].runtime == "kubernetes":
        from holdfast.engines.runtime.base import Runtime
        from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime

        runtime = parts[Runtime]
        if isinstance(runtime, KubernetesRuntime):
            yield "runtime", runtime.run, runtime.stop, True


def beside_requests(settings: Settings, shared: Path | None = None) -> dict[type[Any], object]:
    """What a server has in a process of its own, where a command has it in its only one; `shared` by workers."""
    from holdfast.engines.search.embedders.base import Embedder
    from holdfast.engines.search.embedders.process import EmbeddingProcess

    return {Embedder: EmbeddingProcess(shared)} if settings.embedder == "embedded" else {}


def _events(parts: Parts) -> "EventBus":
    from holdfast.engines.events.bus import EventBus

    return EventBus(parts[Database], parts[Clock], watching=parts[Settings].workers > 1)


def _jobs(parts: Parts) -> "JobEngine":
    from holdfast.engines.events.bus import EventBus
    from holdfast.engines.jobs.engine import JobEngine

    hears = parts[Settings].workers > 1
    return JobEngine(parts[Database], parts[EventBus], handlers=lambda: handle_jobs(parts), hears=hears)


def handle_jobs(parts: Parts) -> None:
    """Give every kind of background job its handler."""
    for feature in parts[Features]:
        if feature.jobs:
            feature.module("building").handle_jobs(parts)


def _search(parts: Parts) -> "SearchEngine":
    from holdfast.engines.search.embedders.base import Embedder
    from holdfast.engines.search.embedders.process import EmbeddingProcess
    from holdfast.engines.search.engine import SearchEngine
    from holdfast.engines.search.keeper import IDLE_SECONDS, SHARED_IDLE_SECONDS

    embedder = parts[Embedder]
    backlog = embedder.backlog if isinstance(embedder, EmbeddingProcess) else None
    # What another worker saved is noticed by looking.
    idle_seconds = SHARED_IDLE_SECONDS if parts[Settings].workers > 1 else IDLE_SECONDS
    return SearchEngine(parts[Database], embedder, parts[Clock], backlog=backlog, idle_seconds=idle_seconds)


def _embedder(parts: Parts) -> "Embedder":
    """The configured embedder; the embedded one loads its model at the first text."""
    settings = parts[Settings]
    if settings.embedder == "upstream" and settings.embeddings_url and settings.embeddings_model:
        from holdfast.engines.search.embedders.upstream import UpstreamEmbedder

        return UpstreamEmbedder(
            settings.embeddings_url,
            settings.embeddings_model,
            settings.embeddings_dimensions,
            api_key=settings.embeddings_key,
        )
    from holdfast.engines.search.embedders.minilm import MiniLmEmbedder

    return MiniLmEmbedder()


def _key_ring(parts: Parts) -> "KeyRing":
    from holdfast.engines.master_key import KeyRing

    return KeyRing(parts[Settings].data_dir, parts[Settings].secrets_master_key)


def _kept_secrets(parts: Parts) -> "KeptSecrets":
    from holdfast.engines.runtime.kubernetes.kept import kept_secrets

    return kept_secrets(parts[Settings])


def _web(parts: Parts) -> "WebAccess":
    from holdfast.engines.web import web_access

    settings = parts[Settings]
    return web_access(
        search_backend=settings.web_search,
        search_url=settings.web_search_url,
        search_key=settings.web_search_key,
        allow_private=settings.fetch_allow,
        github_url=settings.github_url,
        github_token=settings.github_token,
        gitlab_url=settings.gitlab_url,
        gitlab_token=settings.gitlab_token,
    )


def _git(parts: Parts) -> "GitEngine":
    from holdfast.engines.git.engine import GitEngine
    from holdfast.engines.git.transport.tunnel import Rules

    settings = parts[Settings]
    return GitEngine(settings.data_dir.expanduser() / "repositories", Rules(settings.fetch_allow))


def _runtime(parts: Parts) -> "Runtime":
    from holdfast.engines.runtime.chosen import runtime_of

    return runtime_of(parts[Settings])


def _installed_agents(parts: Parts) -> "InstalledAgents":
    from holdfast.engines.runners.installing import InstalledAgents

    return InstalledAgents(parts[Settings].data_dir.expanduser() / "agents")


def _runners(parts: Parts) -> "Runners":
    from holdfast.engines.runners.installing import InstalledAgents
    from holdfast.engines.runners.known import KnownRunners

    return KnownRunners(parts[InstalledAgents])


def _loop(parts: Parts) -> "Loop":
    from holdfast.engines.llm.loop import Loop

    return Loop()


_BUILDERS: dict[str, Build] = {
    "EventBus": _events,
    "JobEngine": _jobs,
    "SearchEngine": _search,
    "Embedder": _embedder,
    "KeyRing": _key_ring,
    "KeptSecrets": _kept_secrets,
    "WebAccess": _web,
    "GitEngine": _git,
    "Runtime": _runtime,
    "InstalledAgents": _installed_agents,
    "Runners": _runners,
    "Loop": _loop,
}
