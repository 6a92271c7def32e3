"""Owns responses: reading a request with what came before it, keeping answers, and answering in the background."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid, Unauthenticated
from holdfast.core.principal import Principal
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.jobs.model import JobFailed, JobNotFound
from holdfast.engines.jobs.run import JobRun
from holdfast.engines.llm.model import Json, LoopEvent
from holdfast.engines.llm.remote.upstream import UpstreamRefused
from holdfast.features.audit.service import Audit
from holdfast.features.chat.turn.selection import DEEP_THINK, tool_options
from holdfast.features.identity.standing import as_it_stands
from holdfast.features.responses import store
from holdfast.features.responses.conversations import store as conversation_store
from holdfast.features.responses.conversations.model import MAX_ITEMS, full
from holdfast.features.responses.conversations.service import ConversationPlace, ConversationService
from holdfast.features.responses.event_log import ENDS, POLL_SECONDS, EventLog, LogWriter, told
from holdfast.features.responses.events import ResponseEvents
from holdfast.features.responses.items import input_items
from holdfast.features.responses.model import (
    OPEN,
    ItemNotFound,
    ResponseNotFound,
    ResponseRequest,
    Stored,
    check,
    fresh_id,
    wrong,
)
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

KIND = "response"
MAX_ATTEMPTS = 3
MAX_CHAIN = 500
"""How many responses a conversation may have behind it."""
KEPT_MILLIS = 30 * 86_400_000

Turn = Callable[[Principal, ResponseRequest, Json], AsyncGenerator[LoopEvent, None]]
"""Takes a turn for a request: who asks, what for, and the Chat Completions body."""


class ResponseService:
    """The responses of an installation."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        conversations: ConversationService,
        jobs: JobEngine,
        clock: Clock,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._conversations = conversations
        self._jobs = jobs
        self._clock = clock
        self._log = EventLog()

    def now(self) -> int:
        """The time by which responses are stamped."""
        return self._clock.now()

    async def ask(
        self, principal: Principal, project_id: str, workspace_id: str | None, endpoint: str, request: Json
    ) -> ResponseRequest:
        """Read a request; Invalid or NotFound for what cannot be answered."""
        principal.require("inference")
        check(request)
        goes_on = request.get("previous_response_id") or request.get("conversation")
        items = [] if request.get("input") is None and goes_on else input_items(request.get("input"))
        named = workspace_id
        workspace_id = named or await self._first_workspace(principal, project_id)

        def work(tx: Tx) -> ResponseRequest:
            place = self._workspaces.check(tx, principal, workspace_id).id
            within = None if named is None else place
            asked = ResponseRequest(fresh_id(), project_id, place, endpoint, request, items, [], self._clock.now())
            history = self._before(tx, principal, asked, within)
            return replace(asked, items=self._resolved(tx, principal, asked, history, within), history=history)

        asked = await self._database.read(work)
        if tool_options(asked.translated().body).deep_think:
            # Told now: a background answer would only fail later.
            DEEP_THINK.check(principal)
        return asked

    def events(self, asked: ResponseRequest) -> ResponseEvents:
        """A response that is about to be made."""
        return ResponseEvents(asked.object("in_progress"), asked.translated().functions, self._clock.now)

    async def keep(self, principal: Principal, asked: ResponseRequest, response: Json) -> None:
        """Keep an answer, unless the client wants none kept; in its conversation in any case."""
        kept = Stored(asked, response["status"], response, principal, None)

        def work(tx: Tx) -> None:
            if asked.stored:
                self._insert(tx, kept)
            self._add(tx, kept)

        if asked.stored or asked.conversation_id is not None:
            await self._database.write(work)

    async def begin(self, principal: Principal, asked: ResponseRequest) -> Json:
        """Answer in the background; the response as it is now."""
        queued = Stored(asked, "queued", asked.object("queued"), principal, None)

        def work(tx: Tx) -> None:
            payload = {"id": asked.id, "project_id": asked.project_id}
            job_id = self._jobs.enqueue(tx, KIND, payload, workspace_id=asked.workspace_id, max_attempts=MAX_ATTEMPTS)
            self._insert(tx, replace(queued, job_id=job_id))
            if asked.streamed:
                store.add_events(tx, asked.id, queued.first_events())

        await self._database.write(work)
        return queued.response

    async def get(self, principal: Principal, project_id: str, workspace_id: str | None, response_id: str) -> Stored:
        """One response, as far as it is; of the workspace that is named, or of any in the project."""
        principal.require_any("read", "inference")
        return await self._database.read(lambda tx: self._found(tx, principal, project_id, workspace_id, response_id))

    async def follow(
        self, principal: Principal, project_id: str, workspace_id: str | None, response_id: str, after: int = -1
    ) -> AsyncGenerator[Json, None]:
        """The events of a background response behind one of them, those to come included, until it is over."""
        place = (principal, project_id, workspace_id, response_id)
        first = await self.get(*place)
        if first.job_id is None or not first.asked.streamed:
            problem = "leave it out: only a response made with background and stream can be followed"
            raise Invalid("The response can't be streamed.", fields=[FieldError("stream", problem)])

        def work(tx: Tx) -> tuple[Stored, list[Json], list[Json]]:
            # The status first: whoever is over has told everything.
            found = self._found(tx, *place)
            events = store.events_after(tx, response_id, after)
            return found, events, events or store.last_events(tx, response_id)

        with self._log.followed(response_id) as news:
            while True:
                news.clear()
                found, events, last = await self._database.read(work)
                for event in events:
                    yield event
                    after = event["sequence_number"]
                if last[-1]["type"] in ENDS:
                    return
                if events:
                    continue
                if found.status not in OPEN:
                    # Cancelled, or its job gave up: nobody was there to tell the end.
                    yield found.last_event(last[-1]["sequence_number"] + 1)
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await news.wait()

    async def cancel(self, principal: Principal, project_id: str, workspace_id: str | None, response_id: str) -> Json:
        """Stop a background response; one that is over stays as it is."""
        principal.require("inference")

        def work(tx: Tx) -> Json:
            found = self._found(tx, principal, project_id, workspace_id, response_id)
            if found.job_id is None:
                raise Conflict("Only a background response can be cancelled; end the request of any other.")
            if found.status not in OPEN:
                return found.response
            over = found.ended("cancelled")
            store.end(tx, response_id, "cancelled", over.response, self._clock.now())
            self._jobs.cancel(tx, found.job_id)
            self._audit.record(
                tx,
                principal,
                "response.cancel",
                resource="response",
                resource_id=response_id,
                workspace_id=found.asked.workspace_id,
            )
            return over.response

        response = await self._database.write(work)
        self._log.wake(response_id)
        return response

    async def delete(self, principal: Principal, project_id: str, workspace_id: str | None, response_id: str) -> None:
        """Forget a response, and stop it where it still runs."""
        principal.require("inference")

        def work(tx: Tx) -> None:
            found = self._found(tx, principal, project_id, workspace_id, response_id)
            if found.job_id is not None and found.status in OPEN:
                self._jobs.cancel(tx, found.job_id)
            store.delete(tx, response_id)
            self._audit.record(
                tx,
                principal,
                "response.delete",
                resource="response",
                resource_id=response_id,
                workspace_id=found.asked.workspace_id,
            )

        await self._database.write(work)

    async def answer(self, run: JobRun, turn: Turn) -> None:
        """A background job: take the turn, and write the answer unless somebody cancelled meanwhile.

        Nothing of a turn is kept before its end, so one that a restart interrupts is taken again.
        """
        response_id, project_id = str(run.payload["id"]), str(run.payload["project_id"])

        def begin(tx: Tx) -> Stored | None:
            found = store.find(tx, response_id, project_id)
            if found is None or found.status not in OPEN:
                return None
            store.end(tx, response_id, "in_progress", {**found.response, "status": "in_progress"}, self._clock.now())
            return found

        found = await self._database.write(begin)
        if found is None:
            return
        principal = await self._still_allowed(found.principal)
        asked = await self._with_history(principal, found.asked)
        async with self._log.writing(run, response_id) as writer:
            made = await self._made(asked, writer, turn(principal, asked, asked.translated().body))
        response = made.response
        over = replace(found, asked=asked, status=response["status"], response=response)

        def end(tx: Tx) -> None:
            if asked.streamed and (last := writer.take()):
                store.add_events(tx, asked.id, last)
            if store.end(tx, asked.id, over.status, response, self._clock.now()):
                store.index_items(tx, over)
                self._add(tx, over)

        await run.commit("answer", end)
        self._log.wake(response_id)

    async def _made(
        self, asked: ResponseRequest, writer: LogWriter, turn: AsyncGenerator[LoopEvent, None]
    ) -> ResponseEvents:
        """Take a background turn to its end, telling its events to the log where they are wanted."""
        before = await self._database.read(lambda tx: told(store.all_events(tx, asked.id))) if asked.streamed else None
        made = ResponseEvents(asked.object("in_progress"), asked.translated().functions, self._clock.now, before)
        if asked.streamed:
            writer.add(made.go_on())
        try:
            async with aclosing(turn) as events:
                async for event in events:
                    heard = list(made.hear(event))
                    if asked.streamed:
                        writer.add(heard)
        except Forbidden as problem:
            # The key was narrowed since; asking again gives the same.
            raise JobFailed(problem.message) from problem
        except UpstreamRefused as problem:
            if problem.retryable:
                raise
            raise JobFailed(problem.message) from problem
        return made

    async def _still_allowed(self, principal: Principal) -> Principal:
        """Who asked, with what they may do now: time passed since, keys are revoked and narrowed, people removed."""
        try:
            current = await self._database.read(lambda tx: as_it_stands(tx, principal, self._clock.now()))
            current.require("inference")
        except (Unauthenticated, Forbidden) as problem:
            who = "person" if principal.is_person else "key"
            raise JobFailed(f"The {who} that asked for this response is not allowed to any more.") from problem
        return current

    async def _with_history(self, principal: Principal, asked: ResponseRequest) -> ResponseRequest:
        history = await self._database.read(lambda tx: self._before(tx, principal, asked, None))
        return replace(asked, history=history)

    def _insert(self, tx: Tx, stored: Stored) -> None:
        asked = stored.asked
        store.delete_before(tx, asked.workspace_id, self._clock.now() - KEPT_MILLIS)
        store.insert(tx, stored)
        store.index_items(tx, stored)

    @staticmethod
    def _add(tx: Tx, stored: Stored) -> None:
        """Add what was asked and answered to the conversation."""
        asked = stored.asked
        if asked.conversation_id is not None:
            # There was room when it was asked; what came of it is not lost for a few items more.
            items = [*asked.items, *stored.response["output"]]
            conversation_store.append(tx, asked.conversation_id, items, most=2 * MAX_ITEMS)

    def _found(
        self, tx: Tx, principal: Principal, project_id: str, workspace_id: str | None, response_id: str
    ) -> Stored:
        found = store.find(tx, response_id, project_id)
        if found is None or not _within(principal, found.asked.workspace_id, workspace_id):
            raise ResponseNotFound(response_id)
        self._workspaces.check(tx, principal, found.asked.workspace_id)
        return self._settled(tx, found)

    def _settled(self, tx: Tx, found: Stored) -> Stored:
        """Failed where its job came to an end without an answer."""
        if found.job_id is None or found.status not in OPEN:
            return found
        try:
            job = self._jobs.find(tx, found.job_id)
        except JobNotFound:
            return found.ended("failed", {"code": "server_error", "message": "The answer was lost; ask again."})
        if job.state == "failed":
            return found.ended("failed", {"code": "server_error", "message": job.error or "The answer failed."})
        return found.ended("cancelled") if job.state == "cancelled" else found

    def _before(self, tx: Tx, principal: Principal, asked: ResponseRequest, workspace_id: str | None) -> list[Json]:
        """What came before a request: its conversation, or the responses that it goes on from."""
        if asked.conversation_id is not None:
            place = ConversationPlace(principal, asked.project_id, workspace_id, asked.conversation_id)
            items = conversation_store.items(tx, self._conversations.found(tx, place).id, limit=2 * MAX_ITEMS)
            if len(items) + len(asked.items) > MAX_ITEMS:
                raise full()
            return items
        return self._history(tx, principal, asked.project_id, asked.previous_id, workspace_id)

    def _resolved(
        self, tx: Tx, principal: Principal, asked: ResponseRequest, history: Sequence[Json], workspace_id: str | None
    ) -> list[Json]:
        """The items with each reference replaced by what it refers to, once: the history may have it too."""
        wanted = [item["id"] for item in asked.items if item["type"] == "item_reference"]
        if not wanted:
            return asked.items
        kept = [
            *store.referenced(tx, asked.project_id, wanted),
            *conversation_store.referenced(tx, asked.project_id, wanted),
        ]
        found = {item["id"]: item for where, item in kept if _within(principal, where, workspace_id)}
        seen = {item["id"] for item in history}
        items = []
        for number, item in enumerate(asked.items):
            if item["type"] == "item_reference":
                if item["id"] not in found and item["id"] not in seen:
                    raise ItemNotFound(f"input[{number}].id", item["id"])
                item = found.get(item["id"], item)
                if item["id"] in seen:
                    continue
            seen.add(item["id"])
            items.append(item)
        return items

    def _history(
        self, tx: Tx, principal: Principal, project_id: str, previous: str | None, workspace_id: str | None
    ) -> list[Json]:
        """Everything that was said up to and with a response, oldest first."""
        rounds: list[list[Json]] = []
        while previous is not None:
            link = store.links(tx, previous, project_id)
            if link is None or not _within(principal, link[1], workspace_id):
                raise ResponseNotFound(previous)
            self._workspaces.check(tx, principal, link[1])
            if len(rounds) >= MAX_CHAIN:
                raise wrong("previous_response_id", f"a conversation may have {MAX_CHAIN} responses; begin another")
            rounds.append([*link[2], *link[3]])
            previous = link[0]
        return [item for items in reversed(rounds) for item in items]

    async def _first_workspace(self, principal: Principal, project_id: str) -> str:
        page = await self._workspaces.list(principal, project_id=project_id, limit=1)
        if not page.items:
            raise wrong("(workspace)", "the project has none that this credential sees; make one first")
        return page.items[0].id


def _within(principal: Principal, where: str, named: str | None) -> bool:
    """Whether a response's workspace is one that the principal sees, and the one that the request names."""
    return principal.sees_workspace(where) and named in (None, where)
