"""The command line's entry: hands the CLI a way to open a data directory and to serve one."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.surfaces.cli.frame import ProgramEntry
from holdfast.surfaces.cli.root import Listing, command_line

if TYPE_CHECKING:
    from holdfast.core.parts import Parts
    from holdfast.core.principal import Principal
    from holdfast.core.settings import Settings

# What opens and serves is imported when that is asked for: `holdfast --help` starts at once.


def _opens(data_dir: Path | None, begins: bool) -> "AbstractAsyncContextManager[tuple[Parts, Principal]]":
    from holdfast.server.start import open_local
    from holdfast.surfaces.cli.whereabouts import located

    settings, may_begin = located(data_dir, begins=begins)
    return open_local(settings, begins=may_begin)


def _serves(settings: "Settings", announce: Callable[[Any], None]) -> None:
    if settings.workers > 1:
        from holdfast.server.workers.supervisor import Supervisor

        Supervisor(settings).run(announce)
        return
    import uvloop

    from holdfast.server.lifecycle import serve

    uvloop.run(serve(settings, announce))


def _commands() -> Listing:
    from holdfast.server.features import commands

    return commands()


cli = command_line(_commands)


def main() -> None:
    """`holdfast`, alias `xeroctl`."""
    cli(obj=ProgramEntry(_opens, _serves))
