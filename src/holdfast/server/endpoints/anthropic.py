"""Owns how Anthropic's wire at endpoints is put together."""

from collections.abc import Sequence

from holdfast.core.access import READ, RUN
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.identity.service import Identity
from holdfast.features.turns.service import EndpointTurns
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces.service import Workspaces
from holdfast.surfaces.anthropic.messages import Messages
from holdfast.surfaces.anthropic.models import get_model, list_models
from holdfast.surfaces.anthropic.surface import AnthropicSurface, MessagesRoute
from holdfast.surfaces.http.admission import LimitedCallers, ProjectAdmission
from holdfast.surfaces.http.authentication import Authenticator


def build_anthropic(settings: Settings, parts: Parts, authenticator: Authenticator) -> AnthropicSurface:
    """The endpoint for Anthropic's clients; both wires count towards one limit."""
    gate = LimitedCallers(authenticator, parts[Limiter], settings.chat_requests_per_minute, "chat")
    return AnthropicSurface(
        ProjectAdmission(gate, parts[Workspaces], parts[Identity].project_exists, "chat"),
        parts[EndpointModels],
        routes(parts),
        settings.max_chat_bytes,
    )


def routes(parts: Parts) -> Sequence[MessagesRoute]:
    """Every path that Anthropic's clients ask for under `/{project_id}/{endpoint}/v1`."""
    messages = Messages(parts[Usage], parts[EndpointTurns])
    return [
        MessagesRoute("POST", "/messages", messages.create, RUN),
        MessagesRoute("POST", "/messages/count_tokens", messages.count, RUN),
        MessagesRoute("GET", "/models", list_models, READ),
        MessagesRoute("GET", "/models/{model}", get_model, READ),
    ]
