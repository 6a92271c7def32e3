"""Owns the proof of `holdfast cases`: the queue, where cases come from and go to, and statements checked offline."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.features.cases.proofs.keys import SigningKey
from holdfast.features.cases.proofs.statement import PREDICATE, STATEMENT
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.model import Item, NewRepository
from tests.support.cli import Cli
from tests.support.code.git import GitRepo

CHECKLIST = """\
# Plan
- [ ] Paint the fence
  - [ ] It is green
  - [x] It is dry
- [x] Buy paint
* [ ] Mend the gate
2. [ ] Sweep
   1) [ ] The yard
```
- [ ] not an item
```
"""
BODY = "It creaks.\n\n- [ ] It opens\n- [ ] It shuts\n"


@pytest.fixture
def at(sqlite_path: Path) -> Cli:
    return Cli(sqlite_path)


def test_the_queue_from_adding_to_moving(at: Cli) -> None:
    first = at.json("cases", "add", "Paint the fence", "--criterion", "It is green", "--priority", "1", "--label", "x")
    second = at.json("cases", "add", "Mend the gate", "--kind", "bug", "--parent", first["id"])
    assert [row["id"] for row in at.json("cases", "ready")] == [first["id"], second["id"]]
    at.json("cases", "link", second["id"], "blocks", first["id"])
    claimed = at.json("cases", "claim")
    assert (claimed["id"], claimed["claim"]["fence"]) == (second["id"], 1)
    moved = at.json("cases", "move", second["id"], "REPRODUCING", "--fence", "1")
    assert moved["state"] == "REPRODUCING"
    refused = at.run("cases", "move", second["id"], "DONE")
    assert refused.exit_code == 1 and "PLANNING, BLOCKED, CANCELLED" in refused.output
    shown = at.json("cases", "show", first["id"])
    assert (shown["blocked_by"], shown["children"]) == ([second["id"]], [second["id"]])
    circle = at.run("cases", "link", first["id"], "blocks", second["id"])
    assert circle.exit_code == 1 and f"{first['id']} blocks {second['id']} blocks {first['id']}" in circle.output
    assert [row["id"] for row in at.json("cases", "list", "--state", "REPRODUCING")] == [second["id"]]
    assert at.run("cases", "show", "case_0").exit_code == 4
    for words in ((), ("",)):
        assert "It needs a title" in at.run("cases", "add", *words).stderr


def test_what_agents_wrote_does_not_steer_the_terminal(at: Cli) -> None:
    added = at.json("cases", "add", "Title\x1b]0;taken\x07 \u202eback", "--body", "Body\x9b2J", "--kind", "task")
    assert added["title"] == "Title\x1b]0;taken\x07 \u202eback"
    refused = at.run("cases", "move", added["id"], "DONE", "--reason", "\x1b]0;x\x07")
    shown = at.run("cases", "show", added["id"])
    listed = at.run("cases", "list")
    for each in (shown.output, listed.output, refused.output):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(each), each
    assert "Title\ufffd]0;taken\ufffd \ufffdback" in shown.output and "Body\ufffd2J" in shown.output


def test_a_word_closes_a_case_and_stays_visible(at: Cli) -> None:
    id = at.json("cases", "add", "Look", "--criterion", "It is green")["id"]
    for state in ("PLANNING", "IMPLEMENTING", "VERIFYING"):
        at.json("cases", "move", id, state)
    assert "c1 (It is green): no proof speaks of it" in at.run("cases", "move", id, "DONE").output
    at.json("cases", "prove", id, "--kind", "word", "--claim", "I saw it", "--criterion", "c1")
    assert at.json("cases", "move", id, "DONE")["criteria"][0]["verdict"] == "word"


def test_a_checklist_becomes_cases_with_criteria(at: Cli, tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(CHECKLIST)
    made = at.json("cases", "add", "--checklist", tmp_path / "plan.md")
    assert [row["title"] for row in made] == ["Paint the fence", "Mend the gate", "Sweep"]
    assert [each["text"] for each in made[0]["criteria"]] == ["It is green", "It is dry"]
    assert [each["text"] for each in made[2]["criteria"]] == ["The yard"]


async def _issue(at: Cli, path: Path) -> None:
    """A repository in memory with an issue of its host's."""
    async with at._opens(None, True) as (services, owner):
        workspace = (await services.workspaces.list(owner)).items[0].id
        repository = await services.repositories.add(owner, workspace, NewRepository(location=str(path), slug="shop"))
        issue = Item(
            kind="issue",
            number="12",
            title="The gate  creaks",
            body=BODY,
            state="open",
            author="ada",
            url="https://host.invalid/acme/shop/issues/12",
            created_at=1,
            updated_at=1,
            labels=("Bug", "gate"),
        )
        await services.database.write(lambda tx: item_store.put_items(tx, repository.id, [issue]))


def test_an_issue_becomes_a_case_once(at: Cli, tmp_path: Path) -> None:
    GitRepo(tmp_path / "shop").commit("begin", {"a": "b"})
    asyncio.run(_issue(at, tmp_path / "shop"))
    made = at.json("cases", "add", "--from", "shop#12")
    assert (made["title"], made["kind"], made["source"]) == ("The gate creaks", "bug", "shop#12")
    assert [each["text"] for each in made["criteria"]] == ["It opens", "It shuts"]
    assert made["repository"] == "shop" and "issues/12" in made["body"]
    again = at.run("cases", "add", "--from", "shop#12")
    assert again.exit_code == 1 and made["id"] in again.output
    for wrong in ("shop#13", "other/shop#12", "nonsense"):
        assert at.run("cases", "add", "--from", wrong).exit_code in (1, 4)


