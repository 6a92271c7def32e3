"""Owns what every command shares: the data directory, `--json`, who is asking, tables, and exit codes."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click
from rich.console import Console
from rich.table import Table

from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.services import Services

FAILED = 1
NOT_FOUND = 4


class Opens(Protocol):
    """Opens a data directory (or the configured PostgreSQL) for one command."""

    def __call__(self, data_dir: Path | None) -> AbstractAsyncContextManager[tuple[Services, Principal]]: ...


class Serves(Protocol):
    """Serves until it is told to stop; calls back once when ready."""

    async def __call__(self, settings: Settings, announce: Callable[[Any], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """What the entry point hands the commands: surfaces build nothing themselves."""

    opens: Opens
    serves: Serves


@dataclass(frozen=True, slots=True)
class Out:
    """Where a command's answer goes: one JSON value for scripts, a table or lines for people."""

    as_json: bool

    def record(self, value: Mapping[str, Any], lines: Sequence[str] | None = None) -> None:
        """One thing: its JSON, or the lines (each field on a line where none are given)."""
        if self.as_json:
            click.echo(json.dumps(value, ensure_ascii=False))
            return
        for line in lines if lines is not None else [f"{name}: {_cell(item)}" for name, item in value.items()]:
            click.echo(line)

    def table(
        self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], empty: str = "Nothing here yet."
    ) -> None:
        """Several things: a JSON list with all fields, or a table of the named columns."""
        found = list(rows)
        if self.as_json:
            click.echo(json.dumps(found, ensure_ascii=False))
            return
        if not found:
            click.echo(empty)
            return
        table = Table(*(column.replace("_", " ") for column in columns), box=None, pad_edge=False, header_style="bold")
        for row in found:
            table.add_row(*(_cell(row.get(column)) for column in columns))
        console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
        console.print(table)

    def note(self, text: str) -> None:
        """A remark for people; scripts read only stdout."""
        click.echo(text, err=True)


@dataclass(frozen=True, slots=True)
class Session:
    """One command's circumstances."""

    services: Services
    principal: Principal
    out: Out

    async def workspace(self, named: str | None) -> str:
        """The id of the workspace with this id, UUID or slug; the only one there is when none is named."""
        found = await self.services.workspaces.list(self.principal, limit=200)
        if named is not None:
            matching = [each.id for each in found.items if named in (each.id, each.uuid, each.slug)]
            if len(matching) > 1:
                raise Invalid(f"Several workspaces are called {named!r}; name one by its id: {', '.join(matching)}.")
            if matching:
                return matching[0]
            raise NotFound("workspace", named)
        if len(found.items) == 1:
            return found.items[0].id
        names = ", ".join(each.slug for each in found.items[:10]) or "none"
        raise Invalid(f"Say which workspace with --workspace (there are: {names}).")


data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="HOLDFAST_DATA_DIR",
    help="Where the data lives (default: ~/.holdfast).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
workspace_option = click.option("--workspace", metavar="WS", help="The workspace's id, UUID or slug.")


def command(
    group: click.Group, name: str, *options: Callable[[Any], Any], help: str
) -> Callable[[Callable[..., Awaitable[None]]], click.Command]:
    """Add a command whose function is `async def f(session: Session, **options)`."""

    def decorate(function: Callable[..., Awaitable[None]]) -> click.Command:
        def run(data_dir: Path | None, as_json: bool, **given: Any) -> None:
            context = click.get_current_context()
            entry: Entry = context.find_root().obj

            async def work() -> None:
                async with entry.opens(data_dir) as (services, principal):
                    await function(Session(services, principal, Out(as_json)), **given)

            with exits():
                asyncio.run(work())

        wrapped: Any = run
        for option in (json_option, data_dir_option, *reversed(options)):
            wrapped = option(wrapped)
        return group.command(name, help=help)(wrapped)

    return decorate


class exits:  # noqa: N801 – read as a verb: `with exits():`
    """Turns an error into one clear line on stderr and an exit code for scripts."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, HoldfastError):
            return
        click.echo(f"holdfast: {error.message}", err=True)
        for wrong in error.fields:
            click.echo(f"  {wrong.field}: {wrong.message}", err=True)
        raise SystemExit(NOT_FOUND if isinstance(error, NotFound) else FAILED) from None


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "-"
    return str(value)
