"""A process that runs proofs until it is killed; it is given the store, its address and the data directory."""

import asyncio
import sys
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import MASTER_KEY
from tests.support.services import background, build_services
from tests.support.stores.doomed import open_store


async def main() -> None:
    store, address, data_dir = sys.argv[1:]
    settings = Settings(data_dir=Path(data_dir), secrets_master_key=MASTER_KEY)
    services = build_services(settings, open_store(store, address), SystemClock(), WordEmbedder())
    async with background(services):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
