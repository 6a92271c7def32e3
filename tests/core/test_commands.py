"""Proves that options, arguments and flags come from a command's input model, and that what it needs goes by class."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from holdfast.core.commands import (
    Argument,
    Command,
    Commands,
    Given,
    InWorkspace,
    Moment,
    Option,
    Parameter,
    Session,
    parameters,
)
from holdfast.core.errors import Invalid


class Everything(InWorkspace):
    words: Annotated[list[str], Argument("WORDS")]
    limit: int = Field(10, ge=1, le=50, description="How many at most.")
    price: float | None = Field(None, ge=0.5)
    tags: Annotated[list[str], Option("--tag")] = []
    kind: Literal["a", "b"] | None = None
    kinds: list[Literal["a", "b"]] = []
    is_loud: bool = False
    blocking: Annotated[bool | None, Option("--blocking/--not-blocking")] = None
    to: Annotated[Path | None, Option(path="file", also="--into")] = None
    since: Moment = None
    name: str


def _of(field: str) -> Parameter:
    return next(each for each in parameters(Everything) if each.field == field)


def test_an_option_is_written_as_its_field_is_called() -> None:
    assert _of("is_loud").names == ("--is-loud",)
    assert _of("tags").names == ("--tag",)
    assert _of("blocking").names == ("--blocking/--not-blocking",)
    assert _of("to").names == ("--to", "--into")
    assert _of("workspace").help == "The workspace's id, UUID or slug."


def test_types_bounds_choices_and_defaults_come_from_the_model() -> None:
    limit = _of("limit")
    assert (limit.kind, limit.least, limit.most, limit.default, limit.help) == (int, 1, 50, 10, "How many at most.")
    assert (_of("price").kind, _of("price").least, _of("price").most) == (float, 0.5, None)
    assert (_of("kind").choices, _of("kind").many) == (("a", "b"), False)
    assert (_of("kinds").choices, _of("kinds").many) == (("a", "b"), True)
    assert (_of("to").kind, _of("to").path) == (Path, "file")
    assert _of("name").required
    assert not _of("limit").required


def test_an_argument_goes_by_its_place_and_a_list_takes_what_is_left() -> None:
    words = _of("words")
    assert (words.positional, words.many, words.required, words.metavar) == (True, True, True, "WORDS")


def test_a_moment_is_text_to_the_command_line_and_milliseconds_to_the_command() -> None:
    assert (_of("since").kind, _of("since").metavar) == (str, "TIME")
    assert Everything.model_validate({"words": [], "name": "x", "since": "1970-01-02"}).since == 86_400_000
    with pytest.raises(Invalid) as refused:
        Everything.model_validate({"words": [], "name": "x", "since": "soon"})
    assert refused.value.fields[0].field == "--since"


class Clockwork:
    """A service."""


class Nothing(Given):
    pass


async def _work(session: Session, clockwork: Clockwork, given: Nothing) -> None:
    raise AssertionError


def test_a_command_needs_its_model_and_parts_by_their_class() -> None:
    assert Command("wind", "Wind it.", _work).needs() == (Nothing, {"clockwork": Clockwork})


def test_a_group_has_each_name_once() -> None:
    group = Commands("clock", help="A clock.")
    group.add(Command("wind", "Wind it.", _work))
    with pytest.raises(ValueError, match="two commands called wind"):
        group.command("wind", help="Again.")(_work)


def test_a_field_that_no_option_can_be_made_of_is_refused() -> None:
    class Odd(Given):
        table: dict[str, str] = {}

    with pytest.raises(TypeError, match="no option of the type"):
        parameters(Odd)
