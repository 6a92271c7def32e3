"""Owns the rules of endpoints: who sets them up, which addresses they may have, and where their keys are found."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.credential import Credential, Place
from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.llm.remote.connection import parse_base_url
from holdfast.features.audit.service import Audit
from holdfast.features.endpoints import store
from holdfast.features.endpoints.addresses import AddressRules
from holdfast.features.endpoints.model import (
    DEFAULT,
    MAX_MODEL,
    MAX_UPSTREAMS,
    TOOLS,
    Endpoint,
    EndpointNotFound,
    EndpointUpstream,
    checked_name,
)
from holdfast.features.identity.service import require_management
from holdfast.features.secrets.service import Secrets
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx


class Endpoints:
    """The endpoints of every project. `default` is in each, whether or not anybody set it up."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        secrets: Secrets,
        clock: Clock,
        project_exists: Callable[[Tx, str, str], bool],
        workspace_ids: Callable[[Tx, str, str], Sequence[str]],
        rules: AddressRules,
        events: EventBus,
    ) -> None:
        """`workspace_ids(tx, organization, project)` gives a project's workspaces, the oldest first."""
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._secrets = secrets
        self._clock = clock
        self._project_exists = project_exists
        self._workspace_ids = workspace_ids
        self._rules = rules
        self._events = events
        self._changes = 0

    @property
    def changes(self) -> int:
        """Grows with each change that this process made to an endpoint or a secret."""
        return self._changes + self._secrets.changes

    def _changed(self) -> None:
        self._changes += 1

    async def list(self, principal: Principal, project_id: str) -> Sequence[Endpoint]:
        """The project's endpoints, `default` first."""
        principal.require_any("management", "read", "inference")

        def work(tx: Tx) -> Sequence[Endpoint]:
            self._check_project(tx, principal, project_id)
            found = {each.name: each for each in store.all_in(tx, project_id)}
            default = found.pop(DEFAULT, Endpoint(project_id, DEFAULT))
            return [default, *found.values()]

        return await self._database.read(work)

    async def get(self, principal: Principal, project_id: str, name: str) -> Endpoint:
        """One endpoint."""
        principal.require_any("management", "read", "inference")

        def work(tx: Tx) -> Endpoint:
            self._check_project(tx, principal, project_id)
            return self.find(tx, project_id, name)

        return await self._database.read(work)

    def find(self, tx: Tx, project_id: str, name: str) -> Endpoint:
        """The endpoint of a project that is known to exist."""
        found = store.find(tx, project_id, name)
        if found is None and name == DEFAULT:
            return Endpoint(project_id, DEFAULT)
        if found is None:
            raise EndpointNotFound(name)
        return found

    async def create(
        self,
        principal: Principal,
        project_id: str,
        name: str,
        upstreams: Sequence[EndpointUpstream],
        disabled_tools: frozenset[str] = frozenset(),
    ) -> Endpoint:
        """A new endpoint; Conflict when there is one of this name."""

        def work(tx: Tx) -> Endpoint:
            self._manage(tx, principal, project_id)
            if store.find(tx, project_id, checked_name(name)) is not None:
                raise Conflict(f"There is an endpoint {name!r} already; change that one.")
            return self._put(tx, principal, Endpoint(project_id, name, upstreams, disabled_tools), "create")

        return await self._database.write(work)

    async def put(
        self,
        principal: Principal,
        project_id: str,
        name: str,
        upstreams: Sequence[EndpointUpstream],
        disabled_tools: frozenset[str] = frozenset(),
    ) -> Endpoint:
        """The endpoint as it is to be, whether or not there was one."""

        def work(tx: Tx) -> Endpoint:
            self._manage(tx, principal, project_id)
            old = store.find(tx, project_id, checked_name(name))
            # What the operator allowed stays allowed when somebody else changes the rest.
            private = {each.base_url for each in old.upstreams if each.private} if old else set()
            kept = [replace(each, private=each.base_url in private) for each in upstreams]
            new = Endpoint(project_id, name, kept, disabled_tools, old.created_at if old else 0)
            return self._put(tx, principal, new, "update" if old else "create", old.updated_at if old else 0)

        return await self._database.write(work)

    async def add_upstream(
        self,
        principal: Principal,
        project_id: str,
        name: str,
        spec: EndpointUpstream,
        *,
        alone: bool = False,
        without: frozenset[str] | None = None,
    ) -> Endpoint:
        """One more upstream for an endpoint, made where there is none; the same server and model is replaced.

        `alone` drops the upstreams before; `without` are the tools left out from now on, None those that are already.
        """

        def work(tx: Tx) -> Endpoint:
            self._manage(tx, principal, project_id)
            old = store.find(tx, project_id, checked_name(name))
            base = old or Endpoint(project_id, name)
            known = () if alone else base.upstreams
            kept = [each for each in known if (each.base_url, each.model) != (spec.base_url, spec.model)]
            tools = base.disabled_tools if without is None else without
            new = replace(base, upstreams=(*kept, spec), disabled_tools=tools)
            return self._put(tx, principal, new, "update" if old else "create", old.updated_at if old else 0)

        return await self._database.write(work)

    async def remove(self, principal: Principal, project_id: str, name: str) -> None:
        """Remove an endpoint; `default` goes back to the embedded model."""

        def work(tx: Tx) -> None:
            self._manage(tx, principal, project_id)
            if store.delete(tx, project_id, name):
                self._record(tx, principal, "delete", Endpoint(project_id, name))
            elif name != DEFAULT:
                raise EndpointNotFound(name)

        await self._database.write(work)

    def key(self, tx: Tx, spec: EndpointUpstream) -> Credential | None:
        """The upstream's API key; SecretNotSet when its secret was cleared, SecretKept when it may not go there."""
        if spec.key_secret is None or spec.key_workspace_id is None:
            return None
        return self._secrets.reveal(tx, spec.key_workspace_id, spec.key_secret, _place(spec))

    def secret_uses(self, tx: Tx) -> Iterable[tuple[str, str, Place]]:
        """Which secrets the upstreams of every endpoint have: the workspace, the name, and where they go."""
        for endpoint in store.every(tx):
            for spec in endpoint.upstreams:
                if spec.key_secret is not None and spec.key_workspace_id is not None:
                    yield spec.key_workspace_id, spec.key_secret, _place(spec)

    def key_version(self, tx: Tx, spec: EndpointUpstream) -> object:
        """What changes whenever the upstream's key does."""
        if spec.key_secret is None or spec.key_workspace_id is None:
            return None
        return self._secrets.version(tx, spec.key_workspace_id, spec.key_secret)

    def _put(self, tx: Tx, principal: Principal, wanted: Endpoint, action: str, last_change: int = 0) -> Endpoint:
        if len(wanted.upstreams) > MAX_UPSTREAMS:
            raise _wrong("upstreams", f"name at most {MAX_UPSTREAMS}")
        unknown = sorted(wanted.disabled_tools - TOOLS)
        if unknown:
            raise _wrong("disabled_tools", f"{unknown[0][:80]!r} is none of {', '.join(sorted(TOOLS))}")
        # Whoever remembers an endpoint goes by this moment, so no two changes may share one.
        now = max(self._clock.now(), last_change + 1)
        checked = tuple(self._checked(tx, principal, wanted.project_id, spec) for spec in wanted.upstreams)
        new = replace(wanted, upstreams=checked, created_at=wanted.created_at or now, updated_at=now)
        store.put(tx, new)
        self._record(tx, principal, action, new)
        return new

    def _checked(self, tx: Tx, principal: Principal, project_id: str, spec: EndpointUpstream) -> EndpointUpstream:
        model = spec.model.strip()
        if not model or len(model) > MAX_MODEL or not model.isprintable():
            raise _wrong("model", f"write 1 to {MAX_MODEL} characters")
        # Only the command line on the server's own machine proves an operator; a key may be a tenant's.
        private = self._rules.is_private(spec.base_url, operator=principal.proof == "local" or spec.private)
        workspace_id = self._key_workspace(tx, principal, project_id, spec)
        return replace(spec, model=model, key_workspace_id=workspace_id, private=private)

    def _key_workspace(self, tx: Tx, principal: Principal, project_id: str, spec: EndpointUpstream) -> str | None:
        """The workspace whose secret the upstream gets: the one that it names, or the first that has it."""
        name = spec.key_secret
        if name is None:
            return None
        if spec.key_workspace_id is not None:
            workspace = self._workspaces.check(tx, principal, spec.key_workspace_id)
            candidates: Sequence[str] = [workspace.id] if workspace.project_id == project_id else []
        else:
            seen = self._workspace_ids(tx, principal.organization_id, project_id)
            candidates = [id for id in seen if principal.sees_workspace(id)]
        having = [id for id in candidates if self._secrets.is_set(tx, id, name)]
        if not having:
            raise _wrong("key_secret", f"no secret {name[:80]!r} is set here; set it with `holdfast secrets set`")
        self._secrets.use(tx, principal, having[0], name, [_place(spec)], field="key_secret")
        return having[0]

    def _manage(self, tx: Tx, principal: Principal, project_id: str) -> None:
        require_management(principal)
        self._check_project(tx, principal, project_id)

    def _check_project(self, tx: Tx, principal: Principal, project_id: str) -> None:
        seen = principal.sees_project(project_id)
        if not seen or not self._project_exists(tx, principal.organization_id, project_id):
            raise NotFound("project", project_id[:80])

    def _record(self, tx: Tx, principal: Principal, action: str, endpoint: Endpoint) -> None:
        upstreams = [{"base_url": spec.base_url, "model": spec.model} for spec in endpoint.upstreams]
        tx.after_commit(self._changed)
        self._events.publish(tx, "endpoint.changed", organization_id=principal.organization_id)
        self._audit.record(
            tx,
            principal,
            f"endpoint.{action}",
            resource="endpoint",
            resource_id=f"{endpoint.project_id}/{endpoint.name}"[:200],
            detail={"name": endpoint.name, "upstreams": upstreams},
        )


def _place(spec: EndpointUpstream) -> Place:
    return parse_base_url(spec.base_url)[0].place


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid("The endpoint cannot be set up so.", fields=[FieldError(field, problem)])
