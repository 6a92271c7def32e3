"""Owns `holdfast agents`: definitions, the servers attached to them, and secrets that they were granted."""

from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Given, InWorkspace, Option, Session
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runners.installing import PUBLISHED, InstalledAgents
from holdfast.features.agents.answers import AgentAnswer, AgentVersionAnswer
from holdfast.features.agents.definitions.attachments import AgentAttachments
from holdfast.features.agents.definitions.model import AgentLimits, NewAgent, NewAttachment, RunnerName
from holdfast.features.agents.definitions.service import AgentDefinitions

agents = Commands("agents", help="Agents: what they are, what drives them, and what they may use.")


class OneAgent(InWorkspace):
    """An agent that is named."""

    agent: Annotated[str, Argument(metavar="AGENT")]


class AgentFields(InWorkspace):
    """What an agent can be given."""

    instructions: Annotated[str | None, Option(metavar="FILE", reads="file")] = Field(
        None, description="A file that says what it is to do and how."
    )
    runner: RunnerName | None = Field(None, description="What drives it; builtin where left out.")
    command: Annotated[str | None, Option(metavar="CMD")] = Field(
        None, description="What to run, for the runner `command`."
    )
    endpoint: str | None = Field(None, description="The endpoint whose model it asks.")
    repository: Annotated[str | None, Option("--repo", metavar="SLUG")] = Field(
        None, description="The repository that it works in."
    )
    env: Annotated[list[str], Option("--env", metavar="K=V")] = Field(
        [], description="In its own environment: a value, or ${SECRET} where it was granted; repeat."
    )
    minutes: int | None = Field(None, description="How long one session may work.")
    tokens: int | None = Field(None, description="How many tokens one session may use.")
    memory_mb: int | None = Field(None, description="Memory of one session, in MiB.")
    disk_mb: int | None = Field(None, description="What one session may keep in its home and worktree, in MiB.")
    processes: int | None = Field(None, description="How many processes one session may have at once.")

    def over(self, before: NewAgent) -> NewAgent:
        """What was said, over what an agent is."""
        limits = before.limits
        return NewAgent(
            name=before.name,
            slug=before.slug,
            instructions=before.instructions if self.instructions is None else self.instructions,
            runner=self.runner or before.runner,
            command=self.command if self.command is not None else (before.command if not self.runner else None),
            endpoint=before.endpoint if self.endpoint is None else self.endpoint,
            env=pairs(self.env) if self.env else before.env,
            repository=self.repository if self.repository is not None else before.repository,
            limits=AgentLimits(
                minutes=limits.minutes if self.minutes is None else self.minutes,
                tokens=limits.tokens if self.tokens is None else self.tokens,
                memory_mb=limits.memory_mb if self.memory_mb is None else self.memory_mb,
                disk_mb=limits.disk_mb if self.disk_mb is None else self.disk_mb,
                processes=limits.processes if self.processes is None else self.processes,
            ),
        )


class AddAgent(AgentFields):
    """What `add` is given."""

    name: Annotated[str, Argument()]
    slug: str | None = Field(None, description="How commands call it; from its name where left out.")


@agents.command("add", help="Define an agent.")
async def add(session: Session, service: AgentDefinitions, given: AddAgent) -> None:
    new = given.over(NewAgent(name=given.name, slug=given.slug))
    made = await service.create(session.principal, await session.workspace(given.workspace), new)
    lines = [f"{made.slug} is defined.", f"Next: holdfast sessions run {made.slug} 'What to do'"]
    session.out.record(AgentAnswer.shown(made, session.principal), lines)


@agents.command("list", help="List agents.")
async def list_agents(session: Session, service: AgentDefinitions, given: InWorkspace) -> None:
    found = await service.list(session.principal, await session.workspace(given.workspace))
    rows = [AgentAnswer.shown(each, session.principal) for each in found]
    session.out.table(rows, ["slug", "name", "runner", "endpoint", "repository", "version"])


@agents.command("show", help="Show an agent.")
async def show(session: Session, service: AgentDefinitions, given: OneAgent) -> None:
    found = await service.get(session.principal, await session.workspace(given.workspace), given.agent)
    session.out.record(AgentAnswer.shown(found, session.principal))


class EditAgent(AgentFields):
    """What `edit` is given."""

    agent: Annotated[str, Argument(metavar="AGENT")]
    name: str | None = Field(None, description="Another name.")


