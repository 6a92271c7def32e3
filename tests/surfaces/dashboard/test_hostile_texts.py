"""Stored attacks and secrets on every page: no text of anybody becomes markup, no secret's value comes back."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.ids import new_id
from holdfast.features.agents.sessions.base import SessionBase
from holdfast.features.agents.sessions.model import SessionFilter
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.artifacts.model import NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.cases.model import NewCase
from holdfast.features.cases.proofs import store as proof_store
from holdfast.features.cases.service import CaseService
from holdfast.features.catalog import store as catalog_store
from holdfast.features.catalog.model import PinnedTool, ToolDescription
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.chat import store as chat_store
from holdfast.features.chat.model import ChatQuestion
from holdfast.features.chat.service import ChatService
from holdfast.features.clients.model import NewClient
from holdfast.features.clients.service import Clients
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.execution.model import InvocationRequest, NewGrant
from holdfast.features.execution.policies.grants import Grants
from holdfast.features.execution.service import Execution
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.sessions.sign_in import principal_of
from holdfast.features.intelligence.model import NewDecision, NewMilestone
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.features.repositories.model import NewRepository
from holdfast.features.repositories.service import Repositories
from holdfast.features.usage.service import Usage
from holdfast.storage.database import Tx
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.attacks.markup import PAYLOADS
from tests.support.code.git import GitRepo
from tests.support.execution.counting import pinned
from tests.support.features.cases import seen_to_pass
from tests.support.pages.dashboard import (
    addresses,
    page_rows,
    repository_addresses,
    seed,
    seed_sessions,
    work_done,
)
from tests.support.server import TestServer, serving

_CANARY = "canary-5d1f-value-that-no-answer-holds"
_TAG = re.compile(r"<([a-z][a-z0-9-]*)[\s>/]", re.IGNORECASE)
_NEVER = ("script", "iframe", "img", "base", "object")
_ATTRIBUTE = re.compile(r"\son[a-z]+\s*=", re.IGNORECASE)


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    async with serving(
        sqlite_database,
        requests_per_minute=100_000,
        data_dir=tmp_path / "data",
        repository_paths=(str(tmp_path / "code"),),
    ) as running:
        yield running


def _told(payload: str, at: int) -> str:
    return f"Number {at} says {payload}"


async def _plant(server: TestServer, folder: Path) -> str:
    """Every payload wherever somebody's words are kept; the slug of the repository with some of them."""
    services, owner, workspace = server.services, server.owner, server.start.workspace_id
    memories, intelligence = services[MemoryService], services[IntelligenceService]
    artifacts = services[ArtifactService]
    # A NUL is refused at the door of most of them.
    for at, payload in enumerate(each.replace("\x00", "") for each in PAYLOADS):
        await memories.save(owner, workspace, NewMemory(_told(payload, at), title=payload[:200], tags=(payload[:60],)))
        await intelligence.decisions.track(
            owner, workspace, NewDecision(payload[:200], _told(payload, at), alternatives=(payload,))
        )
        await intelligence.milestones.track(owner, workspace, NewMilestone(payload[:200], description=payload))
        made = NewArtifact(identifier=f"made-{at}", title=payload[:200], type="text/markdown", content=payload)
        await artifacts.create(owner, workspace, made)
        seen = NewClient(payload[:100], payload[:20], "2025-06-18", payload[:100], {payload: {}})
        await services[Clients].see(owner, seen)
        services[Usage].log(owner, source="rest", operation="ask", model=payload, tokens_in=1, tokens_out=1)
        await _plant_case(server, payload, blocked=at % 2 == 0)
    hostile = PAYLOADS[0]
    async with server.client() as client:
        for at, payload in enumerate(PAYLOADS[:6]):
            name = payload.replace("/", "")[:80] + ".md"
            file = {"file": (name, _told(payload, at).encode(), "text/markdown")}
            await client.post(f"/api/workspaces/{workspace}/documents", files=file)
    await services.identity.create_user(owner, email="eve@example.com", name=hostile[:100])
    session = await services.sign_in.by_link(await server.link(server.start.owner_id))
    await services[Invitations].invite(principal_of(session.session), email="mal@example.com", name=hostile[:100])
    upstream = EndpointUpstream(base_url="https://api.example.com/v1", model=hostile[:100])
    await services[Endpoints].add_upstream(owner, server.start.project_id, "default", upstream)
    chat = await services[ChatService].create(owner, workspace, title=hostile[:100])
    asked = ChatQuestion(
        new_id("ask"), chat.id, "msg_1", "call_1", {"question": hostile}, (), "pending", None, None, 1, None
    )
    await services.database.write(lambda tx: chat_store.insert_question(tx, workspace, asked))
    repo = GitRepo(folder / "shop")
    text = "\n".join(PAYLOADS)
    repo.commit(hostile, {"src/billing.py": f'"""\n{text}\n"""\n', "README.md": f"# {hostile}\n\n{text}\n"})
    added = await services[Repositories].add(owner, workspace, NewRepository(location=str(folder / "shop")))
    await _plant_tools(server)
    await _plant_work(server)
    await work_done(server)
    return added.slug


