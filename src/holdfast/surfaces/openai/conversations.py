"""Owns `/conversations` in OpenAI's shape: items that are kept for responses to go on from."""

from urllib.parse import parse_qs

from holdfast.core.errors import FieldError, Invalid
from holdfast.features.responses.conversations.service import ConversationPlace, ConversationService
from holdfast.surfaces.openai.files import WorkspaceOf
from holdfast.surfaces.openai.request import OpenAiRequest, json_object

MAX_PAGE = 100


class Conversations:
    """Makes, shows, changes and deletes conversations and their items."""

    def __init__(self, service: ConversationService, workspace_of: WorkspaceOf) -> None:
        self._service = service
        self._workspace_of = workspace_of

    async def create(self, request: OpenAiRequest) -> None:
        """A new conversation; the body may be empty."""
        raw = await request.read()
        body = json_object(raw) if raw.strip() else {}
        workspace_id = await self._workspace_of(request)
        made = await self._service.create(_place(request), workspace_id, body.get("items"), body.get("metadata"))
        await request.answer(made.object())

    async def get(self, request: OpenAiRequest) -> None:
        """One conversation."""
        await request.answer((await self._service.get(_place(request))).object())

    async def update(self, request: OpenAiRequest) -> None:
        """Other metadata."""
        body = await request.json()
        await request.answer((await self._service.update(_place(request), body.get("metadata"))).object())

    async def delete(self, request: OpenAiRequest) -> None:
        """Forget a conversation."""
        await self._service.delete(_place(request))
        id = request.path["conversation_id"]
        await request.answer({"id": id, "object": "conversation.deleted", "deleted": True})

    async def items(self, request: OpenAiRequest) -> None:
        """Its items, the last first unless asked otherwise."""
        asked = parse_qs(request.scope.get("query_string", b"").decode("latin-1"))
        limit, order = asked.get("limit", ["20"])[-1], asked.get("order", ["desc"])[-1]
        if not limit.isdigit() or not 1 <= int(limit) <= MAX_PAGE:
            raise _wrong("limit", f"use a number from 1 to {MAX_PAGE}")
        if order not in ("asc", "desc"):
            raise _wrong("order", "use asc or desc")
        after = asked.get("after", [None])[-1]
        found, more = await self._service.items(
            _place(request), limit=int(limit), after=after, descending=order == "desc"
        )
        await request.answer_list(found, has_more=more)

    async def add(self, request: OpenAiRequest) -> None:
        """Items at its end."""
        body = await request.json()
        await request.answer_list(await self._service.add(_place(request), body.get("items")))

    async def item(self, request: OpenAiRequest) -> None:
        """One item."""
        await request.answer(await self._service.item(_place(request), request.path["item_id"]))

    async def delete_item(self, request: OpenAiRequest) -> None:
        """Take an item out."""
        await request.answer((await self._service.delete_item(_place(request), request.path["item_id"])).object())


def _place(request: OpenAiRequest) -> ConversationPlace:
    id = request.path.get("conversation_id", "")
    return ConversationPlace(request.principal, request.project_id, request.workspace_id, id)


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid("The items can't be listed.", fields=[FieldError(field, problem)])
