"""Owns the way from an endpoint's name to the model behind it, and keeps what is connected while nothing changes."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.credential import Credential
from holdfast.engines.llm.remote.connection import Timeouts, UpstreamConnections
from holdfast.engines.llm.remote.upstream import Upstream, UpstreamSpec
from holdfast.engines.llm.remote.upstreams import Upstreams
from holdfast.features.endpoints import store
from holdfast.features.endpoints.addresses import not_loopback_because, refused_because
from holdfast.features.endpoints.model import DEFAULT, EMBEDDED_MODEL, Endpoint, EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.storage.database import Database, Tx

MAX_REMEMBERED = 4096
# A look at the store for every request would cost a tenth of a relayed answer.
TRUSTED_SECONDS = 0.05

_Version = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Connected:
    """An endpoint and its upstreams; None where the embedded model answers."""

    endpoint: Endpoint
    upstreams: Upstreams | None

    @property
    def model_name(self) -> str:
        """The model that is asked first."""
        return EMBEDDED_MODEL if self.upstreams is None else self.upstreams.name


@dataclass(slots=True)
class _Known:
    """What is remembered of an endpoint, and when it was last held against the store."""

    version: _Version
    connected: Connected
    checked_at: float
    changes: int

    def is_fresh(self, changes: int) -> bool:
        """Whether it was held against the store a moment ago, and this process changed nothing since."""
        return self.changes == changes and time.monotonic() - self.checked_at < TRUSTED_SECONDS


class EndpointModels:
    """One for the process: connections and what is known of each upstream's health outlive a request."""

    def __init__(self, database: Database, endpoints: Endpoints) -> None:
        self._database = database
        self._endpoints = endpoints
        self._private = UpstreamConnections(lambda address: refused_because(address, private=True))
        self._public = UpstreamConnections(lambda address: refused_because(address, private=False))
        self._here = UpstreamConnections(not_loopback_because)
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    async def connect(self, project_id: str, name: str) -> Connected:
        """The endpoint of a project that the caller may use; a change shows at once, another process's in a moment."""
        known = self._known.get((project_id, name))
        if known is not None and known.is_fresh(self._endpoints.changes):
            return known.connected
        return await self._database.glance(lambda tx: self._connect(tx, project_id, name))

    async def close(self) -> None:
        """Hang up everywhere."""
        await self._private.aclose()
        await self._public.aclose()
        await self._here.aclose()

    def _connect(self, tx: Tx, project_id: str, name: str) -> Connected:
        key = (project_id, name)
        now, changes = time.monotonic(), self._endpoints.changes
        known = self._known.get(key)
        if known is not None:
            if known.version == self._version(tx, known.connected.endpoint):
                known.checked_at, known.changes = now, changes
                return known.connected
            self._known.pop(key, None)
        endpoint = self._endpoints.find(tx, project_id, name)
        made = Connected(endpoint, self._upstreams(tx, endpoint.upstreams) if endpoint.upstreams else None)
        self._known[key] = _Known(self._version(tx, endpoint), made, now, changes)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return made

    def _version(self, tx: Tx, endpoint: Endpoint) -> _Version:
        moment = store.changed_at(tx, endpoint.project_id, endpoint.name)
        if moment is None and endpoint.name != DEFAULT:
            return ()
        return (moment, *(self._endpoints.key_version(tx, each) for each in endpoint.upstreams))

    def _upstreams(self, tx: Tx, wanted: Sequence[EndpointUpstream]) -> Upstreams:
        return Upstreams([self._upstream(each, self._endpoints.key(tx, each)) for each in wanted])

    def _upstream(self, wanted: EndpointUpstream, key: Credential | None) -> Upstream:
        spec = UpstreamSpec(
            base_url=wanted.base_url,
            model=wanted.model,
            kind=wanted.kind,
            key=key,
            priority=wanted.priority,
            timeouts=Timeouts(first_byte_seconds=wanted.timeout_seconds),
        )
        return Upstream(spec, self._connections(wanted, key))

    def _connections(self, wanted: EndpointUpstream, key: Credential | None) -> UpstreamConnections:
        if key is not None and not key.place.tls:
            # In clear a key goes to this machine alone, wherever its name leads by now.
            return self._here
        return self._private if wanted.private else self._public
