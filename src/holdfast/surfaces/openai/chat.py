"""Owns `/chat/completions`: relayed untouched where nothing runs here, a turn of the loop where something does."""

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.llm.model import Json
from holdfast.engines.llm.remote.names import needs_rewriting
from holdfast.features.chat.turn.selection import tool_options, upstream_body
from holdfast.surfaces.http.asgi import header
from holdfast.surfaces.http.endpoint.events import TurnTaker
from holdfast.surfaces.openai.passthrough import Passthrough
from holdfast.surfaces.openai.request import OpenAiRequest
from holdfast.surfaces.openai.turns import answer_turn, stream_turn

CHAT_HEADER = b"x-xerotier-chat"
PATH = "/chat/completions"


class ChatCompletions:
    """Decides who answers."""

    def __init__(self, passthrough: Passthrough, turns: TurnTaker) -> None:
        self._passthrough = passthrough
        self._turns = turns

    async def create(self, request: OpenAiRequest) -> None:
        """One answer, streamed or whole."""
        body = await request.json()
        _check(body)
        chat_id = chat_of(request, body)
        upstreams = request.connected.upstreams
        if upstreams is not None and chat_id is None and not _runs_here(body):
            await self._passthrough.chat(request, upstreams, PATH, upstream_body(body))
            return
        events = self._turns.turn(
            request.principal, request.project_id, request.workspace_id, request.connected, body, chat_id
        )
        await (stream_turn if body.get("stream") else answer_turn)(request, events)


def chat_of(request: OpenAiRequest, body: Json) -> str | None:
    """The chat that the request belongs to, by its body or by its header."""
    named = body.get("x_chat_id") or header(request.scope, CHAT_HEADER) or None
    if named is not None and not isinstance(named, str):
        raise Invalid("The chat cannot be found.", fields=[FieldError("x_chat_id", "write its id as text")])
    return named


def _check(body: Json) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        problem = 'write at least one message, such as {"role": "user", "content": "Hello"}'
        raise Invalid("There is nothing to answer.", fields=[FieldError("messages", problem)])
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            problem = 'write an object, such as {"role": "user", "content": "Hello"}'
            raise Invalid("A message cannot be read.", fields=[FieldError(f"messages[{number}]", problem)])


def _runs_here(body: Json) -> bool:
    """Whether our tools are in play, or names have to be rewritten on the way."""
    options = tool_options(body)
    return options.research or options.file_search or needs_rewriting(body)
