"""Owns what every matrix of access stands on: a server with one of each thing, every kind of credential, a verdict."""

import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from holdfast.core.settings import Settings
from holdfast.server.routes import build_gate
from holdfast.storage.database import Database
from tests.fakes.mcp.inside import InsideServers
from tests.support.access.callers import JWT_SECRET, every_credential
from tests.support.access.oracle import Credential, Expected
from tests.support.access.tenant import make_everything
from tests.support.asgi import Answer
from tests.support.server import TestServer, serving

# No limit of requests and no switch of the operator may answer for an access rule; JWTs are accepted.
SETTINGS: dict[str, Any] = {
    "allow_organizations": True,
    "jwt_secret": JWT_SECRET,
    "requests_per_minute": 1_000_000,
    "chat_requests_per_minute": 1_000_000,
    "mcp_calls_per_minute": 1_000_000,
    "mcp_rate_limit_per_minute": 1_000_000,
}


@dataclass(frozen=True, slots=True)
class Ground:
    """What a matrix stands on: made once, asked thousands of times."""

    server: TestServer
    app: ASGIApp
    ids: dict[str, str]
    credentials: list[Credential]


@asynccontextmanager
async def ground(database: Database) -> AsyncIterator[Ground]:
    """One tenant with one of everything, another tenant, and one credential of each kind."""
    async with serving(database, instead=InsideServers().instead(), **SETTINGS) as server:
        async with server.client() as client:
            ids = await make_everything(client, server)
        credentials = await every_credential(server)
        settings = Settings(data_dir=Path("/nonexistent"), port=0, secrets_master_key="5a" * 32, **SETTINGS)
        gate = build_gate(settings, server.services, server.url)
        try:
            yield Ground(server, gate, ids, credentials)
        finally:
            for stop in gate.on_stop:
                await stop()


def verdict(expected: Expected, answer: Answer, fine: Collection[int] = ()) -> str | None:
    """What is wrong with an answer; None when it is what was expected. `fine`: what else is no refusal here."""
    if answer.status >= 500:
        return f"is answered {answer.status}: {answer.text[:200]}"
    if expected.status == "ok":
        is_fine = answer.status < 400 or answer.status in fine
        return None if is_fine else f"is refused with {answer.status}: {answer.text[:300]}"
    if answer.status != expected.status:
        return f"is answered {answer.status}, not {expected.status}: {answer.text[:300]}"
    message = json.loads(answer.body)["error"]["message"] if expected.status == 403 else ""
    if expected.status == 403 and not any(word in message for word in expected.words):
        return f"names none of {expected.words}: {message}"
    return None
