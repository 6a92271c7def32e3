"""Every feature says in its feature.py what it adds, and adds just that."""

from collections import Counter
from pathlib import Path
from typing import get_args

from holdfast.engines.jobs.engine import JobEngine
from holdfast.registry.entities import Entities
from holdfast.registry.topics import Topics
from holdfast.server.features import NAMES, Brought, features
from holdfast.server.routes import rest_operations
from tests.contract.later import LATER
from tests.contract.rows import ROWS
from tests.support.server import TestServer

SRC = Path(__file__).resolve().parents[2] / "src" / "holdfast"
# Kept by the tools of chats and of MCP together; agents will claim it.
OF_AGENTS = {"XA-3"}
# Tables of engines, which belong to no feature.
ENGINES = {
    "0004_jobs",
    "0005_search",
    "0016_search_collection",
    "0020_job_turns",
    "0023_search_turns",
    "0030_embedding_rate",
    "0050_events_of_organizations",
    "0066_search_packs",
}


def test_the_server_is_the_list_of_its_features() -> None:
    folders = {path.parent.name for path in (SRC / "features").glob("*/feature.py")}
    assert (
        folders == set(NAMES) == {path.name for path in (SRC / "features").iterdir() if (path / "__init__.py").exists()}
    )


def test_what_a_feature_builds_is_what_it_says() -> None:
    for feature in features():
        assert feature.module("building").build.names == {*feature.services, *feature.answers}, feature.name
    twice = Counter(name for feature in features() for name in (*feature.services, *feature.answers))
    assert max(twice.values()) == 1


def test_a_feature_brings_agents_what_it_says() -> None:
    for feature in features():
        building = feature.module("building")
        for what in get_args(Brought):
            assert hasattr(building, what) == getattr(feature, what), f"{feature.name}: {what}"


async def test_everything_that_is_said_is_built(sqlite_server: TestServer) -> None:
    parts = sqlite_server.services.parts
    assert rest_operations(parts) and sqlite_server.services.gateway.listed("mcp")
    for kind in (kind for feature in features() for kind in feature.module("building").build.kinds.values()):
        assert parts[kind] is not None
    for feature in features():
        for name in (*feature.background, *feature.closes):
            assert name in feature.services, f"{feature.name} runs or closes what it does not build: {name}"
    said = {name for feature in features() for name in feature.services}
    assert said <= {type(made).__name__ for made in parts.made}


def test_every_table_has_one_owner() -> None:
    claimed = Counter(name for feature in features() for name in feature.migrations)
    files = {path.stem for path in (SRC / "storage" / "migrations").glob("*.sql")}
    assert set(claimed) | ENGINES == files
    assert not set(claimed) & ENGINES and max(claimed.values()) == 1


def test_every_row_of_the_contract_that_is_kept_has_one_feature() -> None:
    claimed = Counter(row for feature in features() for row in feature.contract)
    assert set(claimed) == ROWS - set(LATER) - OF_AGENTS
    assert max(claimed.values()) == 1


async def test_jobs_entities_and_topics_are_those_that_are_said(sqlite_server: TestServer) -> None:
    parts = sqlite_server.services.parts
    assert {kind for feature in features() for kind in feature.jobs} == set(parts[JobEngine].kinds)
    assert set(parts[Topics].nouns) == {noun for feature in features() for noun in feature.topics}
    assert {"memory", "document", "artifact", "decision", "commit"} <= set(parts[Entities].types)
