"""Odd frames against a running server: it answers each of them and goes on serving."""

import random
from typing import Any

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import ERAS, serve_site

_ODD: list[Any] = [None, True, 0, -1, 2**70, 1.5, "", "x" * 5_000, "\x00\ud7ff", [], [[]], {}, {"a": {"b": []}}]
_KEYS = ["name", "arguments", "uri", "cursor", "_meta", "ref", "argument", "protocolVersion", "inputResponses", "level"]
_METHODS = [
    "tools/call",
    "tools/list",
    "prompts/get",
    "prompts/list",
    "resources/read",
    "resources/list",
    "resources/subscribe",
    "completion/complete",
    "initialize",
    "ping",
    "server/discover",
    "logging/setLevel",
    "rpc.discover",
    "",
]


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_odd_parameters_never_break_the_server(sqlite_database: SqliteDatabase, era: str) -> None:
    chance = random.Random(20261116)
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize()
        for _ in range(80):
            method = chance.choice(_METHODS)
            params = {key: chance.choice(_ODD) for key in chance.sample(_KEYS, chance.randint(0, 4))}
            if era == "legacy":
                answer = await raw.request(method, params)
            else:
                body, headers = raw.modern(method, params)
                body["params"].update({key: value for key, value in params.items() if key != "_meta"})
                headers = {key: value for key, value in headers.items() if value.isascii() and "\x00" not in value}
                answer = await raw.http.post(site.url, json=body, headers=headers)
            assert answer.status_code in (200, 400, 404), (method, params, answer.text)
            found = answer.json()
            assert ("result" in found) != ("error" in found)
            assert found.get("error", {}).get("code") != -32603, (method, params, found)
        assert (await raw.request("ping")).json()["result"] == {}
