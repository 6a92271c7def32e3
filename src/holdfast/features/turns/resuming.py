"""Owns chats that wait for a person's approval: once the call has ended, however, the turn goes on by itself."""

import asyncio
import logging
from contextlib import aclosing
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError
from holdfast.engines.events.bus import EventBus
from holdfast.engines.events.model import Event
from holdfast.engines.jobs import JobEngine, JobFailed, JobRun
from holdfast.features.chat import store as chat_store
from holdfast.features.execution import store as invocation_store
from holdfast.features.execution.model import Invocation
from holdfast.features.identity.standing import as_it_stands
from holdfast.features.turns.service import EndpointTurns
from holdfast.features.turns.store import ended_approvals
from holdfast.features.workspaces import store as workspace_store
from holdfast.storage.database import Database, Tx

KIND = "chat.resume"
LOOK_SECONDS = 2.0
RESULT_CHARACTERS = 20_000
_log = logging.getLogger(__name__)


class ApprovedTurns:
    """Answers the question that a turn stopped at with what the call gave, and takes the next turn in a job."""

    def __init__(
        self, database: Database, events: EventBus, jobs: JobEngine, clock: Clock, turns: EndpointTurns
    ) -> None:
        self._database = database
        self._events = events
        self._jobs = jobs
        self._clock = clock
        self._turns = turns
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Look at what ended, when told and now and then, until `stop`: what ended before a restart counts too."""
        async with self._events.subscribe(["invocation.*"], predicate=_was_asked_about) as ended:
            while not self._stopping.is_set():
                try:
                    if await self._database.read(ended_approvals):
                        await self._database.write(self._answer_all)
                except HoldfastError as problem:
                    _log.warning("Approved turns could not be looked through: %s", problem.message)
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await ended.get()
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    return

    async def stop(self) -> None:
        """End `run` at its next look."""
        self._stopping.set()

    def _answer_all(self, tx: Tx) -> None:
        for workspace_id, chat_id, correlation_id, invocation_id in ended_approvals(tx):
            invocation = invocation_store.find(tx, invocation_id)
            if invocation is None:
                continue
            answer = _told(invocation)
            if chat_store.answer_question(
                tx, correlation_id, answer, by=invocation.requested_by, now=self._clock.now()
            ):
                payload = {"chat_id": chat_id, "correlation_id": correlation_id, "invocation_id": invocation_id}
                self._jobs.enqueue(tx, KIND, payload, workspace_id=workspace_id, key=correlation_id)

    async def resume(self, job: JobRun) -> None:
        """The handler of the job: one turn, which nobody waits for, kept in the chat like any other."""
        chat_id, correlation_id = str(job.payload["chat_id"]), str(job.payload["correlation_id"])

        def look(tx: Tx) -> tuple[Invocation, str, str, str] | None:
            invocation = invocation_store.find(tx, str(job.payload["invocation_id"]))
            chat = chat_store.find(tx, job.workspace_id, chat_id)
            question = chat_store.find_question(tx, job.workspace_id, chat_id, correlation_id)
            if invocation is None or chat is None or question is None or question.state != "answered":
                return None
            as_it_stands(tx, invocation.principal, self._clock.now())
            workspace = workspace_store.find(tx, invocation.principal.organization_id, job.workspace_id)
            if workspace is None:
                return None
            return invocation, chat.endpoint, workspace.project_id, invocation.tool_name

        try:
            found = await self._database.read(look)
        except HoldfastError as problem:
            raise JobFailed(problem.message) from None
        if found is None:
            return
        invocation, endpoint, project_id, tool = found
        body: dict[str, Any] = {
            "messages": [],
            "x_ask_user": {"correlation_id": correlation_id},
            "web_search_options": {"x_tools": [tool]},
        }
        turn = self._turns.answering(invocation.principal, project_id, endpoint, job.workspace_id, chat_id, body)
        async with aclosing(turn) as events:
            async for _ in events:
                continue


def _was_asked_about(event: Event) -> bool:
    """Whether a call may have ended that a person was asked about: no turn waits for any other."""
    return "approval_id" in event.payload


def _told(invocation: Invocation) -> dict[str, Any]:
    """What the model is told its call gave."""
    told: dict[str, Any] = {"tool": invocation.tool_name, "status": invocation.status}
    if invocation.result is not None:
        texts = [str(block.get("text", "")) for block in invocation.result.get("content", ())]
        told["result"] = "\n".join(text for text in texts if text)[:RESULT_CHARACTERS]
    if invocation.error is not None:
        told["error"] = str(invocation.error.get("message", ""))
    return told
