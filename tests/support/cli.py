"""Owns the command line for tests: real commands on one data directory, with a deterministic embedder."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from holdfast.core.clock import SystemClock
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings, load
from holdfast.features.identity.service import local_principal
from holdfast.main import cli
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.cli.frame import ProgramEntry
from tests.fakes.embedder import WordEmbedder
from tests.support.services import Services, build_services, first_start, open_local


class Cli:
    """Runs commands on the store at a path; its directory is the data directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, *words: str | Path, input: str | None = None) -> Result:
        """One command as it is called."""
        entry = ProgramEntry(self._opens, _never)
        given = [str(word) for word in (*words, "--data-dir", self._path.parent)]
        return CliRunner().invoke(cli, given, obj=entry, catch_exceptions=False, input=input)

    def json(self, *words: str | Path) -> Any:
        """What a command prints for scripts; all of stdout is that."""
        result = self.run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    @asynccontextmanager
    async def _opens(self, data_dir: Path | None, begins: bool) -> AsyncIterator[tuple[Services, Principal]]:
        database = SqliteDatabase(self._path)
        try:
            settings = load(data_dir=self._path.parent)
            services = build_services(settings, database, SystemClock(), WordEmbedder())
            start = await first_start(services)
            try:
                yield services, local_principal(start.organization_id)
            finally:
                await services.git.close()
        finally:
            await database.close()


class OperatorCli:
    """Runs commands as an operator does: each opens everything on one data directory, as `holdfast` does."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.settings = Settings(data_dir=directory, **settings)

    def run(self, *words: str | Path, given: str = "") -> Result:
        """One command as it is called."""
        entry = ProgramEntry(self._opens, _never)
        return CliRunner().invoke(cli, [*map(str, words)], obj=entry, input=given, catch_exceptions=False)

    def json(self, *words: str | Path) -> Any:
        """What a command prints for scripts; all of stdout is that."""
        result = self.run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def ask(self, work: Callable[[Services, Principal], Awaitable[Any]]) -> Any:
        """What the services answer to the operator."""

        async def run() -> Any:
            async with open_local(self.settings) as (services, principal):
                return await work(services, principal)

        return asyncio.run(run())

    @asynccontextmanager
    async def _opens(self, data_dir: Path | None, begins: bool) -> AsyncIterator[tuple[Services, Principal]]:
        async with open_local(self.settings) as opened:
            yield opened


def _never(settings: Settings, announce: Callable[[Any], None]) -> None:
    raise AssertionError("no command here starts a server")
