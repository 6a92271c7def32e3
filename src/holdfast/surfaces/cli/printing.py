"""Owns what commands print: JSON for scripts, tables and lines for people, notes beside them, and questions."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import click
from pydantic import BaseModel

from holdfast.core.commands import Progress, Row
from holdfast.core.text.printable import printable, printable_json
from holdfast.surfaces.cli.frame import as_called


@dataclass(frozen=True, slots=True)
class Printed:
    """Standard output, with what only people read on standard error."""

    as_json: bool

    def record(self, value: Row, lines: Sequence[str] | None = None) -> None:
        fields = _fields(value)
        if self.as_json:
            click.echo(printable_json(json.dumps(fields, ensure_ascii=False)))
            return
        for line in lines if lines is not None else [f"{name}: {_cell(item)}" for name, item in fields.items()]:
            click.echo(printable(line))

    def table(self, rows: Iterable[Row], columns: Sequence[str], empty: str = "Nothing here yet.") -> None:
        found = [_fields(row) for row in rows]
        if self.as_json:
            click.echo(printable_json(json.dumps(found, ensure_ascii=False)))
            return
        if not found:
            click.echo(as_called(empty))
            return
        # Imported where a table is drawn: no other answer needs it, and commands start faster without.
        from rich.console import Console
        from rich.table import Table

        table = Table(*(column.replace("_", " ") for column in columns), box=None, pad_edge=False, header_style="bold")
        for row in found:
            table.add_row(*(printable(_cell(row.get(column))) for column in columns))
        console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
        console.print(table)

    def write(self, text: str) -> None:
        # A file or a pipe gets all of it, colours too: a patch, say, that is to be applied.
        click.echo(printable(text) if sys.stdout.isatty() else text, nl=False, color=True)

    def note(self, text: str) -> None:
        click.echo(printable(as_called(text)), err=True)

    def progress(self) -> AbstractContextManager[Progress]:
        # Imported where something is waited for: drawing a bar costs start-up time that no other command needs.
        from holdfast.surfaces.cli.progress import ShownProgress

        return ShownProgress()

    def confirm(self, question: str, *, default: bool = False) -> bool:
        return not is_asked() or click.confirm(question, default=default, err=True)

    def ask_unseen(self, question: str) -> str:
        if is_asked():
            return str(click.prompt(question, hide_input=True))
        return sys.stdin.read()


def is_asked() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


def _fields(value: Row) -> Mapping[str, Any]:
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value


def _within(value: Any) -> str:
    return f"({_cell(value)})" if isinstance(value, Mapping) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "-"
    if isinstance(value, Mapping):
        # What adds nothing is left out: a table is for reading.
        return ", ".join(f"{name} {_within(item)}" for name, item in value.items() if item) or "-"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
