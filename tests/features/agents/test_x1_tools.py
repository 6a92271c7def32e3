"""The 25 tools of `x1agent`, each called by the MCP library's client through the session's own socket."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.memory.model import NewMemory
from tests.features.agents.conftest import Agent, GateHouse
from tests.support.agents.clients import hosted, sdk_client

SIGNATURES = {
    "emit_status": ({"status"}, {"detail"}),
    "emit_artifact": ({"artifact_type", "title", "content"}, {"language", "metadata"}),
    "request_input": ({"question", "request_id"}, {"options"}),
    "emit_error": ({"message", "recoverable"}, set[str]()),
    "share": ({"path"}, {"title", "share_id"}),
    "request_permission": ({"scopes", "justification"}, {"requested_tool", "requested_args"}),
    "end_session": ({"summary"}, set[str]()),
    "list_collections": (set[str](), set[str]()),
    "graph_query": ({"query"}, {"collection", "vars"}),
    "graph_write": ({"record_type", "data"}, {"collection", "confidence", "source", "derived_from"}),
    "graph_relate": ({"from", "edge", "to"}, {"collection", "properties"}),
    "graph_resolve": ({"record_type"}, {"name", "email", "attributes", "collection"}),
    "graph_discover": (set[str](), {"collection"}),
    "vector_upsert": ({"id"}, {"vector", "text", "collection", "metadata"}),
    "vector_search": (set[str](), {"vector", "text", "top_k", "filter", "collection"}),
    "vector_delete": ({"id"}, {"collection"}),
    "post_message": ({"channel", "text"}, {"thread_id", "username"}),
    "request_grant": ({"request_id", "grant_type", "details", "scope", "justification"}, set[str]()),
    "preview_deploy": ({"repo_full_name", "branch", "commit_sha"}, set[str]()),
    "spawn_session": ({"child_agent_id"}, {"prompt", "model"}),
    "list_spawnable_agents": (set[str](), set[str]()),
    "read_child_output": ({"child_session_id"}, {"after_seq", "limit"}),
    "inject_message": ({"child_session_id", "text"}, set[str]()),
    "expect_quiet_for": ({"seconds"}, {"reason"}),
    "message_caller": ({"summary"}, {"body", "needs_response"}),
}


@pytest.fixture
async def agent(house: GateHouse) -> AsyncIterator[Agent]:
    session = house.session()
    async with house.open(session), hosted(sdk_client(house.socket(session, "x1agent"))) as client:
        yield Agent(house, session, client)


@pytest.mark.contract("XA-1")
async def test_there_are_25_tools_with_the_documented_arguments(agent: Agent) -> None:
    listed = {tool.name: tool.input_schema for tool in (await agent.client.list_tools()).tools}
    found = {
        name: (set(schema.get("required", ())), set(schema["properties"]) - set(schema.get("required", ())))
        for name, schema in listed.items()
    }
    assert found == SIGNATURES
    assert listed["emit_status"]["properties"]["status"]["enum"] == [
        *("starting", "researching", "analyzing", "writing", "reviewing", "waiting", "done")
    ]
    assert listed["emit_artifact"]["properties"]["artifact_type"]["enum"] == [
        *("code", "analysis", "summary", "document", "diff", "other")
    ]
    assert listed["request_grant"]["properties"]["grant_type"]["enum"] == ["spawn", "tool_scope"]
    assert listed["request_grant"]["properties"]["scope"]["enum"] == ["once", "session", "persistent"]


@pytest.mark.contract("XA-1")
async def test_an_agent_tells_asks_and_ends(agent: Agent) -> None:
    await agent("emit_status", status="researching", detail="reading")
    assert agent.told("status") == [{"status": "researching", "detail": "reading"}]
    await agent("emit_error", message="the build broke", recoverable=True)
    assert agent.told("error") == [{"message": "the build broke", "recoverable": True}]
    asked = await agent.answered(agent("request_input", question="Which?", request_id="q1", options=["a", "b"]), "b")
    assert asked == {"answer": "b"}
    # The same request again is not asked again.
    assert await agent("request_input", question="Which?", request_id="q1") == {"answer": "b"}
    granted = {"decision": "granted", "grant_id": "grt_1", "note": "fine"}
    wanted = {"request_id": "g1", "grant_type": "tool_scope", "scope": "session", "justification": "to file it"}
    assert await agent.answered(agent("request_grant", details={"scope": "a.write"}, **wanted), granted) == granted
    allowed = agent("request_permission", scopes=["b.write"], justification="why", requested_tool="b.create")
    assert await agent.answered(allowed, {"decision": "denied"}) == {"granted": [], "denied": ["b.write"]}
    await agent("expect_quiet_for", seconds=90, reason="a long build")
    assert agent.house.sessions.quiet == [90]
    await agent("end_session", summary="all done")
    assert agent.house.sessions.ended == {agent.session.id: "all done"}


async def test_nothing_it_tells_acts_on_a_terminal_or_turns_a_page(agent: Agent) -> None:
    acts = "\x1b]0;title\x07\x1b[2Jover\u202e\x9bthere"

    await agent("emit_status", status="writing", detail=acts)
    asked = agent("request_input", question=acts, request_id="q1", options=[acts, "b"])
    made = await agent("emit_artifact", artifact_type="code", title=acts, content=acts)

    assert agent.told("status") == [{"status": "writing", "detail": "overthere"}]
    assert await agent.answered(asked, "b") == {"answer": "b"}
    assert [(each["question"], each["options"]) for each in agent.house.sessions.questions] == [
        ("overthere", ["overthere", "b"])
    ]
    house = agent.house
    kept, content = await house.services.artifacts.download(house.owner, house.workspace, made["artifact_id"])
    assert (kept.artifact.title, content) == ("overthere", acts)


@pytest.mark.contract("XA-1")
async def test_an_agent_starts_others_and_talks_to_its_caller(agent: Agent) -> None:
    assert (await agent("list_spawnable_agents"))["agents"][0]["slug"] == "child"
    child = (await agent("spawn_session", child_agent_id="agt_child", prompt="look"))["child_session_id"]
    await agent("inject_message", child_session_id=child, text="look closer")
    read = await agent("read_child_output", child_session_id=child, after_seq=1)
    assert (read["state"], read["next_seq"], [event["text"] for event in read["events"]]) == (
        *("running", 2),
        ["look closer"],
    )
    assert "no spawn grant" in await agent.refused("spawn_session", child_agent_id="agt_other")
    assert "ses_nobody" in await agent.refused("inject_message", child_session_id="ses_nobody", text="x")
    assert await agent("message_caller", summary="halfway") == {"delivered": True, "response": None}
    heard = await agent("message_caller", summary="which way", needs_response=True)
    assert heard["response"] == "heard: which way"


@pytest.mark.contract("XA-1")
async def test_what_an_agent_makes_is_kept_as_artifacts_with_versions(agent: Agent) -> None:
    first = await agent("emit_artifact", artifact_type="code", title="Sort", content="print(1)", language="python")
    second = await agent("emit_artifact", artifact_type="code", title="Sort", content="print(2)", language="python")
    assert (first["version"], second["version"], second["artifact_id"]) == (1, 2, first["artifact_id"])
    assert [each["version"] for each in agent.told("artifact")] == [1, 2]
    house = agent.house
    (house.worktree / "docs").mkdir()
    (house.worktree / "docs" / "report.md").write_text("# Report\n")
    shared = await agent("share", path="docs/report.md", title="The report", share_id="report")
    (house.worktree / "docs" / "report.md").write_text("# Report, again\n")
    again = await agent("share", path="/work/docs/report.md", share_id="report")
    assert (again["artifact_id"], again["version"]) == (shared["artifact_id"], 2)
    _, text = await house.services.artifacts.download(house.owner, house.workspace, again["artifact_id"])
    assert text == "# Report, again\n"
    kept = await house.services.artifacts.find(
        house.owner, house.workspace, ArtifactReference(artifact_id=first["artifact_id"])
    )
    assert (kept.type, kept.created_by) == ("text/x-python", house.agent_id)


async def test_a_path_that_leads_out_of_the_worktree_shares_nothing(agent: Agent, tmp_path: Path) -> None:
    work = agent.house.worktree
    (tmp_path / "secret").write_text("canary-of-the-host")
    (work / "link").symlink_to(tmp_path / "secret")
    (work / "dir").symlink_to(tmp_path)
    (work / ".git").mkdir()
    (work / ".git" / "config").write_text("[core]")
    os.mkfifo(work / "pipe")
    (work / "picture").write_bytes(b"\x89PNG\xff")
    (work / "huge").write_bytes(b"x" * 3_000_000)
    wrong = ("link", "dir/secret", "../secret", "/etc/passwd", "/work/../etc/passwd", ".git/config", "pipe", "picture")
    for path in (*wrong, "huge", "nothing", ".", "a/../../x", "/work"):
        said = await agent.refused("share", path=path)
        assert "path: " in said or "cannot be shared" in said, path
        assert "canary" not in said
    assert agent.told("shared") == []


@pytest.mark.contract("XA-1")
async def test_an_agent_keeps_and_asks_a_graph_that_is_part_of_what_the_workspace_knows(agent: Agent) -> None:
    house = agent.house
    ada = await agent(
        "graph_write", record_type="person", data={"name": "Ada", "email": "ada@x.example"}, confidence=0.9
    )
    shop = await agent("graph_write", record_type="company", data={"name": "Shop", "size": 12}, source="their page")
    new = NewMemory(content="Ada leads the shop's data team since May.")
    memory = (await house.services.memory.save(house.owner, house.workspace, new)).memory
    assert memory is not None
    edge = {"from_": ada["id"], "edge": "WORKS AT", "to": shop["id"], "properties": {"since": 2024}}
    assert (await agent("graph_relate", **edge))["created"] is True
    assert (await agent("graph_relate", **edge))["created"] is False
    await agent("graph_relate", from_=memory.slug, edge="mentions", to=ada["id"])
    found = await agent(
        "graph_query", query="find person where email = $mail -> works_at company", vars={"mail": "ada@x.example"}
    )
    assert [record["data"]["name"] for record in found["records"]] == ["Shop"]
    assert found["edges"] == [{"from": ada["id"], "edge": "works_at", "to": shop["id"], "properties": {"since": 2024}}]
    back = await agent("graph_query", query="find company where size > 10 <- works_at person")
    assert [record["id"] for record in back["records"]] == [ada["id"]]
    known = await agent("graph_query", query="find person <- mentions memory")
    assert [record["id"] for record in known["records"]] == [memory.id]
    changed = await agent("graph_write", record_type="person", data={"id": ada["id"], "role": "lead", "email": None})
    assert (changed["id"], changed["created"]) == (ada["id"], False)
    resolved = await agent("graph_resolve", record_type="person", name="ada ")
    assert resolved["record"]["data"] == {"name": "Ada", "role": "lead"}
    seen = await agent("graph_discover")
    assert [(each["type"], each["count"]) for each in seen["record_types"]] == [("company", 1), ("person", 1)]
    assert {"from": "person", "edge": "works_at", "to": "company", "count": 1} in seen["edges"]
    collections = (await agent("list_collections"))["collections"]
    assert [(each["name"], each["records"], each["edges"]) for each in collections] == [("default", 2, 2)]
    assert "query" in await agent.refused("graph_query", query="drop table person")
    assert "vars.who" in await agent.refused("graph_query", query="find person where name = $who")
    assert "to" in await agent.refused("graph_relate", from_=ada["id"], edge="knows", to="rec_nobody")


@pytest.mark.contract("XA-1")
async def test_an_agent_keeps_and_finds_vectors_and_texts(agent: Agent) -> None:
    for id, vector, lang in (("a", [1, 0, 0], "en"), ("b", [0.9, 0.1, 0], "de"), ("c", [0, 0, 5], "de")):
        await agent("vector_upsert", id=id, vector=vector, collection="points", metadata={"lang": lang, "n": len(id)})
    near = await agent("vector_search", vector=[2, 0, 0], collection="points", top_k=2)
    assert [each["id"] for each in near["results"]] == ["a", "b"]
    assert near["results"][0]["score"] == pytest.approx(1.0, abs=0.001)
    german = await agent("vector_search", vector=[2, 0, 0], collection="points", filter={"lang": "de"})
    assert [each["id"] for each in german["results"]] == ["b", "c"]
    other = {"type": "ne", "key": "lang", "value": "de"}
    assert [
        each["id"]
        for each in (await agent("vector_search", vector=[1, 1, 1], collection="points", filter=other))["results"]
    ] == ["a"]
    assert "holds vectors of 3 numbers" in await agent.refused(
        "vector_upsert", id="d", vector=[1, 2], collection="points"
    )
    assert "text" in await agent.refused("vector_search", text="words", collection="points")
    await agent("vector_upsert", id="one", text="deploy the staging server", metadata={"kind": "note"})
    await agent("vector_upsert", id="two", text="water the office plants")
    found = await agent("vector_search", text="staging deploy", top_k=1)
    assert (found["results"][0]["id"], found["results"][0]["metadata"]) == ("one", {"kind": "note"})
    await agent("vector_delete", id="a", collection="points")
    assert "vector" in await agent.refused("vector_delete", id="a", collection="points")
    await agent("vector_delete", id="one")
    assert all(each["id"] != "one" for each in (await agent("vector_search", text="staging deploy"))["results"])
    counts = {each["name"]: each for each in (await agent("list_collections"))["collections"]}
    assert (counts["points"]["vectors"], counts["points"]["dimensions"], counts["default"]["holds_text"]) == (
        2,
        3,
        True,
    )
    assert counts["default"]["vectors"] == 1


@pytest.mark.contract("XA-1")
async def test_a_message_goes_to_the_inbox_or_to_a_channels_webhook(agent: Agent) -> None:
    await agent("post_message", channel="#dashboard", text="look here", thread_id="t1")
    assert agent.told("posted") == [
        {"channel": "dashboard", "text": "look here", "thread_id": "t1", "username": "tester"}
    ]
    said = await agent.refused("post_message", channel="alerts", text="hello")
    assert "CHANNEL_ALERTS" in said
    assert "channel" in await agent.refused("post_message", channel="../x", text="hello")


@pytest.mark.contract("XA-1")
async def test_without_a_configured_preview_there_is_a_clear_error(agent: Agent) -> None:
    wanted = {"repo_full_name": "a/b", "branch": "main", "commit_sha": "abcdef1"}
    assert "HOLDFAST_PREVIEW_COMMAND" in await agent.refused("preview_deploy", **wanted)
    assert "commit_sha" in await agent.refused("preview_deploy", **{**wanted, "commit_sha": "main; rm -rf /"})
    assert "branch" in await agent.refused("preview_deploy", **{**wanted, "branch": "--force"})


async def test_wrong_arguments_are_named_by_their_field(agent: Agent) -> None:
    for tool, arguments, field in (
        ("emit_status", {"status": "sleeping"}, "status"),
        ("emit_status", {"status": "done", "colour": "red"}, "colour"),
        ("emit_artifact", {"artifact_type": "code", "title": "x"}, "content"),
        ("request_input", {"question": "?", "request_id": ""}, "request_id"),
        (
            "request_grant",
            {"request_id": "r", "grant_type": "spawn", "details": {}, "scope": "once", "justification": "j"},
            "details.agent",
        ),
        ("graph_write", {"record_type": "no spaces", "data": {"a": 1}}, "record_type"),
        ("graph_write", {"record_type": "x", "data": {"a": 1}, "confidence": 2}, "confidence"),
        ("graph_write", {"record_type": "x", "data": {}, "collection": "c"}, "data"),
        ("graph_write", {"record_type": "x", "data": {"a": 1}, "collection": "Big Name"}, "collection"),
        ("vector_upsert", {"id": "x"}, "vector"),
        ("vector_search", {"text": "x", "top_k": 0}, "top_k"),
        ("expect_quiet_for", {"seconds": -1}, "seconds"),
        ("read_child_output", {"child_session_id": "c", "limit": 0}, "limit"),
    ):
        assert field in await agent.refused(tool, **arguments), tool


async def test_a_credential_is_kept_nowhere(agent: Agent) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    assert "credential" in await agent.refused("graph_write", record_type="x", data={"key": key})
    assert "credential" in await agent.refused("vector_upsert", id="k", text=f"the key is {key}")


def test_the_page_lists_every_tool_with_its_arguments() -> None:
    page = (Path(__file__).parents[3] / "docs" / "agents-tools.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    documented = {}
    for _, name, arguments, *_ in rows:
        named = re.findall(r"`([a-z_]+)(!?)`", arguments)
        documented[name.strip(" `")] = {each for each, _ in named}, {each for each, sign in named if sign}
    for name, (required, optional) in SIGNATURES.items():
        everything, marked = documented[name]
        assert everything == required | optional, name
        # One of two is required where it says `vector` or `text!`.
        assert marked - {"text"} == required - {"text"}, name
