"""Proves that the commands which sentences of README and docs name exist, with the options that they are given."""

import re
import shlex

import click
import pytest

from holdfast.main import cli
from tests.support.documented import Shown, in_text

# `audit list|export` names several commands, `…` and CAPITALS stand for what the reader fills in.
_OPTION = re.compile(r"--[a-z][a-z-]*")


def _each(text: str) -> list[list[str]]:
    """The commands that one piece of text stands for, as words."""
    words = shlex.split(text.replace("[", " ").replace("]", " ").replace("…", "x"))[1:]
    if len(words) > 1 and "|" in words[1] and not words[1].startswith("-"):
        return [[words[0], one, *words[2:]] for one in words[1].split("|")]
    return [words]


@pytest.mark.parametrize("shown", sorted(set(in_text()), key=str), ids=lambda shown: shown.command)
def test_a_command_in_the_text_exists_with_its_options(shown: Shown) -> None:
    for words in _each(shown.command):
        context = click.Context(cli)
        command = cli.get_command(context, words[0])
        assert command is not None, f"{shown.page}: there is no `holdfast {words[0]}`"
        if isinstance(command, click.Group) and len(words) > 1:
            found = command.get_command(context, words[1])
            assert found is not None, f"{shown.page}: there is no `holdfast {words[0]} {words[1]}`"
            command = found
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
        if not isinstance(command, click.Group):
            assert set(_OPTION.findall(" ".join(words))) <= known, f"{shown.page}: {shown.command}"
