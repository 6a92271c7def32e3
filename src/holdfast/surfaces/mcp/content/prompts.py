"""Owns the four prompts: what they are called, what they take, and the text they put into a conversation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from holdfast.core.access import READ, READ_INTEL, WRITE, Access
from holdfast.core.principal import Principal
from holdfast.core.tools.gateway import Gateway
from holdfast.features.knowledge.service import WorkspaceKnowledge
from holdfast.surfaces.mcp.admission import Admitted

UNBOUND = "Workspace not bound. Call xerotier.session.init or set X-Xerotier-Workspace header."
RECENT = 5

Context = ServerRequestContext[Any, Admitted]


class MorePrompts(Protocol):
    """Prompts in the SDK's own words, beside ours."""

    @property
    def prompts(self) -> list[Prompt]: ...

    async def get_prompt(
        self, ctx: Context, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult: ...


@dataclass(frozen=True, slots=True)
class KnownPrompt:
    """A prompt and who may have it."""

    prompt: Prompt
    access: Access


PROMPTS = {
    known.prompt.name: known
    for known in (
        KnownPrompt(
            Prompt(
                name="session.init",
                title="Start a session",
                description="Tell the model where it is: the workspace, its tools, and the state of the project.",
            ),
            READ,
        ),
        KnownPrompt(
            Prompt(
                name="brief",
                title="Project brief",
                description="The state of the project, with the five newest decisions.",
            ),
            READ_INTEL,
        ),
        KnownPrompt(
            Prompt(
                name="onboard",
                title="Get to know a topic",
                description="What the workspace knows about a topic: memories, related work, recent activity.",
                arguments=[PromptArgument(name="topic", description="What to learn about", required=True)],
            ),
            READ_INTEL,
        ),
        KnownPrompt(
            Prompt(
                name="save-this",
                title="Save a note",
                description="Turn a note into a memory, with recent memories to link it to.",
                arguments=[PromptArgument(name="note", description="What to remember", required=True)],
            ),
            WRITE,
        ),
    )
}


class PromptHandlers:
    """Serves prompts/list and prompts/get."""

    def __init__(self, knowledge: WorkspaceKnowledge, gateway: Gateway, more: MorePrompts | None) -> None:
        self._knowledge = knowledge
        self._gateway = gateway
        self._more = more

    def listed(self, principal: Principal) -> list[Prompt]:
        """The prompts that this principal may have."""
        own = [known.prompt for known in PROMPTS.values() if known.access.missing(principal) is None]
        return own + (self._more.prompts if self._more else [])

    async def get(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
        """A prompt filled in for the bound workspace."""
        if self._more is not None and any(prompt.name == params.name for prompt in self._more.prompts):
            return await self._more.get_prompt(ctx, params)
        admitted = ctx.request
        known = PROMPTS.get(params.name)
        if admitted is None or known is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt: {params.name[:80]}")
        missing = known.access.missing(admitted.principal)
        if missing is not None:
            raise PromptRefused(params.name, missing)
        if admitted.workspace_id is None:
            raise MCPError(code=INVALID_REQUEST, message=UNBOUND)
        argument = _argument(known.prompt, params.arguments or {})
        text = await self._text(params.name, admitted.principal, admitted.workspace_id, argument)
        message = PromptMessage(role="user", content=TextContent(type="text", text=text))
        return GetPromptResult(description=known.prompt.description, messages=[message])

    async def _text(self, name: str, principal: Principal, workspace_id: str, argument: str) -> str:
        if name == "session.init":
            return await self._session(principal, workspace_id)
        if name == "brief":
            brief = await self._knowledge.brief(principal, workspace_id)
            recent = await self._knowledge.recent_decisions(principal, workspace_id, since=None, limit=RECENT)
            return f"{brief}\n\n## Newest decisions\n\n{recent}"
        if name == "onboard":
            if not argument:
                brief = await self._knowledge.brief(principal, workspace_id)
                return f"No topic was named. Ask which topic to get to know; meanwhile, the project:\n\n{brief}"
            return await self._knowledge.onboard(principal, workspace_id, argument)
        return await self._form(principal, workspace_id, argument)

    async def _session(self, principal: Principal, workspace_id: str) -> str:
        tools = "\n".join(f"- {tool.name}: {tool.title}" for tool in self._gateway.visible(principal, "mcp"))
        head = (
            f"You are connected to Holdfast, workspace {workspace_id}. It remembers this project for every agent and "
            "person on the team. Look things up there before you ask, and save what the next one will need."
            f"\n\n## Tools\n\n{tools}"
        )
        if READ_INTEL.missing(principal) is not None:
            return head
        return f"{head}\n\n{await self._knowledge.brief(principal, workspace_id)}"

    async def _form(self, principal: Principal, workspace_id: str, note: str) -> str:
        recent = await self._knowledge.memories(principal, workspace_id, limit=10, cursor=None)
        links = _links([entry.key for entry in recent.items])
        return (
            "Save this note as a memory with xerotier.memory.save. Write it so that a colleague who was not here "
            "understands it, choose a category, and name related memories where they fit.\n\n"
            f"content: {note or '(ask what to save)'}\ncategory: (fact, decision, convention, gotcha, …)\n{links}"
        )


class PromptRefused(MCPError):
    """The prompt exists, but not for this credential."""

    def __init__(self, name: str, missing: str) -> None:
        super().__init__(code=INVALID_PARAMS, message=f"The prompt {name[:80]} is not for this credential. {missing}")


def _argument(prompt: Prompt, given: dict[str, str]) -> str:
    """The prompt's one argument. opencode sends the unfilled `$1` of its template: that is no argument."""
    if not prompt.arguments:
        return ""
    name = prompt.arguments[0].name
    if name not in given:
        raise MCPError(code=INVALID_PARAMS, message=f"The prompt {prompt.name} needs the argument {name}.")
    text = given[name].strip()
    return "" if re.fullmatch(r"\$(\d+|ARGUMENTS)", text) else text


def _links(slugs: Sequence[str]) -> str:
    if not slugs:
        return "related: (no memories yet)"
    return "related: (any of these)\n" + "\n".join(f"- {slug}" for slug in slugs)
