"""A process that runs sessions as pods until it is killed: `python -m tests.kubernetes.node.doomed DATABASE FOLDER`."""

import asyncio
import sys
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from tests.fakes.embedder import WordEmbedder
from tests.kubernetes.node.conftest import SETTINGS
from tests.support.features.audit import MASTER_KEY
from tests.support.services import background, build_services
from tests.support.stores.doomed import open_store


async def main() -> None:
    database, folder = sys.argv[1:]
    settings = Settings(data_dir=Path(folder), secrets_master_key=MASTER_KEY, **SETTINGS)
    async with background(build_services(settings, open_store("sqlite", database), SystemClock(), WordEmbedder())):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
