"""Owns reading one batch ahead: the child reads on while what it gave is written."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def ahead(source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The values of `source`, the next one already on its way; `source` is closed at the end, however that comes."""

    async def following() -> T | None:
        return await anext(source, None)

    async with aclosing(source):
        coming = asyncio.create_task(following())
        try:
            while (value := await coming) is not None:
                coming = asyncio.create_task(following())
                yield value
        finally:
            coming.cancel()
            await asyncio.wait([coming])
