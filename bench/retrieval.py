"""Measures what search finds: evidence recall on LoCoMo conversations, saved and asked for as clients do.

Recall at 5, 10 and 20 over all questions and per question type. The data is CC BY-NC 4.0 and no part of the project.
"""

import asyncio
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from starlette.types import ASGIApp

from bench.report import Figure, finish, options
from bench.vectors import RememberingEmbedder
from holdfast.core.clock import SystemClock, iso
from holdfast.core.settings import Settings
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.features.identity.service import local_principal
from holdfast.server.routes import build_gate
from holdfast.server.start import Start
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.support.asgi import Answer, ask
from tests.support.services import Services, background, build_services, first_start

DEPTHS = (5, 10, 20)
TARGETS_AT_10 = {"rest": 86.0, "mcp": 84.0, "mcp-connection": 84.0}
PROTOCOL, OLDER_PROTOCOL = "2026-07-28", "2025-11-25"
TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


@dataclass(frozen=True, slots=True)
class Turn:
    """What somebody said."""

    id: str
    speaker: str
    text: str
    session: str
    position: int
    moment: int

    @property
    def said(self) -> str:
        """As people write down who said what."""
        return f"{self.speaker}: {self.text}"


class OverRest:
    """Every turn as a client of REST saves it: `Name: words`, with the session's id and date; asked for by recall."""

    def __init__(self, app: ASGIApp, start: Start, services: Services) -> None:
        self._app, self._start, self._services = app, start, services
        self._workspaces: dict[int, str] = {}
        self._turns: dict[str, list[str]] = {}
        self.lost = 0

    async def remember(self, conversation: int, turns: Sequence[Turn]) -> None:
        """Save in the order spoken. What is refused as junk is lost; a repeated text is the memory it repeats."""
        owner = local_principal(self._start.organization_id)
        made = await self._services.workspaces.create(owner, self._start.project_id, f"Conversation {conversation}")
        self._workspaces[conversation] = made.id
        for turn in turns:
            id = await self.save(made.id, turn)
            self.lost += id is None or id in self._turns
            if id is not None:
                self._turns.setdefault(id, []).append(turn.id)

    async def ask(self, conversation: int, question: str) -> list[str]:
        """The turns of the memories found."""
        return [turn for id in await self.recall(self._workspaces[conversation], question) for turn in self._turns[id]]

    async def save(self, workspace_id: str, turn: Turn) -> str | None:
        """The memory's id; None where it is refused."""
        body = {"content": turn.said, "occurred_at": iso(turn.moment), "session_id": turn.session}
        answer = await self._post(f"/api/workspaces/{workspace_id}/memories", body)
        if answer.status == 422:
            return None
        return str(_checked(answer)["memory_id"])

    async def recall(self, workspace_id: str, question: str) -> list[str]:
        """The ids of memories."""
        answer = await self._post(
            f"/api/workspaces/{workspace_id}/memories/recall", {"query": question, "limit": max(DEPTHS)}
        )
        return [str(one["id"]) for one in _checked(answer)["items"]]

    async def _post(self, path: str, body: dict[str, Any], **headers: str) -> Answer:
        headers |= {"authorization": f"Bearer {self._start.api_key}", "content-type": "application/json"}
        return await ask(self._app, "POST", path, headers, body=json.dumps(body).encode())


class OverMcp(OverRest):
    """Every turn by `xerotier.memory.save`, which knows no session; asked for by `xerotier.memory.recall`."""

    async def save(self, workspace_id: str, turn: Turn) -> str | None:
        """The memory's id; None where it is rejected."""
        arguments = {"content": turn.said, "occurred_at": iso(turn.moment)}
        return cast(str | None, (await self._call(workspace_id, "xerotier.memory.save", arguments))["memory_id"])

    async def recall(self, workspace_id: str, question: str) -> list[str]:
        """The ids of memories."""
        arguments = {"query": question, "limit": max(DEPTHS)}
        found = await self._call(workspace_id, "xerotier.memory.recall", arguments)
        return [str(one["id"]) for one in found["memories"]]

    async def _call(self, workspace_id: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": meta},
        }
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": PROTOCOL,
            "mcp-method": "tools/call",
            "mcp-name": tool,
            "x-xerotier-workspace": workspace_id,
        }
        answer = await self._post(f"/{self._start.project_id}/v1/mcp", body, **headers)
        return cast(dict[str, Any], _checked(answer)["result"]["structuredContent"])


