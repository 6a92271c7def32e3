"""Deep Think as turns of chats: checkpoints in the store, reports as artifacts, and real pages behind citations."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.core.errors import RateLimited
from holdfast.core.settings import Settings
from holdfast.core.tools.outcome import Outcome
from holdfast.engines.fetch.network.guard import FetchLimits, Guard
from holdfast.engines.fetch.pages import Fetcher
from holdfast.engines.fetch.reader import Reader
from holdfast.engines.llm.extractive.embedded import Extractive
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.model import LoopRequest, LoopTool
from holdfast.engines.llm.research.deep_think import DeepThink
from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.chat.model import Served
from holdfast.features.chat.turn.tools import TurnPlace
from holdfast.features.deep_think.service import KEPT_MILLIS, DeepThinkService
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.fakes.web import Names, html, site
from tests.support.clock import MovableClock
from tests.support.event_grammar import check
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.features.chats import ScriptedModel, Taken, call, said, take
from tests.support.services import build_services
from tests.support.world import World, new_world

QUESTION = "How much is six times seven, and why?"
PLAN = json.dumps({"title": "Six times seven", "subtasks": ["compute it", "who cares", "what else"]})
DEEP: dict[str, Any] = {"web_search_options": {"x_deep_think": True}}
WHOLE = (PLAN, call("calculator", expression="6*7"), "It is 42.", "Everybody.", "Nothing.", "# Six\n\nIt is 42 [1].")
REPORT = "# Six\n\nIt is 42 [1].\n\n## Sources\n\n- [1] calculator: 6*7 = 42"


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    made = await new_world(database, clock)
    yield made
    await made.services.web.close()


async def runs(world: World) -> int:
    found = await world.services.database.read(lambda tx: tx.all("SELECT question FROM deep_think_run"))
    return len(found)


async def report(world: World, name: str, chat_id: str | None) -> str:
    reference = ArtifactReference(identifier=name, chat_id=chat_id)
    artifacts, owner, space = world.services.artifacts, world.owner, world.start.workspace_id
    found = await artifacts.read(owner, space, (await artifacts.find(owner, space, reference)).id)
    assert found.content is not None
    return found.content


@pytest.mark.contract("XS-6")
async def test_a_turn_of_deep_think_keeps_its_report_with_the_chat(world: World) -> None:
    model = ScriptedModel(*WHOLE)
    taken = await take(world, model, said(QUESTION), **DEEP)
    wire = [getattr(event, "chunk", None) or getattr(event, "data", None) for event in taken.events]
    check([each for each in wire if each])
    name = taken.side("x_deep_think.completed")["artifact_name"]
    assert re.fullmatch(r"deep-think-\d{8}-\d{6}\.md", name)
    assert await report(world, name, "c1") == taken.text == REPORT
    assert taken.types[-1] == "x_chat.metadata"
    assert taken.metadata["usage"]["total_tokens"] == 6 * 110
    assert taken.metadata["usage"]["research"]["iterations"] == 1
    path = await world.services.chats.messages(world.owner, world.start.workspace_id, "c1")
    assert path.items[-1].message["content"] == taken.text
    assert await runs(world) == 0


async def test_reports_of_the_same_second_have_names_of_their_own(world: World) -> None:
    names = []
    for question in ("What is a heron?", "What is a tide?"):
        taken = await take(world, ScriptedModel(*WHOLE), said(question), chat_id=None, **DEEP)
        names.append(taken.side("x_deep_think.completed")["artifact_name"])
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"deep-think-\d{8}-\d{6}\.md", name) for name in names)


@pytest.mark.contract("XS-6")
async def test_a_research_that_was_refused_goes_on_in_the_same_chat_only(world: World) -> None:
    first = ScriptedModel(*WHOLE[:3], RateLimited("slow down"))
    with pytest.raises(RateLimited):
        await take(world, first, said(QUESTION), **DEEP)
    assert await runs(world) == 1

    elsewhere = ScriptedModel(*WHOLE)
    await take(world, elsewhere, said(QUESTION), chat_id="c2", **DEEP)
    assert elsewhere.turns == []
    assert await runs(world) == 1

    again = ScriptedModel(*WHOLE[3:])
    taken = await take(world, again, said(QUESTION), **DEEP)
    assert len(again.bodies) == 3
    assert taken.text == REPORT
    assert await runs(world) == 0


async def test_another_process_takes_up_what_one_left(world: World, database: Database) -> None:
    with pytest.raises(RateLimited):
        await take(world, ScriptedModel(*WHOLE[:4], RateLimited("slow down")), said(QUESTION), **DEEP)
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    other = World(build_services(settings, database, world.clock, WordEmbedder()), world.start, world.clock)
    again = ScriptedModel(*WHOLE[4:])
    taken = await take(other, again, said(QUESTION), **DEEP)
    assert len(again.bodies) == 2
    assert taken.done.tally.total == 6 * 110
    await other.services.web.close()


async def test_a_chat_that_is_deleted_takes_its_unfinished_research_along(world: World) -> None:
    with pytest.raises(RateLimited):
        await take(world, ScriptedModel(PLAN, RateLimited("slow down")), said(QUESTION), **DEEP)
    assert await runs(world) == 1
    await world.services.chats.delete(world.owner, world.start.workspace_id, "c1")
    assert await runs(world) == 0


async def test_what_nobody_came_back_for_begins_anew(world: World) -> None:
    with pytest.raises(RateLimited):
        await take(world, ScriptedModel(PLAN, RateLimited("slow down")), said(QUESTION), **DEEP)
    world.clock.advance(seconds=KEPT_MILLIS / 1000 + 1)
    model = ScriptedModel(*WHOLE)
    await take(world, model, said(QUESTION), **DEEP)
    assert model.turns == []
    assert await runs(world) == 0


@pytest.mark.contract("XS-6")
async def test_citations_are_checked_against_pages_as_they_were_fetched(world: World) -> None:
    async with site() as web:
        web.pages["/"] = html('<h1>Herons</h1><p>Grey herons nest in April.</p><a href="/food">What they eat</a>')
        web.pages["/food"] = html("<p>They eat <b>small fish</b> and frogs.</p>")
        guard = Guard(
            allow_private=[f"site.test:{web.port}"],
            resolver=Names(site_test=["127.0.0.1"]),
            limits=FetchLimits(seconds=60),
        )
        reader = Reader(guard)
        fetch = _fetch_tool(Fetcher(reader, seconds=90))
        place = TurnPlace(world.owner, world.start.project_id, world.start.workspace_id, None)
        body = {"messages": said(f"What does {web.url()} say?")}
        cited = 'Grey herons nest in April [1 "herons nest in April"]. They eat small fish [2 "small fish and frogs"]. '
        cited += 'They sing [2 "they sing"].'
        model = ScriptedModel(PLAN, "One.", "Two.", "Three.", cited)
        services = world.services
        think = DeepThinkService(
            services.database, services.workspaces, services.artifacts, DeepThink(Loop()), world.clock
        )
        taken = Taken([event async for event in think(place, model, LoopRequest(body, [fetch]))])
        found = taken.side("x_deep_think.discovery_completed")
        assert found["pages_fetched"] == 2
        assert "/food" in found["site_map"]
        assert taken.text.startswith("Grey herons nest in April [1]. They eat small fish [2].\n\n## Sources")
        assert web.url("/food") in taken.text
        assert "bears it out: 1 statement, 1 citation" in taken.text
        await reader.aclose()
        await guard.aclose()


async def test_the_embedded_model_thinks_deeply_too(world: World) -> None:
    served = Served("default", Extractive(), frozenset({"web_search", "fetch_url"}), lambda tally: 0.0)
    turn = world.services.chat_turns.turn(
        world.owner,
        world.start.project_id,
        world.start.workspace_id,
        served,
        {"messages": said("What is 6 * 7?"), **DEEP},
        None,
    )
    taken = Taken([event async for event in turn])
    assert "6 * 7 = 42" in taken.text
    assert "x_deep_think.completed" in taken.types


def _fetch_tool(fetcher: Fetcher) -> LoopTool:
    async def run(arguments: dict[str, Any]) -> Outcome:
        found = await fetcher.fetch(arguments["urls"], discover_links=True, max_follow=arguments["max_follow"])
        pages = [
            {
                "url": page.url,
                "content": page.content,
                "error": page.error,
                "discovered_links": [{"url": link.url, "text": link.text} for link in page.discovered_links or ()],
            }
            for page in found.pages
        ]
        return Outcome(json.dumps({"pages": pages}), sources=len(pages), untrusted=True)

    return LoopTool("fetch_url", "Reads.", {"type": "object"}, run, event="x_research.reading", research=True)
