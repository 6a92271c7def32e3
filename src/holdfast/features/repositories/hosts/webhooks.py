"""Owns webhooks: who may say that a repository changed, that saying it twice has one effect, and what the effect is."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs

import orjson

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.engines.git.transport.address import parse_location
from holdfast.features.repositories import store
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.model import Host, Repository
from holdfast.features.repositories.service import Repositories
from holdfast.features.secrets.model import SecretNotSet
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database, Tx

PATH = "/api/webhooks/"
"""Where hosts send them, followed by the repository's id."""
MAX_BODY = 5_000_000
"""Bytes; what is larger comes with the next poll."""
KEEP_DELIVERIES_MILLIS = 7 * 86_400_000
_GITHUB_EVENTS = frozenset(
    {
        "push",
        "create",
        "delete",
        "pull_request",
        "pull_request_review",
        "pull_request_review_comment",
        "issues",
        "issue_comment",
        "release",
        "discussion",
        "discussion_comment",
    }
)
_GITLAB_EVENTS = frozenset(
    {"push hook", "tag push hook", "merge request hook", "issue hook", "note hook", "release hook"}
)

Outcome = Literal["queued", "repeated", "ignored", "pong"]


class WebhookRefused(NotFound):
    """No such repository, no secret, or a wrong signature: one answer, so that nothing can be learned from it."""

    def __init__(self) -> None:
        super().__init__("webhook", "")
        self.message = "No webhook here takes this delivery; check its address and its secret."


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a delivery; `job_id` of the sync that it asked for."""

    outcome: Outcome
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Delivery:
    """A delivery as its headers describe it. `ids` are the names under which it is remembered."""

    event: str
    asks_for_sync: bool
    ids: tuple[str, ...]


class Webhooks:
    """Takes deliveries from GitHub and GitLab. All that is believed of one is that something changed."""

    def __init__(self, database: Database, secrets: Secrets, repositories: Repositories, clock: Clock) -> None:
        self._database = database
        self._secrets = secrets
        self._repositories = repositories
        self._clock = clock

    async def expects(self, repository_id: str) -> bool:
        """Whether a repository of that id takes deliveries at all."""
        return await self._database.read(lambda tx: self._find(tx, repository_id)) is not None

    async def receive(self, repository_id: str, headers: Mapping[str, str], body: bytes) -> Receipt:
        """Check a delivery, header names in any case, and queue a sync unless it was here before."""
        named = {name.lower(): value for name, value in headers.items()}
        found = await self._database.read(lambda tx: self._find(tx, repository_id))
        # The work is the same for a repository that does not exist.
        repository, secret = found if found is not None else (None, "no secret is like this")
        style = _style(repository.host if repository is not None else "", named)
        genuine = _is_genuine(style, secret, named, body)
        if repository is None or not genuine:
            raise WebhookRefused
        delivery = _github(named, body) if style == "github" else _gitlab(named, body)
        if delivery.event == "ping":
            return Receipt("pong")
        if not delivery.asks_for_sync:
            return Receipt("ignored")
        _check_name(repository, _payload(body))
        return await self._database.write(lambda tx: self._take(tx, repository, delivery))

    def _find(self, tx: Tx, repository_id: str) -> tuple[Repository, str] | None:
        repository = store.by_id(tx, repository_id)
        if repository is None or repository.webhook_secret is None:
            return None
        try:
            return repository, self._secrets.value_to_compare(tx, repository.workspace_id, repository.webhook_secret)
        except SecretNotSet:
            return None

    def _take(self, tx: Tx, repository: Repository, delivery: _Delivery) -> Receipt:
        held = store.hold(tx, repository.id)
        if held is None:
            raise WebhookRefused
        now = self._clock.now()
        fresh = [item_store.take_delivery(tx, held.id, name, now) for name in delivery.ids]
        if not all(fresh):
            return Receipt("repeated")
        return Receipt("queued", self._repositories.enqueue_sync(tx, held, "webhook"))


def _style(host: Host, headers: Mapping[str, str]) -> Host:
    """Whose way of proof a delivery uses; other servers, such as Gitea, use GitHub's."""
    return host or ("github" if "x-hub-signature-256" in headers else "gitlab")


def _is_genuine(style: Host, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the sender knows the secret: GitHub signs the body with it, GitLab shows it."""
    signed = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if style == "github":
        return _equal(headers.get("x-hub-signature-256", ""), signed)
    return _equal(headers.get("x-gitlab-token", ""), secret)


def _equal(given: str, right: str) -> bool:
    # Header values were bytes; Latin-1 gives those back, and UTF-8 takes a test's plain text.
    try:
        raw = given.encode("latin-1")
    except UnicodeEncodeError:
        raw = given.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(raw, right.encode())


def _github(headers: Mapping[str, str], body: bytes) -> _Delivery:
    event = headers.get("x-github-event", "").strip().lower()
    named = _id(headers.get("x-github-delivery"))
    # The signature does not cover the delivery's id: a body that was signed once counts once.
    ids = (_digest(body),) if named is None else (named, _digest(body))
    return _Delivery(event, event in _GITHUB_EVENTS, ids)


def _gitlab(headers: Mapping[str, str], body: bytes) -> _Delivery:
    event = headers.get("x-gitlab-event", "").strip().lower()
    # A retry repeats the key; the event's id may be shared by others that it set off.
    key, uuid = _id(headers.get("idempotency-key")), _id(headers.get("x-gitlab-event-uuid"))
    name = key if key is not None else f"{uuid or 'no id'} {_digest(body)}"
    return _Delivery(event, event in _GITLAB_EVENTS, (name,))


def _digest(body: bytes) -> str:
    return f"body {hashlib.sha256(body).hexdigest()}"


def _id(text: str | None) -> str | None:
    tidy = (text or "").strip()
    return f"id {tidy}" if 1 <= len(tidy) <= 200 and tidy.isascii() and tidy.isprintable() else None


def _payload(body: bytes) -> dict[str, Any]:
    """The JSON of a delivery, as such or in a form."""
    text = body
    if body.startswith(b"payload="):
        try:
            text = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=4)["payload"][0].encode()
        except (ValueError, KeyError):
            text = b""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise _wrong("the body is no JSON object; set the content type of the webhook to application/json")
    return found


def _check_name(repository: Repository, payload: Mapping[str, Any]) -> None:
    """A secret that several repositories share must not let one speak for another."""
    for part, name in (("repository", "full_name"), ("project", "path_with_namespace")):
        about = payload.get(part)
        if isinstance(about, dict) and isinstance(about.get(name), str):
            if about[name].lower() == _full_name(repository).lower():
                return
            raise _wrong(f"this webhook is for {_full_name(repository)}, not for {about[name][:200]!r}")
    raise _wrong("it names no repository")


def _full_name(repository: Repository) -> str:
    if repository.full_name:
        return repository.full_name
    return parse_location(repository.location).path.strip("/").removesuffix(".git")


def _wrong(problem: str) -> Invalid:
    return Invalid("The delivery is not right.", fields=[FieldError("payload", problem)])
