"""Owns the proof that a workspace's search and brief know its repositories, which do not drown what people wrote."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.search.model import Hit
from holdfast.features.intelligence.model import NewDecision, NewRelation, Ref
from holdfast.features.memory.finding import known_types, merged
from holdfast.features.memory.model import NewMemory
from holdfast.features.repositories.model import ENTRY_TYPES
from holdfast.registry.entities import Entities
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data") as world:
        yield world


@pytest.fixture
def project(tmp_path: Path) -> GitRepo:
    """Many commits and files about the same thing."""
    repo = GitRepo(tmp_path / "lighthouse")
    for number in range(12):
        text = f"# Lamp {number}\n\nThe lamp turns at dusk, part {number}.\n"
        repo.commit(f"Turn the lamp at dusk, step {number}", {f"docs/lamp_{number}.md": text})
    repo.tag("v1.0", "The lamp turns")
    return repo


async def find(here: RepositoryWorld, text: str, **named: object) -> list[Hit]:
    return await here.services.memory.search(here.principal, here.workspace_id, text, **named)  # type: ignore[arg-type]


def test_the_words_for_what_can_be_searched_come_from_the_features(here: RepositoryWorld) -> None:
    entities = here.services[Entities]
    assert set(entities.read) == set(ENTRY_TYPES)
    assert set(entities.searchable) == {*entities.written, *entities.read, "repository"}
    assert known_types(entities, ["repository"]) == frozenset(ENTRY_TYPES) == known_types(entities, ["repos"])
    assert known_types(entities, ["prs", "Commits", "memories"]) == frozenset({"pull_request", "commit", "memory"})
    assert known_types(entities, ["code"]) == frozenset({"file"}) and known_types(entities, []) is None
    with pytest.raises(Invalid, match="memory, document"):
        known_types(entities, ["poem"])


async def test_search_finds_repositories_beside_what_people_wrote(here: RepositoryWorld, project: GitRepo) -> None:
    repository = await here.add(project)
    assert (repository.state, repository.reason) == ("ready", None)
    memories = here.services.memory
    for content in ("The lamp turns at dusk because ships pass then", "Kim repairs the lamp when it turns too slowly"):
        await memories.save(here.principal, here.workspace_id, NewMemory(content))
    await here.services.search.tend()

    found = await find(here, "when does the lamp turn at dusk", limit=6)

    types = [hit.type for hit in found]
    assert types.count("memory") == 2
    assert {"commit", "file"} & set(types) and len(found) == 6
    assert types[:2] == ["memory", "memory"]
    for part in (found[:2], found[2:]):
        assert [hit.score for hit in part] == sorted((hit.score for hit in part), reverse=True)
    assert len({(hit.type, hit.id) for hit in found}) == len(found)
    only = await find(here, "lamp dusk", types=["repository"], limit=20)
    assert {"commit", "file"} <= {hit.type for hit in only} <= set(ENTRY_TYPES)
    assert {hit.type for hit in await find(here, "lamp", types=["commit"])} == {"commit"}
    assert {hit.type for hit in await find(here, "lamp", types=["memory"])} == {"memory"}


async def test_no_type_takes_a_workspace_without_repositories_elsewhere(here: RepositoryWorld) -> None:
    await here.services.memory.save(here.principal, here.workspace_id, NewMemory("The lamp turns at dusk"))
    assert [hit.type for hit in await find(here, "lamp")] == ["memory"]
    assert await find(here, "lamp", types=["repository"]) == []


def hit(type: str, number: int, score: float) -> Hit:
    meta, collection = ({"path": f"src/{number}.py"}, "repo_1") if type == "file" else ({}, "")
    return Hit(type, f"{type}-{number}", 0, "", "", score, 0, None, meta, collection=collection)


def test_repositories_take_half_of_the_places_at_most_while_memories_are_about_it() -> None:
    code = [hit("file", number, 0.9 - number / 100) for number in range(20)]
    related = [hit("memory", number, 0.5 - number / 100) for number in range(20)]
    unrelated = [hit("memory", number, 0.2) for number in range(20)]

    both = merged("lamp", related, code, 10)
    assert [found.type for found in both] == ["memory"] * 5 + ["file"] * 5
    assert [found.type for found in merged("lamp", unrelated, code, 10)] == ["file"] * 10
    assert [found.type for found in merged("lamp", related[:2], code, 10)] == ["memory"] * 2 + ["file"] * 8
    assert merged("lamp", [], code, 3) == code[:3] and merged("lamp", related, [], 3) == related[:3]
    assert [found.type for found in merged("lamp", [hit("memory", 1, 0.95)], code, 1)] == ["memory"]
    high = [hit("decision", number, 0.95) for number in range(20)]
    assert {found.type for found in merged("lamp", high, code, 10)} == {"decision"}


async def test_the_brief_shows_how_repositories_stand(here: RepositoryWorld, project: GitRepo) -> None:
    intelligence = here.services.intelligence
    decision = await intelligence.decisions.track(here.principal, here.workspace_id, NewDecision("Keep the lamp"))
    repository = await here.add(project)
    tie = NewRelation(Ref("decision", decision.id), Ref("repository", repository.slug), "affects")
    await intelligence.relations.relate(here.principal, here.workspace_id, tie)

    brief = await intelligence.brief(here.principal, here.workspace_id, focus="lamp at dusk")

    (item,) = brief.sections["repositories"]
    assert (item.id, item.type, item.title, item.status) == (repository.slug, "repository", "lighthouse", "ready")
    assert item.at == repository.last_synced_at
    assert "12 commits" in item.detail and "Turn the lamp at dusk, step 11 (Ada Lovelace, 2023-11-14)" in item.detail
    assert "## Repositories" in brief.markdown and "Keep the lamp — affects → lighthouse" in brief.markdown
    project.path.rename(project.path.with_name("gone"))
    await here.sync(repository.slug)
    (item,) = (await intelligence.brief(here.principal, here.workspace_id)).sections["repositories"]
    assert item.status == "failed" and item.detail.startswith("Not up to date:")

    await here.services.repositories.remove(here.principal, repository.slug)

    brief = await intelligence.brief(here.principal, here.workspace_id)
    assert brief.sections["repositories"] == () and brief.sections["connections"] == ()


async def test_an_analysis_cites_repositories_beside_decisions(here: RepositoryWorld, project: GitRepo) -> None:
    await here.add(project)
    decision = NewDecision("Turn the lamp at dusk", rationale="Ships pass at dusk.")
    await here.services.intelligence.decisions.track(here.principal, here.workspace_id, decision)

    found = await here.services.intelligence.analyze(here.principal, here.workspace_id, topic="lamp at dusk")

    assert {"decision", "commit"} <= {source.type for source in found.sources}
    assert "## Repositories" in found.markdown