async def _plant_tools(server: TestServer) -> None:
    """Payloads in what MCP servers say of their tools, in arguments of calls and in grants."""
    services, owner, workspace = server.services, server.owner, server.start.workspace_id
    await pinned(services, owner, workspace)
    entry = await services[ServerCatalog].get(owner, workspace, "demo")
    payloads = [each.replace("\x00", "") for each in PAYLOADS]

    def kept(tx: Tx) -> None:
        for at, payload in enumerate(payloads):
            told = ToolDescription(f"tool{at}", payload, payload, {"description": payload}, None, {})
            pin = PinnedTool(server_id=entry.id, server="demo", pinned=told, digest="0", state="quarantined")
            catalog_store.put_tool(tx, replace(pin, flags=(payload,), set_scope=payload[:64]), position=at, now=1)
            wanted = NewGrant(subject_type="key", subject_id=payload[:100], grant_type="tool_scope")
            services[Grants].add(tx, owner, workspace, replace(wanted, details={"tool": payload}))

    await services.database.write(kept)
    request = InvocationRequest(
        principal=replace(owner, name=payloads[0]),
        workspace_id=workspace,
        tool_name="demo.count",
        arguments={"name": "".join(payloads)},
        source="cli",
    )
    await services[Execution].invoke(request)


async def _plant_work(server: TestServer) -> None:
    """Payloads in what agents do and say, in what proofs print, and in what calls answer and fail with."""
    services, workspace = server.services, server.start.workspace_id
    working, _ = await seed_sessions(server)
    base, told = services[SessionBase], [each.replace("\x00", "") for each in PAYLOADS]
    case = (await services[CaseService].page(server.owner, workspace)).items[0]
    proof, run = seen_to_pass(case, "0" * 40)
    error = {"code": told[1][:60], "message": "".join(told)}

    def kept(tx: Tx) -> None:
        for payload in told:
            for kind, data in (
                ("text", {"text": payload, "whole": True}),
                ("thought", {"text": payload}),
                ("tool_started", {"call_id": payload, "name": payload, "arguments": payload}),
                ("tool_ended", {"call_id": payload, "ok": False, "text": payload}),
                ("tool_called", {"name": payload, "tool": payload, "duration_ms": 1, "status": payload}),
                ("status", {"status": payload, "detail": payload}),
                ("error", {"message": payload, "recoverable": False}),
                ("shared", {"path": payload, "title": payload, "share_id": payload}),
                ("spawned", {"child_session_id": payload, "agent": payload, "prompt": payload}),
                ("message", {"channel": payload, "text": payload, "from": payload}),
            ):
                base.telling.add(tx, working.id, workspace, kind, data)
        result = {
            "summary": "\n\n".join(told),
            "files": [{"path": told[0], "added": 1, "removed": 0}],
            "refused": [{"tool": each, "needs": each} for each in told],
        }
        base.end(tx, working, "failed", error=error, result=result)
        proof_store.add(tx, replace(proof, claim=told[0], command=told[1]))
        output = "\n".join(told)
        proof_store.put_run(
            tx, replace(run, outcome="failed", said=told[2], output=output, environment={"os": told[3]})
        )
        tx.execute(
            "UPDATE invocation SET status = 'failed', result = :result, error = :error, message = :message",
            {
                "result": json.dumps({"content": [{"type": "text", "text": each} for each in told]}),
                "error": json.dumps(error),
                "message": told[0],
            },
        )

    await services.database.write(kept)


