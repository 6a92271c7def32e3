"""Owns the proof that a repository leaves the answers from what people told in place, wherever kinds are mixed."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from holdfast.engines.llm.extractive.embedded import SMALL_TALK
from holdfast.engines.llm.model import Done
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.intelligence.model import NewDecision
from holdfast.features.memory.model import NewMemory
from holdfast.features.turns.service import EndpointTurns
from holdfast.registry.precedence import KnowledgeKind, place_of_hit
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

DEPLOYED = "We deploy on Tuesdays at 14:00 UTC."
TEST = '''"""Tests of deploying. When do we deploy? Hello."""


def test_hello_when_do_we_deploy() -> None:
    """When we deploy, say hello: do we deploy when we deploy?"""
    assert when_do_we_deploy("hello") == "we deploy"
'''
CODE = '''def when_do_we_deploy(hello: str) -> str:
    """When do we deploy: hello tells when we do deploy."""
    return "we deploy"
'''


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    """A workspace with one memory, one decision and a repository that has the same words all over."""
    repo = GitRepo(tmp_path / "ship")
    repo.commit("Say when we deploy", {"tests/test_deploy.py": TEST, "src/deploy.py": CODE})
    repo.commit("Tell when we deploy", {f"tests/fixtures/deploy_{number}.py": TEST for number in range(6)})
    repo.commit("Describe deploys", {"docs/deploy.md": "# Deploying\n\nWhen we deploy, the pipeline runs first.\n"})
    async with repository_world(database, clock, tmp_path / "data") as world:
        await world.services.memory.save(world.principal, world.workspace_id, NewMemory(DEPLOYED))
        decided = NewDecision("Deploy from main only", rationale="Fixes on branches were lost.")
        await world.services.intelligence.decisions.track(world.principal, world.workspace_id, decided)
        await world.add(repo)
        await world.services.search.tend()
        yield world


async def said(here: RepositoryWorld, question: str) -> str:
    """What the embedded model answers in a chat."""
    turns = here.services[EndpointTurns]
    project = await here.services.workspaces.get(here.principal, here.workspace_id)
    endpoint = await here.services[EndpointModels].connect(project.project_id, "default")
    body = {"messages": [{"role": "user", "content": question}]}
    turn = turns.turn(here.principal, project.project_id, here.workspace_id, endpoint, body, None)
    async with aclosing(turn) as events:
        async for event in events:
            if isinstance(event, Done):
                return str(event.message["content"])
    raise AssertionError("the turn has no end")


async def test_a_greeting_gets_an_honest_line_and_no_source(here: RepositoryWorld) -> None:
    for greeting in ("Hello", "hi there!", "Thanks a lot", "Who are you?"):
        answer = await said(here, greeting)
        assert answer.startswith(SMALL_TALK) and "Sources:" not in answer


async def test_a_chat_answers_from_what_was_told_before_what_was_read(here: RepositoryWorld) -> None:
    answer = await said(here, "When do we deploy?")

    assert answer.startswith(f"- {DEPLOYED} [1]\n")
    assert "tests/" not in answer and "src/" not in answer


async def test_a_chat_asked_about_nothing_that_is_known_says_so(here: RepositoryWorld) -> None:
    assert "I found nothing about this" in await said(here, "What does the zebra sandwich cost?")


async def test_a_chat_still_quotes_code_where_nothing_else_answers(here: RepositoryWorld) -> None:
    assert "def when_do_we_deploy" in await said(here, "what is def when_do_we_deploy hello return")


async def test_every_mixed_list_has_what_was_told_first_and_tests_last(here: RepositoryWorld) -> None:
    question = "when do we deploy"
    found = await here.services.memory.search(here.principal, here.workspace_id, question, limit=12)
    places = [place_of_hit(hit) for hit in found]
    assert places == sorted(places)
    assert {KnowledgeKind.TOLD, KnowledgeKind.WRITTEN, KnowledgeKind.CODE, KnowledgeKind.TEST} == set(places)
    assert {hit.type for hit in found[:2]} == {"memory", "decision"}

    analysis = await here.services.intelligence.analyze(here.principal, here.workspace_id, topic=question)
    kinds = [source.type for source in analysis.sources]
    assert {kinds[0], kinds[1]} == {"memory", "decision"}

    asked = await here.services.memory.search(
        here.principal, here.workspace_id, "tests of deploying hello", types=["code"], limit=12
    )
    assert place_of_hit(asked[0]) == KnowledgeKind.TEST
