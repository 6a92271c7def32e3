"""Owns turns with the model behind an endpoint: its upstreams, or the embedded one over the workspace's knowledge."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from holdfast.core.errors import Invalid
from holdfast.core.principal import Principal
from holdfast.engines.llm.extractive.embedded import Extractive, Knowledge
from holdfast.engines.llm.extractive.extracts import QuotedPassage
from holdfast.engines.llm.model import Json, LanguageModel, LoopEvent, Tally
from holdfast.engines.llm.remote.roles import DeveloperRole
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.model import Hit, Query
from holdfast.features.chat.model import TYPE as CHAT
from holdfast.features.chat.model import Served
from holdfast.features.chat.turn.turns import ChatTurns
from holdfast.features.deep_think.service import REPORT_PREFIX
from holdfast.features.endpoints.models import Connected, EndpointModels
from holdfast.features.memory.chats import of_chat
from holdfast.features.memory.finding import passages
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.precedence import answers, place_of_hit

PASSAGES = 8
# The embedded model asks for these by plain rules; a request need not opt in to them.
EMBEDDED_TOOLS = ("calculator", "fetch_url")


class EndpointTurns:
    """Takes turns for whoever may use an endpoint."""

    def __init__(
        self,
        models: EndpointModels,
        chat_turns: ChatTurns,
        workspaces: Workspaces,
        search: SearchEngine,
        entities: Entities,
    ) -> None:
        self._models = models
        self._chat_turns = chat_turns
        self._workspaces = workspaces
        self._search = search
        self._entities = entities

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
        workspace_id = workspace_id or await self.first_workspace(principal, project_id)
        served = self.served(endpoint, workspace_id, chat_id)
        if endpoint.upstreams is None and body.get("web_search_options") is None:
            body = {**body, "web_search_options": {"x_tools": list(EMBEDDED_TOOLS)}}
        turn = self._chat_turns.turn(principal, project_id, workspace_id, served, body, chat_id)
        async with aclosing(turn) as events:
            async for event in events:
                yield event

    async def answering(
        self,
        principal: Principal,
        project_id: str,
        endpoint: str,
        workspace_id: str,
        chat_id: str | None,
        body: Json,
    ) -> AsyncGenerator[LoopEvent, None]:
        """The events of a turn that nobody waits for."""
        connected = await self._models.connect(project_id, endpoint)
        turn = self.turn(principal, project_id, workspace_id, connected, body, chat_id)
        async with aclosing(turn) as events:
            async for event in events:
                yield event

    def served(self, connected: Connected, workspace_id: str, chat_id: str | None = None) -> Served:
        """What a turn needs to know of an endpoint."""
        endpoint = connected.endpoint
        model: LanguageModel = (
            DeveloperRole(connected.upstreams)
            if connected.upstreams is not None
            else Extractive(self._knowledge(workspace_id, chat_id))
        )

        def cost(tally: Tally) -> float:
            return endpoint.cost(model.name, tally.input_tokens, tally.output_tokens)

        return Served(endpoint.name, model, endpoint.disabled_tools, cost)

    async def first_workspace(self, principal: Principal, project_id: str) -> str:
        """The project's first workspace that the principal sees."""
        page = await self._workspaces.list(principal, project_id=project_id, limit=1)
        if not page.items:
            raise Invalid("The project has no workspace that this credential sees; make one first.")
        return page.items[0].id

    def _knowledge(self, workspace_id: str, chat_id: str | None) -> Knowledge:
        async def about(question: str) -> Sequence[QuotedPassage]:
            # More than needed: its own words, in this chat or in an earlier report, are no source for its answers.
            query = Query(workspace_id, question, limit=3 * PASSAGES)
            hits = await passages(self._search, self._entities, query)
            if chat_id is not None:
                hits = [*await self._search.search(of_chat(query, chat_id)), *hits]
            others = [hit for hit in hits if not _is_own_word(hit, chat_id)]
            best = max((hit.score for hit in others), default=0.0)
            return [
                QuotedPassage(hit.title, _words_of(hit), _where(hit), place)
                for hit in others
                if answers(place := place_of_hit(hit), hit.score, best)
            ][:PASSAGES]

        return about


def _is_own_word(hit: Hit, chat_id: str | None) -> bool:
    if hit.type == "artifact":
        return str(hit.meta.get("identifier", "")).startswith(REPORT_PREFIX)
    return chat_id is not None and hit.type == CHAT and hit.meta.get("chat_id") == chat_id


def _words_of(hit: Hit) -> str:
    """What people wrote in it: a commit's title says most, and the files that it changed are no sentence."""
    if not hit.meta.get("files"):
        return hit.text or hit.snippet
    body = "\n\n".join(part for part in hit.text.split("\n\n") if not part.startswith("Files: "))
    return f"{hit.title}\n\n{body}"


def _where(hit: Hit) -> str:
    """Where a person finds what was quoted."""
    return str(hit.meta.get("url") or f"{hit.type} {hit.meta.get('slug') or hit.id}")
