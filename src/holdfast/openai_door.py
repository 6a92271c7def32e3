"""Owns how the OpenAI-compatible endpoint is put together: its paths, its models, and what they know."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from pydantic import BaseModel
from starlette.types import Scope

from holdfast.core.access import READ, RUN, WRITE
from holdfast.core.errors import Invalid, Unauthenticated
from holdfast.core.operations import Operation
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.llm.extractive.embedded import Extractive, Knowledge
from holdfast.engines.llm.extractive.extracts import Passage
from holdfast.engines.llm.model import Json, LoopEvent, Model, Tally
from holdfast.engines.llm.remote.roles import DeveloperRole
from holdfast.engines.search.model import Hit, Query
from holdfast.features.chat.model import Served
from holdfast.features.chat.service import TYPE as CHAT
from holdfast.features.deep_think.service import REPORT_PREFIX
from holdfast.features.documents import vector_store_operations as vector_stores
from holdfast.features.endpoints.models import Connected
from holdfast.features.identity import store as identity_store
from holdfast.features.responses.model import Asked
from holdfast.services import Services
from holdfast.surfaces.http.admission import LimitedGate, ProjectDoor
from holdfast.surfaces.http.asgi import send_bytes
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.http.operations import HttpCall, body_of, query_of, render
from holdfast.surfaces.openai.chat import ChatCompletions
from holdfast.surfaces.openai.embeddings import Embeddings
from holdfast.surfaces.openai.files import Files, WorkspaceOf
from holdfast.surfaces.openai.models import get_model, list_models
from holdfast.surfaces.openai.passthrough import Passthrough
from holdfast.surfaces.openai.request import OpenAiRequest
from holdfast.surfaces.openai.responses import Responses
from holdfast.surfaces.openai.surface import Handler, OpenAiSurface, Route

PASSAGES = 8
EMBEDDED_EMBEDDER = "all-MiniLM-L6-v2"
# The embedded model asks for these by plain rules; a request need not opt in to them.
EMBEDDED_TOOLS = ("calculator", "fetch_url")


def build_openai(settings: Settings, services: Services, authenticator: Authenticator) -> OpenAiSurface:
    """The endpoint for chat clients."""

    async def project_exists(principal: Principal, project_id: str) -> bool:
        return await services.database.glance(
            lambda tx: identity_store.project_exists(tx, principal.organization_id, project_id)
        )

    gate = LimitedGate(authenticator, services.limiter, settings.chat_requests_per_minute, "chat")
    return OpenAiSurface(
        ProjectDoor(gate, services.workspaces, project_exists, "chat"),
        services.models,
        routes(services, settings.embeddings_model or EMBEDDED_EMBEDDER),
        max_body_bytes=settings.max_chat_bytes,
    )


def routes(services: Services, embeddings_model: str) -> Sequence[Route]:
    """Every path under `/{project_id}/{endpoint}/v1`."""
    passthrough = Passthrough(services.usage)
    turns = EndpointTurns(services)
    chat = ChatCompletions(passthrough, turns)
    responses = Responses(services.responses, turns)
    files = Files(services.documents, turns.workspace_of)
    embeddings = Embeddings(passthrough, services.search.embed, embeddings_model)
    return [
        Route("GET", "/models", list_models, READ),
        Route("GET", "/models/{model}", get_model, READ),
        Route("POST", "/chat/completions", chat.create, RUN),
        Route("POST", "/embeddings", embeddings.create, RUN),
        Route("POST", "/responses", responses.create, RUN),
        Route("GET", "/responses/{response_id}", responses.get, READ),
        Route("GET", "/responses/{response_id}/input_items", responses.input_items, READ),
        Route("POST", "/responses/{response_id}/cancel", responses.cancel, WRITE),
        Route("DELETE", "/responses/{response_id}", responses.delete, WRITE),
        Route("POST", "/files", files.create, WRITE),
        Route("GET", "/files", files.list, READ),
        Route("GET", "/files/{file_id}", files.get, READ),
        Route("GET", "/files/{file_id}/content", files.content, READ),
        Route("DELETE", "/files/{file_id}", files.delete, WRITE),
        *_in_workspace(vector_stores.api.bind(services), turns.workspace_of),
    ]


class EndpointTurns:
    """Turns with the model behind an endpoint: its upstreams, or the embedded one over the workspace's knowledge."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def turn(
        self,
        principal: Principal,
        project_id: str,
        workspace_id: str | None,
        endpoint: Connected,
        body: Json,
        chat_id: str | None,
    ) -> AsyncGenerator[LoopEvent, None]:
        """The events of one turn."""
        workspace_id = workspace_id or await self._workspace(principal, project_id)
        served = self.served(endpoint, workspace_id, chat_id)
        if endpoint.upstreams is None and body.get("web_search_options") is None:
            body = {**body, "web_search_options": {"x_tools": list(EMBEDDED_TOOLS)}}
        turn = self._services.chat_turns.turn(principal, project_id, workspace_id, served, body, chat_id)
        async with aclosing(turn) as events:
            async for event in events:
                yield event

    async def answering(self, principal: Principal, asked: Asked, body: Json) -> AsyncGenerator[LoopEvent, None]:
        """The events of a turn that nobody waits for."""
        connected = await self._services.models.connect(asked.project_id, asked.endpoint)
        turn = self.turn(principal, asked.project_id, asked.workspace_id, connected, body, asked.chat_id)
        async with aclosing(turn) as events:
            async for event in events:
                yield event

    async def workspace_of(self, request: OpenAiRequest) -> str:
        """The workspace of a request: the one that it names, or the project's first."""
        return request.workspace_id or await self._workspace(request.principal, request.project_id)

    def served(self, connected: Connected, workspace_id: str, chat_id: str | None = None) -> Served:
        """What a turn needs to know of an endpoint."""
        endpoint = connected.endpoint
        model: Model = (
            DeveloperRole(connected.upstreams)
            if connected.upstreams is not None
            else Extractive(self._knowledge(workspace_id, chat_id))
        )

        def cost(tally: Tally) -> float:
            return endpoint.cost(model.name, tally.input_tokens, tally.output_tokens)

        return Served(endpoint.name, model, endpoint.disabled_tools, cost)

    async def _workspace(self, principal: Principal, project_id: str) -> str:
        page = await self._services.workspaces.list(principal, project_id=project_id, limit=1)
        if not page.items:
            raise Invalid("The project has no workspace that this credential sees; make one first.")
        return page.items[0].id

    def _knowledge(self, workspace_id: str, chat_id: str | None) -> Knowledge:
        async def about(question: str) -> Sequence[Passage]:
            # More than needed: its own words, in this chat or in an earlier report, are no source for its answers.
            hits = await self._services.search.search(Query(workspace_id, question, limit=2 * PASSAGES))
            others = [hit for hit in hits if not _is_own_word(hit, chat_id)][:PASSAGES]
            return [Passage(hit.title, hit.text or hit.snippet, _where(hit)) for hit in others]

        return about


