"""Owns `/api/clients`: which MCP clients connected here and what they can do, beside what their makers document."""

from typing import Any

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.clock import iso
from holdfast.core.model import Model
from holdfast.core.operations import Call, Operation
from holdfast.core.principal import SCOPES
from holdfast.features.clients.documented import DOCUMENTED, DocumentedClient
from holdfast.features.clients.model import ClientSeen
from holdfast.features.clients.service import Clients


class SeenClientView(Model):
    name: str = Field(description="What the client calls itself")
    version: str
    title: str
    protocol_version: str
    sampling: bool
    elicitation: bool
    roots: bool
    capabilities: dict[str, Any] = Field(description="All that it declared when it connected")
    first_seen_at: str
    last_seen_at: str


class DocumentedClientView(Model):
    client: str
    title: str
    names: list[str]
    tools: str
    prompts: str
    resources: str
    sampling: str
    elicitation: str
    roots: str


class ClientsView(Model):
    seen: list[SeenClientView]
    documented: list[DocumentedClientView]


def operations(clients: Clients) -> list[Operation]:
    """The operations on clients."""

    async def matrix(call: Call) -> ClientsView:
        seen = await clients.list(call.principal)
        return ClientsView(
            seen=[seen_view(each) for each in seen], documented=[documented_view(each) for each in DOCUMENTED]
        )

    return [
        Operation(
            method="GET",
            path="/api/clients",
            handler=matrix,
            summary="What MCP clients declared here, beside what is documented of them",
            tag="clients",
            # Names of client programs, which are kept for the organization as a whole and tell nothing of its work.
            access=Access("project", SCOPES),
            answer=ClientsView,
        )
    ]


def seen_view(client: ClientSeen) -> SeenClientView:
    """A client that connected, as the wire has it."""
    return SeenClientView(
        name=client.name,
        version=client.version,
        title=client.title,
        protocol_version=client.protocol_version,
        sampling="sampling" in client.capabilities,
        elicitation="elicitation" in client.capabilities,
        roots="roots" in client.capabilities,
        capabilities=dict(client.capabilities),
        first_seen_at=iso(client.first_seen_at),
        last_seen_at=iso(client.last_seen_at),
    )


def documented_view(client: DocumentedClient) -> DocumentedClientView:
    """A documented client, as the wire has it."""
    return DocumentedClientView(
        client=client.client,
        title=client.title,
        names=list(client.names),
        tools=client.tools,
        prompts=client.prompts,
        resources=client.resources,
        sampling=client.sampling,
        elicitation=client.elicitation,
        roots=client.roots,
    )
