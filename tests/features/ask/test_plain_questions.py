"""Owns the proof of what people ask in plain words: a whole release, a default, a limit, who did what a note tells."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

CHANGES = """# Changelog

## 3.2.0 (2025-07-01)

 * Upgrade: [clockwork 0.7.0][clockwork_7]. The release before broke calls to `Kettle()`.

 * Breaking: Change `Kettle.clock` from a field to a property. This avoids a crash with plugins of version 8.

 * New: A whistle that can be switched off.

## 3.1.0 (2025-05-02)

 * Migrate from `taproot` to the runner that comes with the language (#41)

 * Fix: the number of burners that are lit by default is now at most 6. This saves gas.

## 3.0.1 (2025-04-01)

 * Fix: don't delay the whistle. In 3.0.0 we introduced a regression that made it sound too late.

[clockwork_7]: https://example.org/clockwork/0.7.0
[whistle]: https://example.org/whistle
"""
SETTINGS = """# Settings

## Timeouts

* `--timeout-idle <int>` - Switch the kettle off if nobody pours within this timeout. **Default:** *5*.
* `--timeout-boil <int>` - Give up on water that does not boil.

## Burners

Burners are lit in parallel, so use `-b` to say how many are lit by default.

## samovar.spout

The recommended way for hot water to leave.
"""
README = """# Samovar

Samovar boils water.

## Alternatives

Percolator supports steam pressure, milk and sugar. It is run widely.

[Cezve](https://example.org/cezve) is a pot that supports steam pressure.
"""
KETTLE = """/*
 * Copyright (C) 2014 Acme.
 *
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License where the kettle is kept.
 */
package samovar

import "time"

// Kettle keeps water hot until somebody pours it.
// It whistles once.
type Kettle struct {
	water int
	since time.Time
}

// Boil heats the water.
func (k *Kettle) Boil() {
	k.since = time.Now()
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> GitRepo:
    made = GitRepo(tmp_path_factory.mktemp("plain") / "samovar")
    made.commit("Begin", {"README.md": README, "kettle.go": KETTLE, "docs/settings.md": SETTINGS})
    made.commit("Use the runner of the language (#41)", {"kettle_test.go": "package samovar\n"}, author="Wera Runner")
    made.commit("Write the changes", {"CHANGELOG.md": CHANGES})
    made.commit('Revert "Add a spout of brass"', {"spout.txt": "tin\n"}, author="Tina Tin")
    return made


@pytest.fixture
async def here(
    sqlite_database: Database, clock: MovableClock, tmp_path: Path, source: GitRepo
) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(sqlite_database, clock, tmp_path / "data") as made:
        await made.add(source, slug="samovar")
        await made.services.search.tend()
        yield made


async def told(here: RepositoryWorld, question: str) -> str:
    """What stands above the sources."""
    answer = await here.services.ask.ask(here.principal, ["samovar"], question, source="cli")
    return answer.markdown.partition("\n## Sources")[0]


async def test_the_commit_that_a_note_refers_to_tells_who_did_it_and_when(here: RepositoryWorld) -> None:
    answer = await told(here, "Who migrated from taproot to another runner?")
    assert answer.splitlines()[0].startswith("- **Wera Runner**, ")


async def test_nobody_removed_what_was_not_removed(here: RepositoryWorld) -> None:
    assert (await told(here, "Who removed the Kettle?")).startswith("Nothing that was found")


async def test_what_others_support_is_no_answer(here: RepositoryWorld) -> None:
    assert (await told(here, "Does samovar support steam pressure?")).startswith("Nothing that was found")


async def test_all_that_a_version_brought_is_told_and_what_breaks_alone_where_that_is_asked(
    here: RepositoryWorld,
) -> None:
    answer = await told(here, "What changed in 3.2.0?")
    assert "clockwork 0.7.0" in answer and "from a field to a property" in answer and "switched off" in answer
    breaking = await told(here, "What are the breaking changes in 3.2.0?")
    assert "from a field to a property" in breaking.splitlines()[0]
    assert "switched off" not in breaking


async def test_a_default_is_quoted_with_its_value(here: RepositoryWorld) -> None:
    assert "**Default:** *5*" in (await told(here, "What is the default of the idle timeout?")).splitlines()[0]


async def test_how_many_is_answered_by_a_number(here: RepositoryWorld) -> None:
    answer = await told(here, "How many burners are lit by default at most?")
    assert "at most 6" in answer.splitlines()[0]


async def test_which_asked_again_asks_for_a_version_again(here: RepositoryWorld) -> None:
    answer = await told(here, "Which version made the whistle sound too late, and which fixed it?")
    first, second = answer.split("## ")[1:3]
    assert "In 3.0.0 we introduced" in first
    assert second.splitlines()[2].startswith("- **3.0.1 (2025-04-01)**")


async def test_where_a_link_leads_is_no_statement(here: RepositoryWorld) -> None:
    assert "example.org/whistle" not in await told(here, "Does it support a whistle?")


async def test_a_definition_is_shown_with_what_is_written_above_it(here: RepositoryWorld) -> None:
    answer = await told(here, "What does Kettle do?")
    assert "keeps water hot until somebody pours it" in answer.split("```")[1]


async def test_a_license_at_the_head_of_a_file_says_nothing_of_it(here: RepositoryWorld) -> None:
    assert "Apache License" not in await told(here, "Where is the kettle kept hot?")


async def test_a_section_that_is_called_so_tells_of_it(here: RepositoryWorld) -> None:
    answer = await told(here, "What is samovar.spout for?")
    assert "The recommended way for hot water to leave." in answer.splitlines()[0]
