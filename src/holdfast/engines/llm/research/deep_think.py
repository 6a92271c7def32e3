"""Owns Deep Think: look at the site in question, plan, research each sub-task in its own loop, write the report."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.core.errors import FieldError, HoldfastError, Invalid
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.assembly import AskedCall, Assembly, add_usage, tally_of
from holdfast.engines.llm.budget import Budgeted, hearing
from holdfast.engines.llm.calls import run_calls
from holdfast.engines.llm.citations import Sources, came_to_nothing
from holdfast.engines.llm.client_chunks import ClientChunks
from holdfast.engines.llm.extractive import embedded
from holdfast.engines.llm.extractive.extracts import parsed
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.model import (
    ROUNDS,
    CallEvent,
    ChunkEvent,
    Done,
    Json,
    LanguageModel,
    LoopEvent,
    LoopRequest,
    SideEvent,
)
from holdfast.engines.llm.research import material
from holdfast.engines.llm.research.findings import Structured, TaskResult, findings, tables
from holdfast.engines.llm.research.planning import Plan, SubTask, plain_plan, plan_from_json, read_plan, targets
from holdfast.engines.llm.research.report import (
    Searches,
    checked_report,
    empty_report,
    failed_remark,
    quoted_by_embedded,
    quoted_report,
    stated,
)

SUBTASK_TOKENS = 16_000
SUBTASK_ROUNDS = ROUNDS
FOLLOWED = 3
"""How many links of a site are read when it is looked at."""

_KNOWLEDGE = frozenset({"file_search", "recall_memory"})
_PARAGRAPH = re.compile(r"(?<=\n\n)")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrittenArtifact:
    """An artifact that was written."""

    identifier: str
    title: str
    version: int


class Notebook(Protocol):
    """Where a research keeps how far it is, and what it made."""

    async def resume(self) -> Json | None:
        """What was saved for this question and not finished."""
        ...

    async def save(self, state: Json) -> None: ...

    async def keep(self, part: str, title: str, content: str) -> WrittenArtifact:
        """Write an artifact; `part` is empty for the report itself."""
        ...

    async def finish(self) -> None:
        """Forget what was saved: the research is done."""
        ...


@dataclass(slots=True)
class _State:
    """How far a research is; all that a restart needs."""

    plan: Plan | None = None
    site: str = ""
    results: list[TaskResult] = field(default_factory=list)
    sources: Sources = field(default_factory=Sources)
    tabled: int = 0
    """Of how many results the tables were kept."""
    tables: int = 0
    has_findings: bool = False
    usage: Json = field(default_factory=dict)
    rounds: int = 0
    read: int = 0
    """How many sources the tools say they read."""
    researched: bool = False
    """Whether a research tool ran."""
    searches: Searches = field(default_factory=Searches)

    def as_json(self) -> Json:
        return {
            "plan": self.plan.as_json() if self.plan else None,
            "site": self.site,
            "results": [
                {"answer": each.answer, "sources": list(each.sources), "stated": each.stated} for each in self.results
            ],
            "sources": self.sources.as_json(),
            "tabled": self.tabled,
            "tables": self.tables,
            "has_findings": self.has_findings,
            "usage": self.usage,
            "rounds": self.rounds,
            "read": self.read,
            "researched": self.researched,
            "searches": [self.searches.asked, self.searches.failed],
        }

    @classmethod
    def of(cls, kept: Json | None) -> "_State":
        state = cls()
        if kept is not None:
            state.plan = plan_from_json(kept["plan"]) if kept["plan"] else None
            state.site, state.has_findings = kept["site"], kept["has_findings"]
            state.tabled, state.tables = kept["tabled"], kept["tables"]
            # A research that an older version began has neither what was stated nor its searches.
            state.results = [
                TaskResult(each["answer"], tuple(each["sources"]), each.get("stated", "")) for each in kept["results"]
            ]
            state.searches = Searches(*kept.get("searches", (0, 0)))
            state.sources.restore(kept["sources"])
            state.usage, state.rounds = kept["usage"], kept["rounds"]
            state.read, state.researched = kept["read"], kept["researched"]
        return state


class DeepThink:
    """One instance serves every research; a research's state lives in its iterator and its notebook."""

    def __init__(self, loop: Loop, now: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._now = now

    async def run(
        self, model: LanguageModel, request: LoopRequest, notebook: Notebook
    ) -> AsyncGenerator[LoopEvent, None]:
        """The events of one research, `Done` last. What is wrong with the request is raised before the first.

        An error is told as `x_deep_think.error` and raised; asked again, the research goes on where it was.
        """
        question = _checked(request.body)
        research = _Research(self._loop, model, request, notebook, question, self._now)
        try:
            async with aclosing(research.events()) as events:
                async for event in events:
                    yield event
        except HoldfastError as problem:
            yield _told("error", message=problem.message)
            raise
        except Exception:
            _log.exception("Deep Think failed.")
            yield _told("error", message="Deep Think failed unexpectedly; ask again to go on where it was.")
            raise


class _Research:
    def __init__(
        self,
        loop: Loop,
        model: LanguageModel,
        request: LoopRequest,
        notebook: Notebook,
        question: str,
        now: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._model = model
        self._request = request
        self._notebook = notebook
        self._question = question
        self._now = now
        self._began = now()
        self._tools = [tool for tool in request.tools if tool.research or tool.name in _KNOWLEDGE]
        self._has_model = model.name != embedded.NAME
        self._state = _State()

    async def events(self) -> AsyncGenerator[LoopEvent, None]:
        self._state = _State.of(await self._notebook.resume())
        if self._state.plan is None:
            async with aclosing(self._discover()) as events:
                async for event in events:
                    yield event
            self._state.plan = await self._planned()
            await self._save()
        plan = self._state.plan
        yield _told("plan_created", title=plan.title, total_subtasks=len(plan.subtasks))
        for index, task in enumerate(plan.subtasks):
            async with aclosing(self._subtask(plan, index, task)) as events:
                async for event in events:
                    yield event
        if not self._state.has_findings:
            listed = findings(plan, self._state.results, self._state.sources.by_number)
            if listed is not None:
                yield await self._structured(listed, "findings")
            self._state.has_findings = True
            await self._save()
        async with aclosing(self._report(plan)) as events:
            async for event in events:
                yield event

    # Looking at the site in question.

    async def _discover(self) -> AsyncGenerator[LoopEvent, None]:
        tool = next((tool for tool in self._tools if tool.name == "fetch_url"), None)
        sites = targets(self._question)
        if tool is None or not sites:
            return
        yield _told("discovery_started", mode="target", message=f"Looking at {', '.join(sites)}")
        arguments = dumps({"urls": sites, "discover_links": True, "max_follow": FOLLOWED}).decode()
        call = AskedCall("call_discovery", tool.name, arguments)
        if tool.event is not None:
            yield SideEvent({"type": tool.event, "name": call.name, "arguments": arguments})
        pages = 0
        async with aclosing(run_calls(self._request, {tool.name: tool}, [call])) as running:
            async for finished in running:
                outcome = finished.outcome
                if tool.research:
                    self._state.researched = True
                    yield SideEvent({"type": "x_research.result", "name": call.name, "tool_call_id": call.id})
                ended = CallEvent(call.id, call.name, call.arguments, outcome, finished.failed)
                yield ended
                self._read(ended)
                self._state.read += outcome.sources
                pages, self._state.site = material.site_map(None if finished.failed else parsed(outcome.text))
        message = f"Read {pages} page{'' if pages == 1 else 's'}" if pages else "No page of it could be read"
        yield _told("discovery_completed", pages_fetched=pages, site_map=self._state.site, message=message)

    # Planning.

    async def _planned(self) -> Plan:
        if not self._has_model:
            return plain_plan(self._question)
        names = [tool.name for tool in self._tools]
        body = material.planning(self._request.body, names, self._state.site)
        answer = Assembly()
        async with aclosing(Budgeted(self._model, SUBTASK_TOKENS).stream(body)) as chunks:
            async for chunk in chunks:
                answer.add(chunk)
        self._state.usage = add_usage(self._state.usage, answer.usage)
        return read_plan(str(answer.message.get("content") or ""), self._question, names)

    # Researching.

    async def _subtask(self, plan: Plan, index: int, task: SubTask) -> AsyncGenerator[LoopEvent, None]:
        total = len(plan.subtasks)
        yield _told(
            "subtask_started", subtask_id=task.id, subtask_query=task.query, subtask_index=index, total_subtasks=total
        )
        if index >= len(self._state.results):
            async with aclosing(self._looked_into(plan, task)) as events:
                async for event in events:
                    yield event
        if index == total - 1 and self._state.researched:
            yield SideEvent(self._research_complete())
        yield _told("subtask_completed", subtask_id=task.id, subtask_index=index)
        if index < self._state.tabled:
            return
        for table in tables(self._state.results[index].stated, task.query, self._state.sources.by_number):
            yield await self._structured(table, f"{table.kind}-{self._state.tables + 1}")
            self._state.tables += 1
        self._state.tabled = index + 1
        await self._save()

    async def _looked_into(self, plan: Plan, task: SubTask) -> AsyncGenerator[LoopEvent, None]:
        body = material.subtask(self._request.body, plan, task, self._question, self._state.site)
        model = Budgeted(self._model, SUBTASK_TOKENS)
        rounds = min(self._request.max_rounds, SUBTASK_ROUNDS)
        request = LoopRequest(body, self._tools, rounds, self._request.turn_away)
        numbers: list[int] = []
        answer = ""
        async with aclosing(self._loop.run(model, request)) as events:
            async for event in events:
                if isinstance(event, CallEvent):
                    numbers += self._read(event)
                    yield event
                elif isinstance(event, SideEvent) and event.data.get("type") != "x_research.complete":
                    self._state.researched = self._state.researched or event.data.get("type") == "x_research.result"
                    yield event
                elif isinstance(event, Done):
                    self._state.rounds += event.rounds
                    self._state.read += event.sources
                    self._state.usage = add_usage(self._state.usage, event.usage)
                    answer = str(event.message.get("content") or "")
        if not self._has_model:
            answer, quoted = quoted_by_embedded(answer, self._state.sources)
            numbers += quoted
        # Off the event loop: every sentence is held against every source that it cites.
        held = await asyncio.to_thread(stated, answer, task.query, self._state.sources.by_number)
        self._state.results.append(TaskResult(answer, tuple(dict.fromkeys(numbers)), held))
        await self._save()

    def _read(self, call: CallEvent) -> list[int]:
        if call.name != "calculator":
            self._state.searches.asked += 1
            self._state.searches.failed += came_to_nothing(call)
        return self._state.sources.read(call)

    def _research_complete(self) -> Json:
        tally = tally_of(self._state.usage)
        return {
            "type": "x_research.complete",
            "elapsed_ms": self._elapsed(),
            "input_tokens": tally.input_tokens,
            "output_tokens": tally.output_tokens,
            "iterations": self._state.rounds,
            "sources": self._state.read,
        }

    async def _structured(self, made: Structured, part: str) -> SideEvent:
        kept = await self._notebook.keep(part, made.title, made.content)
        noun = "point" if made.kind == "findings" else "row"
        message = f"Saved {made.count} {noun}{'' if made.count == 1 else 's'} as {kept.identifier}"
        return _told("artifact_created", artifact_type=made.kind, artifact_title=made.title, message=message)

    # Reporting.

    async def _report(self, plan: Plan) -> AsyncGenerator[LoopEvent, None]:
        count, read = len(plan.subtasks), len(self._state.sources)
        told = f"{read} source{'' if read == 1 else 's'}"
        yield _told("synthesizing", message=f"Writing the report from {count} sub-tasks and {told}")
        voice = ClientChunks(whole=False)
        reason = "stop"
        if self._has_model:
            answer = Assembly()
            async with aclosing(self._synthesis(plan, voice, answer)) as chunks:
                async for chunk in chunks:
                    yield chunk
            self._state.usage = add_usage(self._state.usage, answer.usage)
            reason = "length" if answer.finish_reason == "length" else "stop"
            written = str(answer.message.get("content") or "")
        else:
            voice.hear({"model": self._model.name})
            written = ""
        # Off the event loop: every sentence is held against every source that it cites.
        report = await asyncio.to_thread(self._checked, plan, written)
        for paragraph in _PARAGRAPH.split(report):
            for said in voice.add(paragraph):
                yield ChunkEvent(said)
        wants_usage = (self._request.body.get("stream_options") or {}).get("include_usage")
        for last in voice.end(reason, self._state.usage if wants_usage else None):
            yield ChunkEvent(last)
        kept = await self._notebook.keep("", plan.title, voice.content)
        await self._notebook.finish()
        yield SideEvent(
            {
                "type": "x_artifact.created",
                "identifier": kept.identifier,
                "title": kept.title,
                "version": kept.version,
            }
        )
        yield _told("completed", title=plan.title, artifact_name=kept.identifier)
        yield Done(
            {"role": "assistant", "content": voice.content},
            reason,
            tally_of(self._state.usage),
            self._state.rounds,
            self._state.read,
            self._elapsed(),
            usage=self._state.usage,
        )

    async def _synthesis(self, plan: Plan, voice: ClientChunks, answer: Assembly) -> AsyncGenerator[ChunkEvent, None]:
        """Hear the model out. Its thinking goes on at once; what it says waits until the whole can be checked."""
        sources = self._state.sources.by_number
        # Off the event loop: every sentence of every source is weighed.
        body = await asyncio.to_thread(
            material.synthesis, self._request.body, plan, self._state.results, sources, self._question
        )
        async with hearing(self._model, body) as chunks:
            async for chunk in chunks:
                answer.add(chunk)
                heard, _ = voice.hear(chunk)
                for choice in heard["choices"] if heard else ():
                    delta = {key: value for key, value in choice["delta"].items() if key != "content"}
                    if delta:
                        yield ChunkEvent(voice.chunk(delta))

    def _checked(self, plan: Plan, written: str) -> str:
        """The report: what the model wrote as far as it holds, or quotations, or that there is nothing."""
        sources, searches = self._state.sources.by_number, self._state.searches
        if not sources:
            said, remark = empty_report(plan, searches), ""
        else:
            said, remark = checked_report(written, self._question, sources)
            said = said or quoted_report(plan, self._state.results, sources)
            remark = "\n\n".join(filter(None, [remark, failed_remark(searches) if searches.failed else ""]))
        return "\n\n".join(filter(None, [said, remark, "" if self._has_model else embedded.HINT]))

    async def _save(self) -> None:
        await self._notebook.save(self._state.as_json())

    def _elapsed(self) -> int:
        return round((self._now() - self._began) * 1000)


def _told(name: str, **fields: Any) -> SideEvent:
    return SideEvent({"type": f"x_deep_think.{name}", **fields})


def _checked(body: Json) -> str:
    """The question; Invalid for what a research cannot do."""
    if body.get("n") not in (None, 1):
        raise _wrong("n", "must be 1 with Deep Think")
    wanted = body.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") not in (None, "text"):
        raise _wrong("response_format", "leave it out; Deep Think writes a report in Markdown")
    question = material.last_question(body.get("messages"))
    if not question:
        raise _wrong("messages", "the last message of the user has to ask something")
    return question


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid(f"Deep Think cannot do this: {field}: {problem}.", fields=[FieldError(field, problem)])
