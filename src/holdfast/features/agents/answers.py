"""Owns what REST and the command line show of agents and their sessions."""

from typing import Any

from pydantic import Field

from holdfast.core.model import Answer, Time
from holdfast.core.principal import Principal
from holdfast.features.agents.definitions.model import AgentDefinition, RunnerName
from holdfast.features.agents.sessions.model import (
    AgentSession,
    QuestionKind,
    QuestionState,
    SessionQuestion,
    SessionState,
    WaitingSession,
)
from holdfast.features.secrets.references import referred
from holdfast.features.secrets.service import knows_names


class AgentLimitsAnswer(Answer):
    minutes: int
    tokens: int
    memory_mb: int
    disk_mb: int
    processes: int


class AgentAttachmentAnswer(Answer):
    name: str
    server_id: str
    env: dict[str, str] = Field(description="Values and `${SECRET}`; the names of secrets only for who may know them")


class SecretGrantAnswer(Answer):
    name: str
    granted_at: Time
    granted_by: str


class AgentAnswer(Answer):
    id: str
    slug: str
    name: str
    workspace_id: str
    version: int
    instructions: str
    runner: RunnerName
    command: str | None
    endpoint: str
    env: dict[str, str]
    repository: str | None
    limits: AgentLimitsAnswer
    attachments: list[AgentAttachmentAnswer]
    secrets: list[SecretGrantAnswer] = Field(
        description="Secrets whose values its own process is given, each by an admin's decision"
    )
    created_at: Time
    updated_at: Time
    updated_by: str

    @classmethod
    def shown(cls, agent: AgentDefinition, principal: Principal) -> "AgentAnswer":
        """The agent as this principal may read it."""
        spec = agent.spec
        tells = knows_names(principal)
        return cls.of(
            agent,
            name=spec.name,
            instructions=spec.instructions,
            runner=spec.runner,
            command=spec.command,
            endpoint=spec.endpoint,
            env=_shown_env(dict(spec.env), tells),
            repository=spec.repository,
            limits=AgentLimitsAnswer.of(spec.limits),
            attachments=[
                AgentAttachmentAnswer.of(each, env=_shown_env(dict(each.env), tells)) for each in agent.attachments
            ],
            secrets=[SecretGrantAnswer.of(each) for each in agent.secrets] if tells else [],
        )


class AgentVersionAnswer(Answer):
    version: int
    created_at: Time
    created_by: str
    definition: dict[str, Any]


class SessionStartAnswer(Answer):
    session_id: str
    state: SessionState


class FrozenServerAnswer(Answer):
    name: str
    revision: int
    image: str | None = Field(description="The digest of the image or package that runs")
    tools: dict[str, str] = Field(description="The digests of its tools, as pinned")


class RunnerPinAnswer(Answer):
    package: str
    version: str
    integrity: str = Field(description="A digest over everything that was installed for it")


class SessionQuestionAnswer(Answer):
    id: str
    session_id: str
    request_id: str
    kind: QuestionKind
    question: str
    options: list[str]
    details: dict[str, Any]
    state: QuestionState
    answer: str | None
    grant_id: str | None
    created_at: Time
    decided_at: Time | None
    decided_by: str | None

    @classmethod
    def shown(cls, question: SessionQuestion) -> "SessionQuestionAnswer":
        """The question as it is read."""
        return cls.of(question, options=list(question.options), details=dict(question.details))


class AgentSessionAnswer(Answer):
    session_id: str
    workspace_id: str
    agent_id: str
    agent: str
    agent_version: int
    runner: RunnerName
    runner_pin: RunnerPinAnswer | None = Field(description="What drives it, exactly; none of a command")
    endpoint: str
    model: str
    state: SessionState
    prompt: str
    case_id: str | None
    parent_id: str | None
    root_id: str
    depth: int
    branch: str | None
    base_commit: str | None
    servers: list[FrozenServerAnswer]
    limits: AgentLimitsAnswer
    started_by: str
    tokens_in: int
    tokens_out: int
    cost: float
    seconds: float | None = Field(description="How long it worked; what it waited for people is not counted")
    resumable: bool
    last_seq: int = Field(description="The number of its newest event")
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: Time
    started_at: Time | None
    ended_at: Time | None

    @classmethod
    def shown(cls, session: AgentSession) -> "AgentSessionAnswer":
        """The session as it is read."""
        frozen = session.frozen
        worked = None
        if session.started_at is not None and session.ended_at is not None:
            worked = max(0, session.ended_at - session.started_at - session.waited_millis) / 1000
        return cls.of(
            session,
            session_id=session.id,
            agent=session.agent_slug,
            runner=frozen.spec.runner,
            runner_pin=None if frozen.runner is None else RunnerPinAnswer.of(frozen.runner),
            endpoint=frozen.spec.endpoint,
            model=frozen.model,
            branch=session.branch if frozen.base_commit else None,
            base_commit=frozen.base_commit,
            servers=[
                FrozenServerAnswer(
                    name=each.attachment.name,
                    revision=each.attachment.revision,
                    image=each.image,
                    tools=dict(each.attachment.tools),
                )
                for each in frozen.servers
            ],
            limits=AgentLimitsAnswer.of(frozen.limits),
            started_by=session.started_by.name or session.started_by.actor,
            seconds=worked,
            resumable=session.is_over and session.resume_token is not None and session.parent_id is None,
            result=None if session.result is None else dict(session.result),
            error=None if session.error is None else dict(session.error),
        )


class SessionDetailAnswer(AgentSessionAnswer):
    questions: list[SessionQuestionAnswer]
    tree: list["TreeAnswer"] = Field(description="Every session that was spawned from the same one, oldest first")


class TreeAnswer(Answer):
    session_id: str = Field(validation_alias="id")
    agent: str = Field(validation_alias="agent_slug")
    state: SessionState
    parent_id: str | None
    depth: int
    tokens: int


class WaitingSessionAnswer(Answer):
    session_id: str
    agent: str
    prompt: str
    question: SessionQuestionAnswer

    @classmethod
    def shown(cls, waiting: WaitingSession) -> "WaitingSessionAnswer":
        """What waits, as it is read."""
        return cls(
            session_id=waiting.session.id,
            agent=waiting.session.agent_slug,
            prompt=waiting.session.prompt[:500],
            question=SessionQuestionAnswer.shown(waiting.question),
        )


class SessionEventAnswer(Answer):
    seq: int
    at: Time
    kind: str
    data: dict[str, Any]


def _shown_env(env: dict[str, str], tells: bool) -> dict[str, str]:
    """An environment; which secrets it refers to only to whoever may know their names."""
    return {name: value if tells or referred(value) is None else "${…}" for name, value in env.items()}