async def _plant_case(server: TestServer, payload: str, *, blocked: bool) -> None:
    """A case in whose every word the payload stands."""
    cases, owner = server.services[CaseService], server.owner
    new = NewCase(
        title=payload[:200],
        body=payload,
        criteria=(payload,),
        labels=(payload.replace('"', "'")[:80],),
        assignee=server.start.owner_id if blocked else payload[:200],
    )
    case = await cases.add(owner, server.start.workspace_id, new)
    await cases.comment(owner, None, case.id, payload)
    if blocked:
        await cases.move(owner, None, case.id, "BLOCKED", reason=payload)


def _strange(page: str) -> list[str]:
    """Markup that no template of ours writes: tags that only payloads have, and handlers of events."""
    body = page.partition("<body")[2]
    found = [each for each in _TAG.findall(body) if each.lower() in _NEVER]
    # Of text between quotes nothing is markup; what is left of a tag has only our own attributes.
    tags = re.findall(r"<[a-z][^<>]*>", re.sub(r'"[^"]*"', '""', body))
    return found + [tag for tag in tags if _ATTRIBUTE.search(tag) or "__owned" in tag]


@pytest.mark.slow
async def test_no_stored_text_becomes_markup_on_any_page(server: TestServer, tmp_path: Path) -> None:
    services, workspace = server.services, server.start.workspace_id
    slug = await _plant(server, tmp_path / "code")
    pages = {**await addresses(server), **repository_addresses(slug)}
    shown = 0
    async with await server.browser(server.start.owner_id) as owner:
        more = ["/find?q=number+says", "/w/default/memory?q=number", "/settings/audit?action=memory"]
        cases = (await server.services[CaseService].page(server.owner, server.start.workspace_id, limit=200)).items
        more += ["/w/default/cases?view=board", *(f"/w/default/cases/{case.id}" for case in cases)]
        sessions = services[AgentSessions]
        did = (await sessions.list(server.owner, workspace, SessionFilter(), limit=10, cursor=None)).items
        called = (await services[Execution].list(server.owner, workspace, limit=10)).items
        more += [f"/w/default/sessions/{each.id}" for each in did]
        more += [f"/w/default/invocations/{each.id}" for each in called]
        failed = await asyncio.gather(*(owner.get(url) for url in more[-len(did) - len(called) :]))
        assert sum(page.text.count("__owned") for page in failed) > 10 * len(PAYLOADS), "sessions and calls show them"
        beside = await owner.get("/w/default/manager/cases", headers={"HX-Request": "true"})
        assert "__owned" in beside.text and _strange(f"<body>{beside.text}") == []
        for url in [*pages.values(), *more]:
            if url.endswith(("/frame", "/download")):
                continue
            page = await owner.get(url)
            assert _strange(page.text) == [], url
            shown += page.text.count("__owned")
        asked = await owner.post(f"/w/default/repos/{slug}/ask", data={"question": "What does the readme say?"})
        assert asked.status_code == 200 and _strange(asked.text) == []
        for attack in PAYLOADS[:8]:
            wrong = await owner.post("/w/default/memory/new", data={"content": "", "title": attack, "tags": attack})
            gone = await owner.get(f"/w/default/memory/{attack.replace('/', '')}")
            assert _strange(wrong.text) == [] and _strange(gone.text) == []
    assert shown > 5 * len(PAYLOADS), "the attacks are shown as text"


async def test_no_answer_of_any_page_holds_a_secrets_value(server: TestServer) -> None:
    await seed(server)
    services, workspace = server.services, server.start.workspace_id
    await services.secrets.set(server.owner, workspace, "UPSTREAM_KEY", _CANARY, ["api.example.com"])
    upstream = EndpointUpstream(base_url="https://api.example.com/v1", model="m", key_secret="UPSTREAM_KEY")
    await services[Endpoints].add_upstream(server.owner, server.start.project_id, "default", upstream)
    pages, looked = await addresses(server), 0
    minted = await server.mint("read", name="canary key")
    async with await server.browser(server.start.owner_id) as owner:
        for row in page_rows(server):
            if row.method == "GET":
                answer = await owner.get(pages[row.path])
                looked += 1
            elif "{" not in row.path.replace("{ws}", ""):
                # Forms that are wrong are shown again, with what was typed; a secret's value is not.
                answer = await owner.post(row.path.replace("{ws}", "default"), data={"name": "?", "value": _CANARY})
            else:
                continue
            told = answer.text + str(answer.headers)
            assert _CANARY not in told and minted.secret not in told and server.key not in told, row.path
    assert looked > 20
