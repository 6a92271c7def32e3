"""Owns how the OpenAI-compatible endpoint is put together: its paths, its models, and what they know."""

from collections.abc import Sequence

from holdfast.core.access import READ, RUN, WRITE
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores import batch_operations as file_batches
from holdfast.features.documents.vector_stores import operations as vector_stores
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.identity.service import Identity
from holdfast.features.responses.conversations.service import ConversationService
from holdfast.features.responses.service import ResponseService
from holdfast.features.turns.service import EndpointTurns
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces.service import Workspaces
from holdfast.surfaces.http.admission import LimitedCallers, ProjectAdmission
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.openai.chat import ChatCompletions
from holdfast.surfaces.openai.conversations import Conversations
from holdfast.surfaces.openai.embeddings import Embeddings
from holdfast.surfaces.openai.files import Files, WorkspaceOf
from holdfast.surfaces.openai.models import get_model, list_models
from holdfast.surfaces.openai.operations import in_workspace
from holdfast.surfaces.openai.passthrough import Passthrough
from holdfast.surfaces.openai.request import OpenAiRequest
from holdfast.surfaces.openai.responses import Responses
from holdfast.surfaces.openai.surface import OpenAiSurface, Route

EMBEDDED_EMBEDDER = "all-MiniLM-L6-v2"


def build_openai(settings: Settings, parts: Parts, authenticator: Authenticator) -> OpenAiSurface:
    """The endpoint for chat clients."""
    gate = LimitedCallers(authenticator, parts[Limiter], settings.chat_requests_per_minute, "chat")
    return OpenAiSurface(
        ProjectAdmission(gate, parts[Workspaces], parts[Identity].project_exists, "chat"),
        parts[EndpointModels],
        routes(parts, settings.embeddings_model or EMBEDDED_EMBEDDER),
        settings.max_chat_bytes,
    )


def routes(parts: Parts, embeddings_model: str) -> Sequence[Route]:
    """Every path under `/{project_id}/{endpoint}/v1`."""
    passthrough = Passthrough(parts[Usage])
    turns = parts[EndpointTurns]
    chat = ChatCompletions(passthrough, turns)
    responses = Responses(parts[ResponseService], turns)
    conversations = Conversations(parts[ConversationService], workspace_of(turns))
    files = Files(parts[DocumentService], workspace_of(turns))
    embeddings = Embeddings(passthrough, parts[SearchEngine].embed, embeddings_model)
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
        Route("POST", "/conversations", conversations.create, WRITE),
        Route("GET", "/conversations/{conversation_id}", conversations.get, READ),
        Route("POST", "/conversations/{conversation_id}", conversations.update, WRITE),
        Route("DELETE", "/conversations/{conversation_id}", conversations.delete, WRITE),
        Route("POST", "/conversations/{conversation_id}/items", conversations.add, WRITE),
        Route("GET", "/conversations/{conversation_id}/items", conversations.items, READ),
        Route("GET", "/conversations/{conversation_id}/items/{item_id}", conversations.item, READ),
        Route("DELETE", "/conversations/{conversation_id}/items/{item_id}", conversations.delete_item, WRITE),
        Route("POST", "/files", files.create, WRITE),
        Route("GET", "/files", files.list, READ),
        Route("GET", "/files/{file_id}", files.get, READ),
        Route("GET", "/files/{file_id}/content", files.content, READ),
        Route("DELETE", "/files/{file_id}", files.delete, WRITE),
        *in_workspace(vector_stores.api.bind(parts), workspace_of(turns)),
        *in_workspace(file_batches.api.bind(parts), workspace_of(turns)),
    ]


def workspace_of(turns: EndpointTurns) -> WorkspaceOf:
    """The workspace of a request: the one that it names, or the project's first."""

    async def of(request: OpenAiRequest) -> str:
        return request.workspace_id or await turns.first_workspace(request.principal, request.project_id)

    return of
