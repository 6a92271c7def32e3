"""Owns people at a server for tests: members with their own browsers."""

from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from holdfast.core.principal import Role
from tests.support.server import Tenant, TestServer

PASSWORD = "correct horse battery"


class People:
    """Signed-in browsers, closed at the end."""

    def __init__(self, server: TestServer, stack: AsyncExitStack) -> None:
        self.server = server
        self._stack = stack

    async def add(self, email: str, role: Role = "member", tenant: Tenant | None = None, **more: Any) -> str:
        owner = tenant.owner if tenant else self.server.owner
        user = await self.server.services.identity.create_user(owner, email=email, name="Somebody", role=role, **more)
        return user.id

    async def sign_in(self, user_id: str, tenant: Tenant | None = None) -> httpx.AsyncClient:
        browser = await self.server.browser(user_id, tenant.owner if tenant else None)
        return await self._stack.enter_async_context(browser)

    async def stranger(self) -> httpx.AsyncClient:
        return await self._stack.enter_async_context(self.server.stranger())


def secret_of(url: str) -> str:
    (value,) = (values[0] for values in parse_qs(urlsplit(url).query).values())
    return value
