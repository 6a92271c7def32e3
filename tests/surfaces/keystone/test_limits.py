"""The limit of tool calls a minute for each key, which neither the handshake nor the list counts towards."""

import pytest

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.surfaces.keystone.harness import serve_keystone

pytestmark = pytest.mark.contract("KS-7")


async def test_the_sixty_first_call_of_a_minute_waits(database: Database, clock: MovableClock) -> None:
    async with serve_keystone(database, clock=clock) as at, at.http(await at.key()) as http:
        for left in range(59, -1, -1):
            answer = await http.call("list_projects")
            assert (answer.status_code, answer.headers["x-ratelimit-remaining"]) == (200, str(left))
        refused = await http.call("list_projects")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["x-ratelimit-limit"] == "60"
        assert refused.headers["x-ratelimit-remaining"] == "0"
        assert refused.headers["x-ratelimit-reset"] == str(clock.now() // 1000 + 60)
        assert refused.json()["id"] == 61 and "limit is 60" in refused.json()["error"]["message"]
        async with at.http(await at.key()) as other:
            assert (await other.call("list_projects")).status_code == 200
        for _ in range(3):
            assert (await http.initialize()).status_code == 200
            assert (await http.send("tools/list")).status_code == 200
            assert (await http.send("ping")).status_code == 200
        assert (await http.modern("tools/call", {"name": "list_projects", "arguments": {}})).status_code == 429
        clock.advance(seconds=60)
        assert (await http.call("list_projects")).headers["x-ratelimit-remaining"] == "59"


async def test_operators_choose_the_limit(sqlite_database: SqliteDatabase) -> None:
    clock = MovableClock()
    async with (
        serve_keystone(sqlite_database, clock=clock, mcp_rate_limit_per_minute=2) as at,
        at.http(await at.key()) as http,
    ):
        assert "x-ratelimit-limit" not in (await http.initialize()).headers
        statuses = [(await http.call("nothing")).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        clock.advance(seconds=29.9)
        assert (await http.call("list_projects")).status_code == 429
        clock.advance(seconds=0.2)
        assert (await http.call("list_projects")).status_code == 200
