"""The limit of tool calls a minute for each key, which neither the handshake nor the list counts towards."""

import pytest

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.surfaces.keystone.harness import serve_keystone

pytestmark = pytest.mark.contract("KS-7")


async def test_the_sixty_first_call_of_a_minute_waits(database: Database, clock: MovableClock) -> None:
    async with serve_keystone(database, clock=clock) as at, at.http(await at.key()) as http:
        began = clock.now()
        for left in range(59, -1, -1):
            answer = await http.call("list_projects")
            assert (answer.status_code, answer.headers["x-ratelimit-remaining"]) == (200, str(left))
            assert "retry-after" not in answer.headers
        clock.advance(seconds=20)
        refused = await http.call("list_projects")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "40"
        assert refused.headers["x-ratelimit-limit"] == "60"
        assert refused.headers["x-ratelimit-remaining"] == "0"
        assert refused.headers["x-ratelimit-reset"] == str(began // 1000 + 60)
        assert refused.json()["id"] == 61 and "limit is 60" in refused.json()["error"]["message"]
        async with at.http(await at.key()) as other:
            assert (await other.call("list_projects")).status_code == 200
        for _ in range(3):
            assert (await http.initialize()).status_code == 200
            assert (await http.send("tools/list")).status_code == 200
            assert (await http.send("ping")).status_code == 200
        assert (await http.modern("tools/call", {"name": "list_projects", "arguments": {}})).status_code == 429
        clock.millis = began + 59_999
        assert (await http.call("list_projects")).status_code == 429
        clock.millis = began + 60_000
        assert (await http.call("list_projects")).headers["x-ratelimit-remaining"] == "59"


async def test_slow_callers_get_no_more_and_operators_choose_how_much(sqlite_database: SqliteDatabase) -> None:
    clock = MovableClock()
    async with (
        serve_keystone(sqlite_database, clock=clock, mcp_rate_limit_per_minute=2) as at,
        at.http(await at.key()) as http,
    ):
        assert "x-ratelimit-limit" not in (await http.initialize()).headers
        statuses = []
        for _ in range(4):
            statuses.append((await http.call("nothing")).status_code)
            clock.advance(seconds=19)
        assert statuses == [200, 200, 429, 429]
        assert (await http.call("nothing")).status_code == 200