def _in_workspace(operations: Sequence[Operation], workspace_of: WorkspaceOf) -> list[Route]:
    """Operations of the management API that OpenAI's clients know too, in the workspace of the request."""
    return [
        Route(
            operation.method,
            operation.path.removeprefix("/api/workspaces/{workspace_id}"),
            _carried(operation, workspace_of),
            operation.access,
        )
        for operation in operations
    ]


def _carried(operation: Operation, workspace_of: WorkspaceOf) -> Handler:
    async def carry_out(request: OpenAiRequest) -> None:
        raw = await request.read()
        path = {**request.path, "workspace_id": await workspace_of(request)}
        body, query = body_of(operation, raw), query_of(operation, request.scope)
        call = HttpCall(request.principal, path, query, body, "", request.scope, request.receive, _not_again)
        answer = await operation.handler(call)
        assert isinstance(answer, BaseModel)
        await send_bytes(request.send, operation.status, render(answer), headers=request.headers)

    return carry_out


async def _not_again(scope: Scope) -> Principal:
    """These operations answer at once: nothing goes on for which somebody would have to prove themselves twice."""
    raise Unauthenticated


def _is_own_word(hit: Hit, chat_id: str | None) -> bool:
    if hit.type == "artifact":
        return str(hit.meta.get("identifier", "")).startswith(REPORT_PREFIX)
    return chat_id is not None and hit.type == CHAT and hit.meta.get("chat_id") == chat_id


def _where(hit: Hit) -> str:
    """Where a person finds what was quoted."""
    return str(hit.meta.get("url") or f"{hit.type} {hit.meta.get('slug') or hit.id}")
