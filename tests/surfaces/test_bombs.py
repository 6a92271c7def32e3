"""Proves that no server that we are led to holds us up: floods, squeezed bombs and drips end, by bytes or by time."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.llm.remote.reading import MAX_ANSWER_BYTES
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.flood import Flood, flood
from tests.fakes.llm.model import KEY, calls, model, says
from tests.support.attacks.delta_bombs import delta_bomb, sending
from tests.support.code.git import GitRepo
from tests.support.code.git_server import git_server, has_http_backend
from tests.support.server import TestServer, serving

MEGABYTE = 1_000_000
SOCKETS = 16 * MEGABYTE
"""What two kernels' buffers and our own may hold beyond what anybody read."""
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
RESEARCH = {"web_search_options": {"x_tools": ["fetch_url", "code_search", "calculator"]}}


@pytest.fixture
async def water() -> AsyncIterator[Flood]:
    async with flood() as made:
        yield made


@pytest.fixture
async def server(water: Flood, sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    settings: dict[str, Any] = {
        "fetch_allow": (water.place,),
        "upstream_allow": ("127.0.0.0/8",),
        "github_url": water.url("/json"),
        "github_token": "t",
    }
    async with serving(sqlite_database, data_dir=tmp_path / "data", **settings) as running:
        yield running


async def connect(server: TestServer, base_url: str) -> str:
    await server.services.secrets.set(server.owner, server.start.workspace_id, "MODEL_KEY", KEY)
    spec = EndpointUpstream(base_url=base_url, model="m", key_secret="MODEL_KEY")
    made = await server.services.endpoints.put(server.owner, server.start.project_id, "x", [spec])
    return f"{made.path}/chat/completions"


@pytest.mark.slow
async def test_pages_without_end_are_cut_and_the_chat_goes_on(server: TestServer, water: Flood) -> None:
    """The product's own limits, all at once: each page has its bytes and its seconds."""
    kinds = ("plain", "squeezed", "padding", "twice", "drip")
    wanted = [("fetch_url", {"url": water.url(f"/{kind}")}) for kind in kinds]
    async with model(calls(*wanted, ("code_search", {"repository": "a/b"})), says("Done.")) as fake:
        path = await connect(server, fake.url)
        async with server.client() as client:
            answer = await client.post(path, json={**HELLO, **RESEARCH}, timeout=120)
            assert (await client.get("/healthz")).status_code == 200
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "Done."
    results = [message["content"] for message in fake.requests[-1]["messages"] if message["role"] == "tool"]
    told = dict(zip((*kinds, "github"), results, strict=True))
    assert "error" in told["drip"] and "seconds" in told["drip"], told["drip"][:300]
    assert "error" in told["twice"] and "not supported" in told["twice"], told["twice"][:300]
    assert "error" in told["github"], told["github"][:300]
    assert max(map(len, results)) < 100_000
    limits = {"/plain": 2 * MEGABYTE, "/squeezed": MEGABYTE, "/padding": 3 * MEGABYTE, "/twice": MEGABYTE}
    for path, most in {**limits, "/drip": 1_000, "/robots.txt": MEGABYTE}.items():
        assert water.sent.get(path, 0) < most + SOCKETS, path


@pytest.mark.parametrize("kind", ["lines", "line", "lists", "choices", "calls", "json"])
@pytest.mark.slow
async def test_a_model_that_never_stops_is_broken_off_where_its_answer_is_read(
    server: TestServer, water: Flood, kind: str
) -> None:
    path = await connect(server, water.url(f"/{kind}"))
    async with server.client() as client:
        answer = await client.post(path, json={**HELLO, "web_search_options": {"x_tools": ["calculator"]}}, timeout=120)
    assert answer.status_code == 502, answer.text[:300]
    assert "upstream" in answer.json()["error"]["message"].lower()
    assert max(water.sent.values()) < MAX_ANSWER_BYTES + SOCKETS


@pytest.mark.parametrize("kind", ["json", "lines", "plain"])
async def test_a_relayed_answer_is_passed_on_and_never_gathered(server: TestServer, water: Flood, kind: str) -> None:
    """Without a length nobody knows how much there is; the client's pace is the upstream's."""
    path = await connect(server, water.url(f"/{kind}"))
    taken = 0
    # Events are relayed to whoever asked for events; anybody else is told the whole, which is bounded.
    asked = {**HELLO, "stream": kind == "lines"}
    async with server.client() as client, client.stream("POST", path, json=asked, timeout=60) as answer:
        assert answer.status_code == 200
        async for piece in answer.aiter_raw():
            taken += len(piece)
            if taken > 12 * MEGABYTE:
                break
        # While nobody reads, the upstream is not read either.
        before = -1
        while before != (before := max(water.sent.values())):
            await asyncio.sleep(0.2)
        # The machine keeps as much as it likes in its sockets, on both legs; gathering would have no end.
        assert before < taken + 6 * SOCKETS


async def test_events_that_nobody_asked_for_are_read_within_bounds(server: TestServer, water: Flood) -> None:
    path = await connect(server, water.url("/lines"))
    async with server.client() as client:
        answer = await client.post(path, json=HELLO, timeout=60)
    assert answer.status_code == 502
    assert max(water.sent.values()) < MAX_ANSWER_BYTES + SOCKETS


@pytest.mark.slow
@pytest.mark.skipif(not has_http_backend(), reason="git's http-backend is not installed")
async def test_a_delta_bomb_is_refused_leaves_nothing_and_others_go_on(
    sqlite_database: SqliteDatabase, tmp_path: Path
) -> None:
    """A pack of less than a kilobyte whose one file unpacks to four gigabytes."""
    bomb = delta_bomb(4 << 30, true_names=False)
    assert len(bomb.pack) < 1_000
    served = tmp_path / "served"
    served.mkdir()
    GitRepo(served / "good.git", bare=True).grow(2)
    with git_server(served) as evil, git_server(served) as good:
        evil.answer_with = sending(bomb)
        allowed = (evil.place, good.place)
        running = serving(sqlite_database, data_dir=tmp_path / "data", fetch_allow=allowed)
        async with running as server, server.client() as client:
            space, wait = f"/api/workspaces/{server.start.workspace_id}/repositories", server.services.jobs.wait
            added = await client.post(space, json={"location": evil.url("bomb.git")})
            other = await client.post(space, json={"location": good.url("good.git")})
            jobs = [await wait(each.json()["job_id"], timeout_seconds=60) for each in (added, other)]
            shown = await client.get(f"{space}/bomb")
        left = sorted(path.name for path in (tmp_path / "data" / "repositories").iterdir() if path.is_dir())
    assert [job.state for job in jobs] == ["failed", "succeeded"]
    assert "unpacks to more than allowed" in shown.json()["reason"]
    assert left == [f"{other.json()['id']}.git"]
    assert json.dumps(shown.json()).count("Traceback") == 0
