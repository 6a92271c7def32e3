"""Proves that an export brought in elsewhere exports the same bytes again: nothing is lost, nothing doubled."""

import dataclasses
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.artifacts.model import ArtifactReference, NewArtifact
from holdfast.features.intelligence.model import NewDecision, NewMilestone, NewRelation, Ref
from holdfast.features.interchange.formats.front import render, split
from holdfast.features.memory.model import MemoryChange, NewMemory
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.interchange import InterchangeWorld, interchange_world
from tests.support.properties import examples

ODD = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00") | st.sampled_from("\n\t\"'\\#-:é\u2028\x85"),
    max_size=60,
)
STEPS = st.lists(st.tuples(st.integers(0, 8), ODD, st.integers(0, 2**31)), min_size=1, max_size=14)
YEAR = 31_536_000_000


async def _live(world: InterchangeWorld, workspace_id: str, steps: list[tuple[int, str, int]]) -> None:
    """Some weeks of a team's life, decided by the steps."""
    kept: list[Ref] = []
    memory, person = world.base.memory, world.person
    for number, (kind, text, seed) in enumerate(steps):
        choice = random.Random(seed)
        world.base.clock.advance(seconds=choice.choice([0, 0.001, 5, 86_400]))
        now = world.base.clock.now()
        some = [ref for ref in kept if ref.type == "memory"]
        occurred = choice.choice([None, now - choice.randrange(2000 * YEAR // 1000), now + 5])
        new = NewMemory(
            f"Fact {number} of the team: {text}", None, choice.choice([None, f"T {text}"[:150]]), (f"t {text}",)
        )
        if kind <= 2 or (kind in (3, 4) and not some):
            new = dataclasses.replace(
                new, occurred_at=occurred, session_id=choice.choice([None, "s-1"]), source="notes"
            )
            if kind == 2 and some:
                old = await memory.get(person, workspace_id, choice.choice(some).id)
                new = dataclasses.replace(new, supersedes=old.id if old.status == "current" else None)
            saved = await memory.save(choice.choice([person, world.base.agent]), workspace_id, new)
            kept += [Ref("memory", saved.memory.id)] if saved.outcome == "saved" and saved.memory else []
        elif kind == 3:
            await memory.retract(person, workspace_id, choice.choice(some).id, text)
        elif kind == 4:
            found = await memory.get(person, workspace_id, choice.choice(some).id)
            if found.status == "current":
                change = MemoryChange(content=f"Fact {number} is now another: {text}", tags=(), occurred_at=now)
                await memory.edit(person, workspace_id, found.id, change)
        elif kind == 5:
            decision = NewDecision(f"Decision {number} {text}", text, (f"or {text}",), blocking=choice.random() < 0.5)
            kept.append(Ref("decision", (await world.intelligence.decisions.track(person, workspace_id, decision)).id))
        elif kind == 6:
            tied = tuple(ref.id for ref in kept if ref.type == "decision")[:2]
            milestone = NewMilestone(f"Milestone {number} {text}", "release", text, occurred, tied)
            kept.append(
                Ref("milestone", (await world.intelligence.milestones.track(person, workspace_id, milestone)).id)
            )
        elif kind == 8:
            data = (f"File {number} has {text}".encode("utf-8", "replace") * choice.choice([1, 1, 40_000]))[:3_000_000]
            kept.append(Ref("document", (await world.upload(workspace_id, f"File {text} {number}.txt", data)).id))
        else:
            artifact = NewArtifact(f"a{number}.md", f"Artifact {number}", "text/markdown", f"\n\n---\n{text}\r\n")
            made = await world.artifacts.create(person, workspace_id, artifact)
            for version in range(choice.randrange(3)):
                await world.artifacts.update(person, workspace_id, ArtifactReference(made.id), f"{version}{text}")
            kept.append(Ref("artifact", made.id))
    for first, second in pairwise(kept):
        await world.intelligence.relations.relate(person, workspace_id, NewRelation(first, second, "informs", "note"))


@examples(12)
@given(steps=STEPS)
async def test_an_export_brought_into_an_empty_workspace_exports_the_same_again(
    database: Database, steps: list[tuple[int, str, int]]
) -> None:
    world = await interchange_world(database, MovableClock(), workspaces=2)
    first, second = world.base.workspace_ids
    await _live(world, first, steps)
    exported = await world.export(first)
    report = await world.bring(second, exported)
    assert not report.problems
    assert await world.export(second) == exported
    again = await world.bring(second, exported)
    assert (again.created, again.updated, again.problems) == ({}, 0, [])
    home = await world.bring(first, exported)
    assert (home.created, home.updated, home.problems) == ({}, 0, [])
    assert await world.export(first) == exported


@examples(300)
@given(
    front=st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), ODD | st.integers() | st.lists(ODD)), body=ODD
)
def test_any_front_matter_and_body_are_read_back_as_written(front: dict[str, object], body: str) -> None:
    whole = {"holdfast": "memory", **front}
    assert split(render(whole, body).decode()) == (whole, body)


@pytest.mark.slow
@examples(100)
@given(front=st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), ODD | st.lists(ODD)), body=ODD)
def test_yaml_reads_our_front_matter_as_we_do(front: dict[str, object], body: str) -> None:
    """Whoever edits an export by hand leaves it to YAML: it must mean the same there."""
    whole = {"title": "x", **front, "z": "1"}
    read, rest = split(render(whole, body).decode())
    assert read == whole
    assert rest == f"\n{body}\n"
