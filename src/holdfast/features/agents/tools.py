"""Owns `zero_run_session`: an agent set to work on a case."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from holdfast.core.access import RUN_EXEC
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.agents.definitions.model import AgentDefinition
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.sessions.model import MAX_PROMPT, NewSession
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.cases.model import Case
from holdfast.features.cases.service import CaseService


class RunSessionInput(BaseModel):
    # As documented, to the letter: no more keys, no descriptions.
    case_id: Annotated[str, Field(max_length=200)]
    prompt: Annotated[str, Field(max_length=MAX_PROMPT)]


class RunSessionOutput(BaseModel):
    session_id: str
    state: str
    case_id: str
    agent: str
    branch: str | None
    events: str


def tools(sessions: AgentSessions, agents: AgentDefinitions, cases: CaseService) -> list[AnyTool]:
    """The tool over the services."""

    async def run_session(call: ToolCall, given: RunSessionInput) -> RunSessionOutput:
        case = await cases.get(call.principal, call.workspace_id, given.case_id)
        agent = agent_of(case, await agents.list(call.principal, case.workspace_id))
        prompt = _prompt(case, given.prompt)
        made = await sessions.start(call.principal, case.workspace_id, agent.id, NewSession(prompt, case.id))
        return RunSessionOutput(
            session_id=made.id,
            state=made.state,
            case_id=case.id,
            agent=agent.slug,
            branch=made.branch if made.frozen.base_commit else None,
            events=f"/api/sessions/{made.id}/events",
        )

    notes = Annotations(read_only=False, idempotent=False)
    return [
        Tool(
            "zero_run_session",
            "Run an agent on a case",
            # As documented, to the letter.
            "Run an agent session on a Work item with a given prompt",
            RunSessionInput,
            RunSessionOutput,
            run_session,
            notes,
            RUN_EXEC,
            consumer="zero",
        )
    ]


def agent_of(case: Case, agents: Sequence[AgentDefinition]) -> AgentDefinition:
    """The case's agent: the one that it is assigned to, else the only one for its repository, else the only one."""
    if case.assignee is not None:
        named = [each for each in agents if case.assignee.lstrip("@") in (each.id, each.slug)]
        if named:
            return named[0]
    fitting = [each for each in agents if case.repository and each.spec.repository == case.repository]
    for found in (fitting, agents):
        if len(found) == 1:
            return found[0]
    names = ", ".join(each.slug for each in agents[:20]) or "none: define one with `holdfast agents add`"
    problem = f"assign the case to the agent that is to work on it; there are {names}"
    raise Invalid("It is not clear which agent works on the case.", fields=[FieldError("case_id", problem)])


def _prompt(case: Case, prompt: str) -> str:
    criteria = "\n".join(f"- [{each.id}] {each.text}" for each in case.criteria)
    parts = [prompt, f"The case is {case.id}: {case.title}", case.body]
    parts += [f"It is done when:\n{criteria}"] if criteria else []
    return "\n\n".join(each for each in parts if each.strip())
