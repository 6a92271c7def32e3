"""Owns which data directory a command works on, and saying so where nobody named one."""

from dataclasses import replace
from pathlib import Path

import click

from holdfast.core.settings import Settings, load
from holdfast.storage.database import StartFailed
from holdfast.storage.files import STORE
from holdfast.storage.lock import served_directories

_DEFAULT = Settings().data_dir
_ANOTHER = "--data-dir or HOLDFAST_DATA_DIR names another"


class WhichServer(StartFailed):
    """Several servers run and nobody said whose data is meant."""

    code = "which_server"


def located(data_dir: Path | None, *, begins: bool) -> tuple[Settings, bool]:
    """The settings of a command, and whether it may begin a store there.

    Its data directory is the one named, or a running server's, or ~/.holdfast. A store begins only where one was named:
    a forgotten HOLDFAST_DATA_DIR must not leave a second one behind.
    """
    settings = load(data_dir=data_dir)
    if settings.database_url is not None:
        return settings, begins
    if settings.data_dir != _DEFAULT:
        directory = settings.data_dir.expanduser()
        if begins and not (directory / STORE).exists():
            click.echo(f"holdfast: beginning a new store in {directory}", err=True)
        return settings, begins
    return _unnamed(settings), False


def _unnamed(settings: Settings) -> Settings:
    default = _DEFAULT.expanduser()
    served = served_directories()
    if default in served:
        return settings
    if len(served) > 1:
        listed = ", ".join(map(str, served))
        raise WhichServer(f"Several servers run, with their data in {listed}; say which is meant with --data-dir.")
    if served:
        click.echo(f"holdfast: using {served[0]}, where your server is running ({_ANOTHER})", err=True)
        return replace(settings, data_dir=served[0])
    if (default / STORE).exists():
        click.echo(f"holdfast: using {default}; no server of yours is running ({_ANOTHER})", err=True)
    return settings
