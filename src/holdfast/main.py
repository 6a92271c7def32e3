"""The command line's entry: hands the CLI a way to open a data directory and to serve one."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from holdfast.core.principal import Principal
from holdfast.core.settings import Settings, load
from holdfast.services import Services
from holdfast.surfaces.cli.frame import Entry
from holdfast.surfaces.cli.root import cli


def _opens(data_dir: Path | None) -> AbstractAsyncContextManager[tuple[Services, Principal]]:
    from holdfast.app import open_local

    return open_local(load(data_dir=data_dir))


async def _serves(settings: Settings, announce: Callable[[Any], None]) -> None:
    from holdfast.serving import serve

    await serve(settings, announce)


def main() -> None:
    """`holdfast`, alias `xeroctl`."""
    cli(obj=Entry(_opens, _serves))
