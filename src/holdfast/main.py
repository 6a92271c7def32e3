"""The command line's entry: hands the CLI a way to open a data directory and to serve one."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.surfaces.cli.frame import Entry
from holdfast.surfaces.cli.root import cli

if TYPE_CHECKING:
    from holdfast.core.principal import Principal
    from holdfast.core.settings import Settings
    from holdfast.services import Services

# What opens and serves is imported when that is asked for: `holdfast --help` starts at once.


def _opens(data_dir: Path | None) -> "AbstractAsyncContextManager[tuple[Services, Principal]]":
    from holdfast.app import open_local
    from holdfast.core.settings import load

    return open_local(load(data_dir=data_dir))


async def _serves(settings: "Settings", announce: Callable[[Any], None]) -> None:
    from holdfast.serving import serve

    await serve(settings, announce)


def main() -> None:
    """`holdfast`, alias `xeroctl`."""
    cli(obj=Entry(_opens, _serves))