class OverMcpConnection(OverMcp):
    """The same through connections of the handshake era: one session of a client's holds a whole workspace's talks."""

    def __init__(self, app: ASGIApp, start: Start, services: Services) -> None:
        super().__init__(app, start, services)
        self._sessions: dict[str, str] = {}

    async def _call(self, workspace_id: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        path, headers = f"/{self._start.project_id}/v1/mcp", {"accept": "application/json, text/event-stream"}
        headers |= {"x-xerotier-workspace": workspace_id}
        if workspace_id not in self._sessions:
            info = {"name": "bench", "version": "1"}
            params = {"protocolVersion": OLDER_PROTOCOL, "capabilities": {}, "clientInfo": info}
            body: dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            self._sessions[workspace_id] = (await self._post(path, body, **headers)).headers["mcp-session-id"]
        headers |= {"mcp-session-id": self._sessions[workspace_id], "mcp-protocol-version": OLDER_PROTOCOL}
        params = {"name": tool, "arguments": arguments}
        answer = await self._post(
            path, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, **headers
        )
        return cast(dict[str, Any], _checked(answer)["result"]["structuredContent"])


WAYS: dict[str, type[OverRest]] = {"rest": OverRest, "mcp": OverMcp, "mcp-connection": OverMcpConnection}


def _checked(answer: Answer) -> Any:
    if answer.status not in (200, 201):
        raise RuntimeError(f"{answer.status}: {answer.text[:500]}")
    return answer.json()


def turns(conversation: dict[str, Any]) -> Iterator[Turn]:
    """Each turn with its speaker, its session and the session's date."""
    for name, session in conversation.items():
        if not isinstance(session, list):
            continue
        spoken = datetime.strptime(conversation[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for position, turn in enumerate(session):
            caption = f" [shared {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            moment = round(spoken.timestamp() * 1000)
            yield Turn(turn["dia_id"], turn["speaker"], turn["text"] + caption, name, position, moment)


async def measure(path: Path, embedder: Embedder, through: str) -> list[Figure]:
    """Store every conversation and ask every question."""
    shares: dict[str, list[list[float]]] = defaultdict(list)
    searching = storing = 0.0
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "bench.db")
        await migrate(database)
        settings = Settings(
            data_dir=Path(directory),
            mcp_calls_per_minute=10**9,
            requests_per_minute=10**9,
        )
        services = build_services(settings, database, SystemClock(), embedder)
        async with background(services):
            start = await first_start(services)
            gate = build_gate(settings, services, "http://127.0.0.1")
            for ready in gate.on_ready:
                await ready()
            product = WAYS[through](gate, start, services)
            for number, sample in enumerate(json.loads(path.read_text())):
                spoken = list(turns(sample["conversation"]))
                started = time.process_time()
                await product.remember(number, spoken)
                storing += time.process_time() - started
                known = {turn.id for turn in spoken}
                for question in sample["qa"]:
                    evidence = set(question.get("evidence", [])) & known
                    if not evidence:
                        continue
                    started = time.process_time()
                    found = await product.ask(number, question["question"])
                    searching += time.process_time() - started
                    share = [len(evidence & set(found[:depth])) / len(evidence) for depth in DEPTHS]
                    for group in ("all", TYPES[question["category"]]):
                        shares[group].append(share)
        await database.close()
    told = figures(shares, embedder.id, through, storing, searching)
    return [*told, Figure("turns refused, or taken for repetitions", product.lost, "")]


def figures(
    shares: dict[str, list[list[float]]], embedder: str, through: str, storing: float, searching: float
) -> list[Figure]:
    """The means, all questions first."""
    found = []
    for group in ("all", *TYPES.values()):
        rows = shares[group]
        for index, depth in enumerate(DEPTHS):
            mean = 100 * sum(row[index] for row in rows) / max(len(rows), 1)
            target = (
                TARGETS_AT_10[through] if group == "all" and depth == 10 and embedder == MiniLmEmbedder.id else None
            )
            found.append(Figure(f"recall@{depth}, {group} ({len(rows)} questions)", mean, "%", target))
    found.append(Figure("storing every turn, CPU", storing, "s"))
    found.append(
        Figure("one search, CPU, without what is remembered of vectors", 1000 * searching / len(shares["all"]), "ms")
    )
    return found


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/locomo-dev.json")
    parser.add_argument("--embedder", choices=("minilm", "words"), default="minilm")
    parser.add_argument("--through", choices=WAYS, default="rest", help="which way to measure")
    parser.add_argument("--cache", type=Path, help="keep vectors in files of this name, to measure again sooner")
    chosen = parser.parse_args()
    embedder: Embedder = MiniLmEmbedder() if chosen.embedder == "minilm" else WordEmbedder()
    if chosen.cache:
        embedder = RememberingEmbedder(embedder, chosen.cache)
    finish(asyncio.run(measure(chosen.data, embedder, chosen.through)), as_json=chosen.json)


if __name__ == "__main__":
    main()