def test_cases_go_out_as_json_lines_and_markdown(at: Cli) -> None:
    for title in ("One", "Two"):
        at.json("cases", "add", title, "--criterion", f"{title} works")
    lines = [json.loads(line) for line in at.run("cases", "export").stdout.splitlines()]
    assert [(line["title"], line["history"][0]["action"]) for line in lines] == [("Two", "add"), ("One", "add")]
    assert "- [ ] One works" in at.run("cases", "export", "--format", "markdown").stdout


def test_a_statement_is_checked_offline_and_a_forged_one_fails(at: Cli, tmp_path: Path) -> None:
    pem = at.run("cases", "keys").stdout
    assert "BEGIN PUBLIC KEY" in pem
    (tmp_path / "key.pem").write_text(pem)
    statement: dict[str, Any] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "shop", "digest": {"gitCommit": "0" * 40}}],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {"result": "PASSED", "configuration": []},
    }
    forged = {
        "payloadType": "application/vnd.in-toto+json",
        "payload": base64.b64encode(json.dumps(statement).encode()).decode(),
        "signatures": [{"keyid": "x", "sig": base64.b64encode(b"0" * 64).decode()}],
    }
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    for words in (["--key", str(tmp_path / "key.pem")], []):
        refused = at.run("cases", "verify", tmp_path / "forged.json", *words)
        assert refused.exit_code == 1 and "NOT VERIFIED" in refused.output


def test_with_its_key_a_statement_is_checked_where_there_is_no_store(at: Cli, tmp_path: Path) -> None:
    nowhere = Cli(tmp_path / "nowhere" / "holdfast.db")
    key = SigningKey(b"k" * 32)
    subject = [{"name": "calc", "digest": {"gitCommit": "1" * 40}}]
    payload = {"_type": STATEMENT, "predicateType": PREDICATE, "subject": subject, "predicate": {"result": "PASSED"}}
    (tmp_path / "key.pem").write_text(key.pem)
    (tmp_path / "statement.json").write_text(json.dumps(key.sign(json.dumps(payload).encode()).as_json()))
    words = ("cases", "verify", tmp_path / "statement.json", "--key", tmp_path / "key.pem")
    assert nowhere.json(*words)["verified"] is True
    assert not (tmp_path / "nowhere").exists()
    missing = nowhere.run("cases", "verify", tmp_path / "gone.json", "--key", tmp_path / "key.pem")
    assert (missing.exit_code, missing.stderr) == (1, f"holdfast: {tmp_path}/gone.json: No such file or directory.\n")
    unread = at.run("cases", "add", "--checklist", tmp_path / "gone.md")
    assert unread.exit_code == 1 and "No such file" in unread.stderr


def test_an_environment_is_registered_by_who_is_at_the_machine(
    at: Cli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    prepared = tmp_path_factory.mktemp("prepared")
    kept = at.json("cases", "environment", "add", "python", prepared)
    assert (kept["name"], kept["path"]) == ("python", str(prepared))
    assert [row["name"] for row in at.json("cases", "environment", "list")] == ["python"]
    looked = at.json("cases", "environment", "look", "python")
    assert (looked["digest"], looked["problem"]) == (kept["digest"], "") and looked["digest"].startswith("sha256:")
    assert at.run("cases", "environment", "add", "root", "/").exit_code == 1
    at.json("cases", "environment", "remove", "python")
    assert at.json("cases", "environment", "list") == []


def test_a_case_is_changed_remarked_on_and_given_back(at: Cli) -> None:
    id = at.json("cases", "add", "Paint the fence", "--criterion", "It is green", "--assignee", "bob")["id"]
    changed = at.json(
        "cases", "edit", id, "--title", "Paint it", "--criterion", "It is green", "--criterion", "It dries"
    )
    assert (changed["title"], changed["assignee"]) == ("Paint it", "bob")
    assert [each["id"] for each in changed["criteria"]] == ["c1", "c2"]
    assert at.json("cases", "edit", id, "--assignee", "")["assignee"] is None
    assert at.json("cases", "comment", id, "ask @bob")["mentions"] == ["bob"]
    at.json("cases", "claim", id)
    assert at.run("cases", "edit", id, "--priority", "0", "--fence", "7").exit_code == 1
    assert at.json("cases", "release", id, "--fence", "1")["claim"] is None


@pytest.mark.slow
def test_who_waits_for_a_proof_sees_what_it_printed_and_how_it_ended(at: Cli, tmp_path: Path) -> None:
    GitRepo(tmp_path / "shop").commit("begin", {"a": "b"})
    at.json("repos", "add", tmp_path / "shop", "--slug", "shop", "--wait")
    id = at.json("cases", "add", "Look", "--repo", "shop", "--criterion", "It is there")["id"]
    good = at.json("cases", "prove", id, "--criterion", "c1", "--command", "test -f a", "--wait")
    assert good["verdict"] == "passed"
    bad = at.run("cases", "prove", id, "--criterion", "c1", "--command", "echo seen; exit 3", "--wait")
    assert bad.exit_code == 1 and "exit status 3; 0 is expected" in bad.stdout and "seen" in bad.stdout, bad.output
    assert len(at.json("cases", "run", good["id"], "--wait")["runs"]) == 2
    assert f"{good['id']} test -f a (passed): It passed" in at.run("cases", "show", id).stdout
