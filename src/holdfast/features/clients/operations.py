"""Owns `/api/clients`: which MCP clients connected here and what they can do, beside what their makers document."""

from typing import Any

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.model import Answer, Time
from holdfast.core.operations import Operations
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.clients.documented import DOCUMENTED
from holdfast.features.clients.service import Clients

_ASKABLE = ("sampling", "elicitation", "roots")
# Names of client programs, which are kept for the organization as a whole and tell nothing of its work.
_READ = Access("project", SCOPES)

api = Operations("clients")


class SeenClientAnswer(Answer):
    name: str = Field(description="What the client calls itself")
    version: str
    title: str
    protocol_version: str
    sampling: bool
    elicitation: bool
    roots: bool
    capabilities: dict[str, Any] = Field(description="All that it declared when it connected")
    first_seen_at: Time
    last_seen_at: Time


class DocumentedClientAnswer(Answer):
    client: str
    title: str
    names: list[str]
    tools: str
    prompts: str
    resources: str
    sampling: str
    elicitation: str
    roots: str


class ClientsAnswer(Answer):
    seen: list[SeenClientAnswer]
    documented: list[DocumentedClientAnswer]


@api.get("/api/clients", _READ, "What MCP clients declared here, beside what is documented of them")
async def matrix(clients: Clients, principal: Principal) -> ClientsAnswer:
    seen = [
        SeenClientAnswer.of(each, **{ability: ability in each.capabilities for ability in _ASKABLE})
        for each in await clients.list(principal)
    ]
    return ClientsAnswer(seen=seen, documented=[DocumentedClientAnswer.of(each) for each in DOCUMENTED])