@agents.command("edit", help="Change an agent; what is left out stays.")
async def edit(session: Session, service: AgentDefinitions, given: EditAgent) -> None:
    workspace_id = await session.workspace(given.workspace)
    found = await service.get(session.principal, workspace_id, given.agent)
    before = NewAgent(**{name: getattr(found.spec, name) for name in NewAgent.__dataclass_fields__})
    wanted = given.over(before)
    if given.name is not None:
        wanted = NewAgent(
            **{name: getattr(wanted, name) for name in NewAgent.__dataclass_fields__} | {"name": given.name}
        )
    changed = await service.change(session.principal, workspace_id, found.id, wanted)
    session.out.record(
        AgentAnswer.shown(changed, session.principal), [f"{changed.slug} is at version {changed.version}."]
    )


@agents.command("versions", help="What an agent was at each of its versions, newest first.")
async def versions(session: Session, service: AgentDefinitions, given: OneAgent) -> None:
    found = await service.versions(session.principal, await session.workspace(given.workspace), given.agent)
    session.out.table(
        [AgentVersionAnswer.model_validate(each) for each in found], ["version", "created_at", "created_by"]
    )


class Attach(OneAgent):
    """What `attach` is given."""

    server: Annotated[str, Argument(metavar="SERVER")]
    env: Annotated[list[str], Option("--env", metavar="K=V")] = Field(
        [], description="As its manifest wants it: a value, or ${SECRET}; repeat."
    )
    remove: bool = Field(False, description="Detach it instead.")


@agents.command("attach", help="Attach a server of the catalog to an agent, or detach it.")
async def attach(session: Session, service: AgentDefinitions, attachments: AgentAttachments, given: Attach) -> None:
    found = await service.get(session.principal, await session.workspace(given.workspace), given.agent)
    if given.remove:
        changed = await attachments.detach(session.principal, found.id, given.server)
    else:
        wanted = [NewAttachment(given.server, pairs(given.env))]
        changed = await attachments.put(session.principal, found.id, wanted, whole=False)
    attached = ", ".join(each.name for each in changed.attachments) or "nothing"
    session.out.record(AgentAnswer.shown(changed, session.principal), [f"Attached to {changed.slug}: {attached}."])


class GrantSecret(OneAgent):
    """What `grant` is given."""

    secret: Annotated[str, Argument(metavar="SECRET")]
    take: bool = Field(False, description="End that instead.")


@agents.command("grant", help="Let an agent's own process have a secret's value: it can read it, and tell it.")
async def grant(session: Session, service: AgentDefinitions, given: GrantSecret) -> None:
    found = await service.get(session.principal, await session.workspace(given.workspace), given.agent)
    change = service.take_secret if given.take else service.grant_secret
    changed = await change(session.principal, found.id, given.secret)
    names = ", ".join(each.name for each in changed.secrets) or "none"
    session.out.record(AgentAnswer.shown(changed, session.principal), [f"{changed.slug} has these secrets: {names}."])


class InstallAgent(Given):
    """What `install` is given."""

    name: Annotated[str, Argument(metavar="NAME", choices=tuple(PUBLISHED))]
    version: str | None = Field(None, description="Another version than the one that our tests drive.")


@agents.command("install", help="Fetch an agent of others, pinned; nothing is fetched when a session starts.")
async def install(session: Session, installed: InstalledAgents, given: InstallAgent) -> None:
    with session.out.progress() as progress:

        async def tell(message: str) -> None:
            progress.show(message)

        made = await installed.install(given.name, tell, given.version)
    shown = {"name": made.name, "version": made.version, "integrity": made.integrity}
    session.out.record(shown, [f"{made.name} {made.version} is installed."])


@agents.command("remove", help="Forget an agent; what its sessions did is kept.")
async def remove(session: Session, service: AgentDefinitions, given: OneAgent) -> None:
    await service.remove(session.principal, await session.workspace(given.workspace), given.agent)
    session.out.note(f"{given.agent} is removed.")


def pairs(given: list[str]) -> dict[str, str]:
    """`K=V`s as a mapping; Invalid where one is none."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise Invalid(f"{each[:80]!r} is no K=V.", fields=[FieldError("env", "write NAME=VALUE")])
        found[name] = value
    return found
