"""Parts: built when first asked for, once, from each other, never in a circle."""

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.core.parts import Build, Parts


class Ink:
    pass


@dataclass
class Pen:
    ink: Ink


class Left:
    pass


class Right:
    pass


def _builders(kind: type[Any]) -> Build | None:
    table: dict[type[Any], Build] = {
        Pen: lambda parts: Pen(parts[Ink]),
        Left: lambda parts: parts[Right],
        Right: lambda parts: parts[Left],
    }
    return table.get(kind)


def test_a_part_is_built_once_from_what_it_needs() -> None:
    ink = Ink()
    parts = Parts(_builders, {Ink: ink})

    assert Pen not in parts
    assert parts[Pen].ink is ink
    assert parts[Pen] is parts[Pen]
    assert Pen in parts
    assert [type(each) for each in parts.made] == [Ink, Pen]


def test_a_part_that_nobody_builds_is_named() -> None:
    with pytest.raises(LookupError, match=r"No feature builds .*Ink"):
        Parts(_builders, {})[Pen]


def test_parts_that_need_each_other_are_named() -> None:
    with pytest.raises(LookupError, match="Left → Right → Left"):
        Parts(_builders, {})[Left]
