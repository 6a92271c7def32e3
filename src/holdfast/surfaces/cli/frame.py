"""Owns what every command shares: the data directory, `--json`, what the entry point hands over, and exit codes."""

import re
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.text.printable import printable

if TYPE_CHECKING:
    # `holdfast --help` and `--version` need none of it, and starting is what they are measured by.
    from holdfast.core.parts import Parts
    from holdfast.core.principal import Principal
    from holdfast.core.settings import Settings

FAILED = 1
NOT_FOUND = 4


class Opens(Protocol):
    """Opens a data directory (or the configured PostgreSQL) for one command; `begins` may make the store there."""

    def __call__(
        self, data_dir: Path | None, begins: bool
    ) -> "AbstractAsyncContextManager[tuple[Parts, Principal]]": ...


class Serves(Protocol):
    """Serves until it is told to stop; calls back once when ready."""

    def __call__(self, settings: "Settings", announce: Callable[[Any], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """What the entry point hands the commands: surfaces build nothing themselves."""

    opens: Opens
    serves: Serves


data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="HOLDFAST_DATA_DIR",
    help="Where the data lives (default: where your running server has it, or ~/.holdfast).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


_HINT = re.compile(r"`holdfast (?=[a-z])")


def called() -> str:
    """How this program is called here: by its name where PATH leads to it, otherwise as it was typed."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return f"{sys.executable} -m holdfast"
    if program.name not in ("holdfast", "xeroctl"):
        return "holdfast"
    found = shutil.which(program.name)
    return program.name if found is not None and Path(found).resolve() == program.resolve() else str(program)


def as_called(text: str) -> str:
    """The commands that a remark or an error names, in the way that works here."""
    return _HINT.sub(lambda _: f"`{called()} ", text) if "`holdfast " in text else text


class exits:  # noqa: N801 – read as a verb: `with exits():`
    """Turns an error into one clear line on stderr and an exit code for scripts."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.filename is not None:
            # A file that was named and is not there, or is not ours to read or write.
            click.echo(printable(f"holdfast: {error.filename}: {error.strerror}."), err=True)
            raise SystemExit(FAILED) from None
        if not isinstance(error, HoldfastError):
            return
        click.echo(printable(f"holdfast: {as_called(error.message)}"), err=True)
        for wrong in error.fields:
            click.echo(printable(f"  {wrong.field}: {as_called(wrong.message)}"), err=True)
        raise SystemExit(NOT_FOUND if isinstance(error, NotFound) else FAILED) from None
