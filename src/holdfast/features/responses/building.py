"""Owns how responses are built."""

from collections.abc import AsyncGenerator
from functools import partial

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.principal import Principal
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.llm.model import Json, LoopEvent
from holdfast.features.audit.service import Audit
from holdfast.features.responses.conversations.service import ConversationService
from holdfast.features.responses.model import ResponseRequest
from holdfast.features.responses.service import KIND, MAX_ATTEMPTS, ResponseService
from holdfast.features.turns.service import EndpointTurns
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def responses(parts: Parts) -> ResponseService:
    return ResponseService(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[ConversationService],
        parts[JobEngine],
        parts[Clock],
    )


@build
def conversations(parts: Parts) -> ConversationService:
    return ConversationService(parts[Database], parts[Audit], parts[Workspaces], parts[Clock])


def handle_jobs(parts: Parts) -> None:
    """Answer what nobody waits for, with the model behind its endpoint."""
    turns = parts[EndpointTurns]

    def turn(principal: Principal, asked: ResponseRequest, body: Json) -> AsyncGenerator[LoopEvent, None]:
        place = (asked.project_id, asked.endpoint, asked.workspace_id, asked.chat_id)
        return turns.answering(principal, *place, body)

    answer = partial(parts[ResponseService].answer, turn=turn)
    parts[JobEngine].handle(KIND, answer, concurrency=8, reserved=1, max_attempts=MAX_ATTEMPTS)
