"""The command line's entry: hands the CLI a way to open a data directory and to serve one."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from holdfast.core.principal import Principal
from holdfast.core.settings import load
from holdfast.services import Services
from holdfast.surfaces.cli.root import cli


def _opens(data_dir: Path | None) -> AbstractAsyncContextManager[tuple[Services, Principal]]:
    from holdfast.app import open_local

    return open_local(load(data_dir=data_dir))


def main() -> None:
    """`holdfast`, alias `xeroctl`."""
    cli(obj=_opens)
