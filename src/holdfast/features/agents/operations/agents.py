"""Owns the REST operations of agents: definitions, their versions, attachments, and secrets that an admin grants."""

from pydantic import Field, RootModel

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.model import Model, Text
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.agents.answers import AgentAnswer, AgentVersionAnswer
from holdfast.features.agents.definitions.attachments import AgentAttachments
from holdfast.features.agents.definitions.model import (
    MAX_ATTACHMENTS,
    MAX_COMMAND,
    MAX_INSTRUCTIONS,
    MAX_NAME,
    AgentLimits,
    NewAgent,
    NewAttachment,
    RunnerName,
)
from holdfast.features.agents.definitions.service import AgentDefinitions

api = Operations("agents")

_BASE = "/api/workspaces/{workspace_id}/agents"
_ONE = _BASE + "/{agent_id}"
AUTHOR = Access("workspace", "management", tier="exec")
ADMIN = Access("workspace", "management", role="admin", tier="exec")


class LimitsBody(Model):
    minutes: int = Field(default=AgentLimits().minutes, description="Of work; waiting for people is not counted")
    tokens: int = Field(default=AgentLimits().tokens, description="In and out, its children's included")
    memory_mb: int = AgentLimits().memory_mb
    disk_mb: int = Field(default=AgentLimits().disk_mb, description="Its home and worktree together")
    processes: int = AgentLimits().processes


class AgentBody(Model):
    name: Text = Field(max_length=MAX_NAME)
    slug: Text | None = Field(default=None, max_length=100, description="From the name where left out")
    instructions: Text = Field(default="", max_length=MAX_INSTRUCTIONS)
    runner: RunnerName = "builtin"
    command: Text | None = Field(default=None, max_length=MAX_COMMAND, description="For the runner `command`")
    endpoint: Text = Field(default="default", max_length=100, description="Whose model it asks")
    env: dict[str, Text] = Field(
        default={}, description="Of its own process: values, or `${SECRET}` where an admin granted it to this agent"
    )
    repository: Text | None = Field(default=None, max_length=200, description="The slug of the one that it works in")
    limits: LimitsBody = LimitsBody()

    def agent(self) -> NewAgent:
        """What an author says of an agent."""
        return self.into(NewAgent, limits=self.limits.into(AgentLimits))


class AttachmentBody(Model):
    name: Text = Field(max_length=100, description="A server of the workspace's catalog")
    env: dict[str, Text] = Field(default={}, description="As its manifest wants it: values or `${SECRET}`")


class AttachmentsBody(RootModel[AttachmentBody | list[AttachmentBody]]):
    """One attachment, which stands beside those of other names, or the whole list."""


@api.get(_BASE, READ_EXEC, "Agents of a workspace")
async def page(agents: AgentDefinitions, principal: Principal, workspace_id: str) -> Page[AgentAnswer]:
    return Page([AgentAnswer.shown(each, principal) for each in await agents.list(principal, workspace_id)])


@api.post(_BASE, AUTHOR, "Define an agent", status=201)
async def create(agents: AgentDefinitions, principal: Principal, workspace_id: str, body: AgentBody) -> AgentAnswer:
    return AgentAnswer.shown(await agents.create(principal, workspace_id, body.agent()), principal)


@api.get(_ONE, READ_EXEC, "One agent")
async def get(agents: AgentDefinitions, principal: Principal, workspace_id: str, agent_id: str) -> AgentAnswer:
    return AgentAnswer.shown(await agents.get(principal, workspace_id, agent_id), principal)


@api.put(_ONE, AUTHOR, "Say anew what an agent is; its sessions go on as they began")
async def put(
    agents: AgentDefinitions, principal: Principal, workspace_id: str, agent_id: str, body: AgentBody
) -> AgentAnswer:
    return AgentAnswer.shown(await agents.change(principal, workspace_id, agent_id, body.agent()), principal)


@api.delete(_ONE, AUTHOR, "Forget an agent; what its sessions did is kept")
async def delete(agents: AgentDefinitions, principal: Principal, workspace_id: str, agent_id: str) -> None:
    await agents.remove(principal, workspace_id, agent_id)


@api.get(_ONE + "/versions", READ_EXEC, "What an agent was, the newest first")
async def versions(
    agents: AgentDefinitions, principal: Principal, workspace_id: str, agent_id: str
) -> Page[AgentVersionAnswer]:
    found = await agents.versions(principal, workspace_id, agent_id)
    return Page([AgentVersionAnswer.model_validate(each) for each in found])


async def _attach(
    attachments: AgentAttachments, principal: Principal, agent_id: str, body: AttachmentsBody
) -> AgentAnswer:
    given = body.root if isinstance(body.root, list) else [body.root]
    wanted = [each.into(NewAttachment) for each in given[: MAX_ATTACHMENTS + 1]]
    whole = isinstance(body.root, list)
    return AgentAnswer.shown(await attachments.put(principal, agent_id, wanted, whole=whole), principal)


@api.put("/agents/{agent_id}/mcp-attachments", AUTHOR, "Attach servers of the catalog to an agent")
async def attach(
    attachments: AgentAttachments, principal: Principal, agent_id: str, body: AttachmentsBody
) -> AgentAnswer:
    return await _attach(attachments, principal, agent_id, body)


@api.put("/api/agents/{agent_id}/mcp-attachments", AUTHOR, "Attach servers of the catalog to an agent")
async def attach_below_api(
    attachments: AgentAttachments, principal: Principal, agent_id: str, body: AttachmentsBody
) -> AgentAnswer:
    return await _attach(attachments, principal, agent_id, body)


@api.delete("/api/agents/{agent_id}/mcp-attachments/{server}", AUTHOR, "Detach a server from an agent")
async def detach(attachments: AgentAttachments, principal: Principal, agent_id: str, server: str) -> None:
    await attachments.detach(principal, agent_id, server)


@api.put("/api/agents/{agent_id}/secrets/{secret_name}", ADMIN, "Let an agent's own process have a secret's value")
async def grant_secret(agents: AgentDefinitions, principal: Principal, agent_id: str, secret_name: str) -> AgentAnswer:
    return AgentAnswer.shown(await agents.grant_secret(principal, agent_id, secret_name), principal)


@api.delete("/api/agents/{agent_id}/secrets/{secret_name}", ADMIN, "End that, from the agent's next session on")
async def take_secret(agents: AgentDefinitions, principal: Principal, agent_id: str, secret_name: str) -> None:
    await agents.take_secret(principal, agent_id, secret_name)
