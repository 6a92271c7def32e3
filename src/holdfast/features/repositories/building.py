"""Owns how repositories, their syncing and their reading are built."""

from collections.abc import Mapping

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.engines.events.bus import EventBus
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.web import WebAccess
from holdfast.features.audit.service import Audit
from holdfast.features.repositories.access import RepositoryTokens
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.history.polling import Polling
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.history.sync import CONCURRENCY, RepositorySync
from holdfast.features.repositories.hosts.items import HostItems, OperatorAccess
from holdfast.features.repositories.hosts.webhooks import Webhooks
from holdfast.features.repositories.model import POLL_KIND, SYNC_KIND
from holdfast.features.repositories.service import Repositories
from holdfast.features.secrets.service import Secrets, SecretUses
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities, Named
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


def _urls(settings: Settings) -> Mapping[str, str]:
    return {"github": settings.github_url, "gitlab": settings.gitlab_url}


@build
def repositories(parts: Parts) -> Repositories:
    return Repositories(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[Secrets],
        parts[SearchEngine],
        parts[EventBus],
        parts[JobEngine],
        parts[GitEngine],
        parts[Clock],
        parts[Entities],
        allowed_paths=parts[Settings].repository_paths,
        host_urls=_urls(parts[Settings]),
    )


@build
def access(parts: Parts) -> RepositoryTokens:
    settings = parts[Settings]
    tokens = {"github": settings.github_token, "gitlab": settings.gitlab_token}
    return RepositoryTokens(parts[Database], parts[Secrets], host_urls=_urls(settings), host_tokens=tokens)


@build
def host_items(parts: Parts) -> HostItems:
    settings = parts[Settings]
    hosts = {
        "github": OperatorAccess(settings.github_url, settings.github_token, "HOLDFAST_GITHUB_TOKEN"),
        "gitlab": OperatorAccess(settings.gitlab_url, settings.gitlab_token, "HOLDFAST_GITLAB_TOKEN"),
    }
    return HostItems(parts[Database], parts[Secrets], parts[SearchEngine], parts[Clock], parts[WebAccess].guard, hosts)


@build
def sync(parts: Parts) -> RepositorySync:
    return RepositorySync(
        parts[Database],
        parts[Repositories],
        parts[SearchEngine],
        parts[JobEngine],
        parts[GitEngine],
        parts[RepositoryTokens],
        parts[Clock],
        items=parts[HostItems].sync,
    )


@build
def polling(parts: Parts) -> Polling:
    return Polling(parts[Repositories], parts[Clock], poll_seconds=parts[Settings].repository_poll_seconds)


@build
def live_files(parts: Parts) -> LiveFiles:
    return LiveFiles(parts[Database], parts[Repositories], parts[GitEngine], parts[RepositoryTokens])


@build
def finding(parts: Parts) -> RepositoryFinding:
    return RepositoryFinding(parts[Database], parts[SearchEngine], parts[Repositories], parts[Clock])


@build
def webhooks(parts: Parts) -> Webhooks:
    return Webhooks(parts[Database], parts[Secrets], parts[Repositories], parts[Clock])


def handle_jobs(parts: Parts) -> None:
    """Sync repositories when asked, and look for news of those that nobody tells us about."""
    jobs, syncing, polls = parts[JobEngine], parts[RepositorySync], parts[Polling]
    # One more than a workspace alone gets: a long first sync of one does not keep another's waiting.
    jobs.handle(SYNC_KIND, syncing.run, concurrency=CONCURRENCY + 1, reserved=1, ended=syncing.ended)
    jobs.handle(POLL_KIND, polls.run, concurrency=1, every_seconds=polls.turn_seconds)


def named(parts: Parts) -> Named:
    """What a query names in a workspace's repositories: a symbol, a path, a commit, a number."""
    return parts[RepositoryFinding].named


def secret_uses(parts: Parts) -> SecretUses:
    """Which secrets are sent where: the workspace, the name, the place."""
    return parts[Repositories].secret_uses
