"""Measures the dashboard's lists when each has 10,000 rows: processor time of the first page and of the next.

Rows are copies of one that the product made, so that what is measured is reading. The server runs in this process;
what its client and the way cost is measured by `/healthz` and taken off.
"""

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from bench.report import Figure, finish, options
from holdfast.core.ids import new_id
from holdfast.features.audit.service import Audit
from holdfast.features.execution.model import NewGrant
from holdfast.features.execution.policies.grants import Grants
from holdfast.storage.database import Tx
from holdfast.storage.files import STORE
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.dashboard import addresses, seed
from tests.support.server import TestServer, serving

LIMIT_MS = 16.0
"""Twice what a list of 100 rows may cost."""
NEW, NAMED, LATER, BYTES = "new id", "another name", "a moment later", "other bytes"
COPIED: Mapping[str, Mapping[str, str]] = {
    "memory": {"id": NEW, "slug": NAMED, "digest": NAMED, "title": NAMED, "learned_at": LATER, "created_at": LATER},
    "document": {"id": NEW, "sha256": NAMED, "title": NAMED, "created_at": LATER},
    "artifact": {"id": NEW, "identifier": NAMED, "title": NAMED, "created_at": LATER, "updated_at": LATER},
    "decision": {"id": NEW, "title": NAMED, "decided_at": LATER, "created_at": LATER},
    "milestone": {"id": NEW, "title": NAMED, "occurred_at": LATER},
    "chat": {"id": NEW, "title": NAMED, "updated_at": LATER},
    "api_key": {"id": NEW, "name": NAMED, "hash": BYTES, "created_at": LATER},
    "secret": {"id": NEW, "name": NAMED},
    "mcp_server": {"id": NEW, "name": NAMED},
    "agent_session": {"id": NEW, "prompt": NAMED, "created_at": LATER},
    "work_case": {"id": NEW, "title": NAMED, "created_at": LATER, "updated_at": LATER},
    "permission_grant": {"id": NEW, "subject_id": NAMED},
    "mcp_client": {"name": NAMED, "last_seen_at": LATER},
}
LISTS = (
    "/",
    "/w/default/memory",
    "/w/default/documents",
    "/w/default/artifacts",
    "/w/default/decisions",
    "/w/default/timeline",
    "/w/default/cases",
    "/w/default/cases?state=ready",
    "/w/default/cases?view=board",
    "/w/default/sessions",
    "/w/default/invocations",
    "/w/default/settings/grants",
    "/w/default/settings/secrets",
    "/w/default/settings/mcp-servers",
    "/w/default/settings/members",
    "/approvals",
    "/chat",
    "/chat/default",
    "/settings/keys",
    "/settings/people",
    "/settings/clients",
    "/settings/audit",
    "/settings/usage",
)


def _copied(row: Mapping[str, Any], number: int, changes: Mapping[str, str]) -> dict[str, Any]:
    return {name: _changed(old, number, changes.get(name)) for name, old in row.items()}


def _changed(old: Any, number: int, how: str | None) -> Any:
    if how == NEW:
        return new_id(str(old).split("_", 1)[0]) if "_" in str(old) else f"{old}-{number}"
    if how == NAMED:
        return f"{old}-{number}"[-200:]
    if how == LATER:
        return old + number
    return os.urandom(32) if how == BYTES else old


def _insert(tx: Tx, table: str, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    tx.many(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})", rows)


def _first(tx: Tx, table: str) -> dict[str, Any]:
    columns = [row["name"] for row in tx.all(f'PRAGMA table_info("{table}")')]
    row = tx.one(f"SELECT * FROM {table} LIMIT 1")
    assert row is not None, f"nothing to copy in {table}"
    return {name: row[name] for name in columns}


async def _fill(server: TestServer, rows: int) -> None:
    """Copy what there is one of; what belongs together is copied together."""
    database = server.services.database

    def copies(tx: Tx) -> None:
        for table, changes in COPIED.items():
            row = _first(tx, table)
            known = {name: how for name, how in changes.items() if name in row}
            _insert(tx, table, [_copied(row, number, known) for number in range(rows)])
        user, member = _first(tx, "user_account"), _first(tx, "membership")
        users = [_copied(user, number, {"id": NEW, "email": NAMED, "name": NAMED}) for number in range(rows)]
        _insert(tx, "user_account", users)
        _insert(tx, "membership", [member | {"user_id": each["id"], "role": "member"} for each in users])
        call, approval = _first(tx, "invocation"), _first(tx, "approval")
        calls = [
            _copied(call, number, {"id": NEW, "once_key": NAMED, "arguments_digest": NAMED, "created_at": LATER})
            for number in range(rows)
        ]
        _insert(tx, "invocation", calls)
        asked = {"id": NEW, "token": NAMED, "created_at": LATER}
        _insert(
            tx,
            "approval",
            [_copied(approval, number, asked) | {"invocation_id": each["id"]} for number, each in enumerate(calls)],
        )

    await database.write(copies)

    def audited(tx: Tx) -> None:
        for number in range(rows):
            server.services[Audit].record(
                tx, server.owner, "memory.save", resource="memory", resource_id=f"row-{number}"
            )

    await database.write(audited)


async def _cpu_millis(client: httpx.AsyncClient, path: str, times: int, headers: Mapping[str, str] = {}) -> float:
    for _ in range(2):
        (await client.get(path, headers=headers)).raise_for_status()
    before = time.process_time()
    for _ in range(times):
        (await client.get(path, headers=headers)).raise_for_status()
    return (time.process_time() - before) * 1000 / times


async def _measure(rows: int, times: int) -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as place:
        database = SqliteDatabase(Path(place) / STORE)
        await migrate(database)
        try:
            async with serving(database, requests_per_minute=1_000_000, data_dir=Path(place)) as server:
                await seed(server)
                await addresses(server)
                given = NewGrant(subject_type="user", subject_id="usr_x", grant_type="tool_scope", scope="persistent")
                grant = replace(given, details={"tool": "demo.count"})
                services, workspace = server.services, server.start.workspace_id
                await services.database.write(
                    lambda tx: services[Grants].add(tx, server.owner, workspace, grant) and None
                )
                await services.secrets.set(server.owner, server.start.workspace_id, "ROW", "a value")
                await _fill(server, rows)
                async with await server.browser(server.start.owner_id) as owner:
                    await asyncio.sleep(2)
                    floor = await _cpu_millis(owner, "/healthz", 100)
                    for path in LISTS:
                        page = (await owner.get(path)).text
                        more = re.search(r'class="more">\s*<a href="[^"]+" hx-get="([^"]+)"', page)
                        cost = await _cpu_millis(owner, path, times) - floor
                        figures.append(Figure(path, cost, "ms CPU", LIMIT_MS, "lower"))
                        if more is not None:
                            url = unescape(more.group(1))
                            cost = await _cpu_millis(owner, url, times, {"HX-Request": "true"}) - floor
                            figures.append(Figure(f"{path}, read on", cost, "ms CPU", LIMIT_MS, "lower"))
        finally:
            await database.close()
    return figures


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=20)
    chosen = parser.parse_args()
    finish(asyncio.run(_measure(chosen.rows, chosen.times)), as_json=chosen.json)


if __name__ == "__main__":
    main()
