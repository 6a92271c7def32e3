"""A process that syncs repositories until it is killed; it is given the store, its address and the data directory."""

import asyncio
import sys
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from tests.fakes.embedder import WordEmbedder
from tests.support.services import build_services
from tests.support.stores.doomed import open_store


async def main() -> None:
    store, address, data_dir = sys.argv[1:]
    database = open_store(store, address)
    settings = Settings(data_dir=Path(data_dir))
    await build_services(settings, database, SystemClock(), WordEmbedder()).jobs.run()


if __name__ == "__main__":
    asyncio.run(main())
