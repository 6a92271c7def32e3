"""Owns how the Zero mount is put together, and what it is told of."""

from collections.abc import AsyncIterator

from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Gateway
from holdfast.engines.events.bus import EventBus
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.resources import zero_resources
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.tools import case_uri, proofs_uri
from holdfast.features.clients.service import Clients
from holdfast.features.identity.service import Identity
from holdfast.features.usage.limiter import Limiter
from holdfast.features.workspaces import store as workspace_store
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.methods import Methods
from holdfast.registry.prompts import Prompts
from holdfast.registry.resources import Resources
from holdfast.storage.database import Database
from holdfast.surfaces.http.admission import LimitedCallers
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.mcp.surface import McpSettings, McpSurface
from holdfast.surfaces.mcp.transport.live import LIST_CHANGES, WorkspaceChange
from holdfast.surfaces.mcp.zero import ZERO, ZeroAdmission, ZeroSurface

_ADDED = ("case.add", "case.import")


def build_zero(
    settings: Settings, parts: Parts, authenticator: Authenticator, *, recheck_seconds: float = 5.0
) -> ZeroSurface:
    """The endpoint for agents that work on cases."""
    origins = (*settings.allowed_origins, *([settings.public_url] if settings.public_url else []))
    gate = LimitedCallers(authenticator, parts[Limiter], settings.mcp_calls_per_minute, "mcp", bucket="zero")
    admission = ZeroAdmission(gate, parts[Workspaces], origins)
    resources = Resources(
        lambda: zero_resources(parts[CaseService], parts[CaseReading], parts[ProofService]), everywhere=True
    )
    mcp = McpSurface(
        gate=gate,
        workspaces=parts[Workspaces],
        project_exists=parts[Identity].project_exists,
        gateway=parts[Gateway],
        prompts=Prompts(list),
        resources=resources,
        methods=Methods(list),
        clients=parts[Clients],
        changes=lambda: changes(parts),
        settings=McpSettings(
            enabled=settings.mcp_enabled,
            allowed_origins=origins,
            recheck_seconds=recheck_seconds,
            with_tracing=settings.otlp_endpoint is not None,
        ),
        admission=admission,
        mount=ZERO,
    )
    return ZeroSurface(mcp, admission, parts[Gateway], resources)


async def changes(parts: Parts) -> AsyncIterator[WorkspaceChange]:
    """What the event bus tells of cases, as the resources that it concerns."""
    database = parts[Database]
    async with parts[EventBus].subscribe(["case.*"], capacity=4096) as events:
        async for event in events:
            place, case_id = event.workspace_id, event.payload.get("id")
            if place is None:
                continue
            found = await database.glance(lambda tx, id=place: workspace_store.by_id(tx, id))  # type: ignore[misc]
            if found is not None:
                lists = (LIST_CHANGES["resources"],) if event.topic in _ADDED else ()
                # An import names no case of its own.
                uris = (case_uri(case_id), proofs_uri(case_id)) if isinstance(case_id, str) else ()
                yield WorkspaceChange(place, uris, lists, found.project_id, found.organization_id)
