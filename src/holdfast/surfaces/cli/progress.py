"""Owns showing how far something is: a bar for people at a terminal, a line now and then for logs."""

import sys
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from holdfast.core.text.printable import printable

_STEPS = 10
"""So many lines at most tell of one phase where there is no terminal."""


class ShownProgress:
    """How far something is, on stderr."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False, markup=False)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
        )
        self._bar = (
            Progress(*columns, TimeElapsedColumn(), console=console, transient=True) if sys.stderr.isatty() else None
        )
        self._task = None if self._bar is None else self._bar.add_task("Waiting", total=None, count="")
        self._last: tuple[str, int] | None = None

    def __enter__(self) -> "ShownProgress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, message: str, done: float = 0, total: float | None = None) -> None:
        message = printable(message)
        count = f"{done:,.0f} of {total:,.0f}" if total else (f"{done:,.0f}" if done else "")
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=message, completed=done, total=total, count=count)
            return
        step = int(done / total * _STEPS) if total else 0
        if (message, step) != self._last:
            self._last = (message, step)
            click.echo(f"{message}: {count}" if count else message, err=True)
