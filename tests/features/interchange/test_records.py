"""Proves that exports carry every field of what they export, also those that a model gains later."""

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast.features.intelligence.model import Ref
from holdfast.features.interchange.formats.fields import Fields, MalformedExport
from holdfast.features.interchange.formats.own import FORMS, MEMORY
from holdfast.features.interchange.formats.places import folder_files
from holdfast.features.interchange.formats.records import RecordForm
from holdfast.features.memory.model import Filters
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.interchange import interchange_world

OLD_EXPORT = Path(__file__).parent / "old_export.zip"
"""Written before models had a serialisation of their own (commit 08ced64)."""


def _telling(model: type) -> Any:
    """One with a value in every field that is written, none of which is what an absent one means."""
    hints = typing.get_type_hints(model)
    values: dict[str, Any] = {}
    for number, each in enumerate(dataclasses.fields(model), 1):
        hint = hints[each.name]
        inner = next((kind for kind in typing.get_args(hint) if kind is not type(None)), hint)
        inner = inner if type(None) in typing.get_args(hint) else hint
        values[each.name] = _value(inner, number, each.default)
    return model(**values)


def _value(inner: Any, number: int, default: Any) -> Any:
    if typing.get_origin(inner) is Literal:
        return [choice for choice in typing.get_args(inner) if choice != default][-1]
    if typing.get_origin(inner) is tuple:
        return (_value(typing.get_args(inner)[0], number, default),)
    if typing.get_origin(inner) is Mapping:
        return {"word": f"text-{number}"}
    plain = {
        str: f"text-{number}",
        int: 1_700_000_000_000 + number,
        bool: True,
        float: 0.5,
        Ref: Ref("memory", "mem_1"),
    }
    return plain[inner] if inner in plain else _telling(inner)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.model.__name__)
def test_every_field_of_a_model_is_written_and_read_back_or_left_out_for_a_reason(form: RecordForm[Any]) -> None:
    whole = _telling(form.model)
    names = {each.name for each in dataclasses.fields(form.model)}
    assert form.left_out.keys() <= names
    assert all(form.left_out.values())
    front = form.dump(whole, lambda id: id)
    assert {form.renamed.get(name, name) for name in names - form.left_out.keys()} == front.keys()
    given = {name: getattr(whole, name) for name in form.left_out}
    assert form.load(Fields(front), **given) == whole


def test_a_field_that_a_model_gains_is_carried_without_a_word_in_the_export() -> None:
    grown = dataclasses.make_dataclass(
        "Grown", [("mood", str | None, None), ("seen_at", int | None, None)], bases=(MEMORY.model,), frozen=True
    )
    form: RecordForm[Any] = dataclasses.replace(MEMORY, model=grown)
    whole = _telling(grown)
    front = form.dump(whole, lambda id: id)
    assert front["mood"] == whole.mood and front["seen_at"].startswith("2023-")
    given = {name: getattr(whole, name) for name in form.left_out}
    assert form.load(Fields(front), **given) == whole
    older = {name: value for name, value in front.items() if name not in ("mood", "seen_at")}
    assert form.load(Fields(older), **given).mood is None


def test_a_field_of_a_type_that_cannot_be_written_is_named() -> None:
    grown = dataclasses.make_dataclass(
        "Grown", [("tree", dict[str, int], dataclasses.field(default_factory=dict))], bases=(MEMORY.model,), frozen=True
    )
    form = dataclasses.replace(MEMORY, model=grown)
    front = MEMORY.dump(_telling(MEMORY.model), lambda id: id)
    with pytest.raises(TypeError, match=r"Grown\.tree"):
        form.load(Fields(front), workspace_id="", content="x", digest="")


def test_a_broken_field_is_named() -> None:
    front = MEMORY.dump(_telling(MEMORY.model), lambda id: id)
    with pytest.raises(MalformedExport, match="the field learned_at is not a time"):
        MEMORY.load(Fields({**front, "learned_at": "soon"}), workspace_id="", content="x", digest="")
    with pytest.raises(MalformedExport, match="the field status is not one of current"):
        MEMORY.load(Fields({**front, "status": "lost"}), workspace_id="", content="x", digest="")


async def test_an_export_of_an_older_version_comes_in_whole(database: Database, clock: MovableClock) -> None:
    world = await interchange_world(database, clock)
    old = {file.path: file.data for file in folder_files(OLD_EXPORT)}
    report = await world.bring(world.base.ws, old)
    assert (report.problems, report.ignored) == ([], 0)
    assert report.created == {"memory": 5, "decision": 2, "milestone": 1, "artifact": 1, "relation": 10}
    assert (await world.export(world.base.ws)).keys() == old.keys()
    memories = await world.base.memory.list(world.person, world.base.ws, Filters(status=None))
    edited = next(each for each in memories.items if each.slug == "fact-1-of-the-team-second-quoted")
    assert (edited.content, edited.revision, edited.author_name) == ("Fact 6 is now another: again", 3, "Ada")
    again = await world.bring(world.base.ws, old)
    assert (again.created, again.updated, again.problems) == ({}, 0, [])
