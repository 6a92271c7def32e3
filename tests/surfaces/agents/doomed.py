"""A process that runs sessions until it is killed: `python -m tests.surfaces.agents.doomed STORE ADDRESS FOLDER`."""

import asyncio
import sys
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import MASTER_KEY
from tests.support.services import Services, background, build_services
from tests.support.stores.doomed import open_store


def services_on(database: Database, folder: Path) -> Services:
    """The product's services, whose sessions live in a folder."""
    settings = Settings(data_dir=folder, secrets_master_key=MASTER_KEY)
    return build_services(settings, database, SystemClock(), WordEmbedder())


async def main() -> None:
    store, address, folder = sys.argv[1:]
    async with background(services_on(open_store(store, address), Path(folder))):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
