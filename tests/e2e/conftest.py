"""Owns what end-to-end tests share: a real browser."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.support.pages.browsing import chromium


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as launched:
        yield launched
