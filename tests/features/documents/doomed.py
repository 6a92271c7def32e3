"""A process that reads documents until it is killed; it is given the store, its address, organization and workspace."""

import asyncio
import sys

from holdfast.core.clock import SystemClock
from tests.support.features.library import build
from tests.support.stores.doomed import open_store


async def main() -> None:
    store, address, organization_id, workspace_id = sys.argv[1:]
    database = open_store(store, address)
    await build(database, SystemClock(), organization_id, workspace_id).jobs.run()


if __name__ == "__main__":
    asyncio.run(main())
