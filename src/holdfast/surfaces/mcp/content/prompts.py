"""Owns prompts on the wire: the list that a principal sees, and the messages that a prompt gives."""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    PromptMessage,
    TextContent,
)

from holdfast.core.principal import Principal
from holdfast.features.clients.service import Clients
from holdfast.registry.content import Content
from holdfast.registry.prompts import Prompt, PromptCall, Prompts
from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.content.asking import InputNeeded, asker
from holdfast.surfaces.mcp.content.resources import UNBOUND, contents

Context = ServerRequestContext[Any, Admitted]


class PromptHandlers:
    """Serves prompts/list and prompts/get from what the features declare."""

    def __init__(self, prompts: Prompts, clients: Clients) -> None:
        self._prompts = prompts
        self._clients = clients

    def listed(self, principal: Principal) -> list[types.Prompt]:
        """The prompts that this principal may have."""
        return [_described(prompt) for prompt in self._prompts.listed(principal)]

    async def get(
        self, ctx: Context, admitted: Admitted, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        """A prompt filled in for the bound workspace: PromptUnknown, PromptRefused, or whatever it raises."""
        prompt = self._prompts.find(admitted.principal, params.name)
        if admitted.workspace_id is None:
            raise MCPError(code=INVALID_REQUEST, message=UNBOUND)
        call = PromptCall(
            principal=admitted.principal,
            workspace_id=admitted.workspace_id,
            arguments=_arguments(prompt, params.arguments or {}),
            ask=asker(ctx, self._clients, params.input_responses, params.request_state),
        )
        try:
            written = await prompt.write(call)
        except InputNeeded as pause:
            return pause.result
        return GetPromptResult(description=prompt.description, messages=_messages(written))


def _described(prompt: Prompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=each.name, description=each.description, required=True) for each in prompt.arguments
    ]
    return types.Prompt(
        name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments or None
    )


def _arguments(prompt: Prompt, given: Mapping[str, str]) -> dict[str, str]:
    """What the prompt declares. opencode sends the unfilled `$1` of its template: that is no argument."""
    found = {}
    for name in (each.name for each in prompt.arguments):
        if name not in given:
            raise MCPError(code=INVALID_PARAMS, message=f"The prompt {prompt.name} needs the argument {name}.")
        text = given[name].strip()
        found[name] = "" if re.fullmatch(r"\$(\d+|ARGUMENTS)", text) else text
    return found


def _messages(written: str | Sequence[Content]) -> list[PromptMessage]:
    pieces = [Content(written)] if isinstance(written, str) else written
    return [PromptMessage(role="user", content=_block(piece)) for piece in pieces]


def _block(piece: Content) -> types.ContentBlock:
    if piece.uri is not None:
        return types.EmbeddedResource(type="resource", resource=contents(piece.uri, piece))
    if isinstance(piece.data, str):
        return TextContent(type="text", text=piece.data)
    data = base64.b64encode(piece.data).decode()
    if piece.mime_type.startswith("audio/"):
        return types.AudioContent(type="audio", data=data, mime_type=piece.mime_type)
    return types.ImageContent(type="image", data=data, mime_type=piece.mime_type)
