"""Proves repositories on the command line: added, waited for, searched, asked and forgotten."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.features.repositories.operations.repositories import RepositoryStatusAnswer
from holdfast.surfaces.cli.frame import FAILED, NOT_FOUND
from tests.support.cli import Cli
from tests.support.code.git import GitRepo


@pytest.fixture
def holdfast(sqlite_path: Path) -> Cli:
    return Cli(sqlite_path)


@pytest.fixture
def shop(tmp_path: Path) -> GitRepo:
    repo = GitRepo(tmp_path / "code" / "shop")
    repo.commit("Begin the shop", {"README.md": "# Shop\n\nThe shop sells giraffes and zebras to zoos.\n"})
    repo.commit(
        "Keep totals in cents\n\nBecause floating point lost a cent on every third invoice.",
        {"src/billing.py": "def invoice_total(lines):\n    return sum(line.cents for line in lines)\n"},
    )
    return repo


@pytest.mark.contract("KS-2")
def test_a_repository_is_added_and_waited_for(holdfast: Cli, shop: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.path.parent)
    added = holdfast.run("repos", "add", "./shop", "--wait", "--json")

    assert added.exit_code == 0, added.output
    value = json.loads(added.stdout)
    assert (value["slug"], value["state"], value["location"]) == ("shop", "ready", str(shop.path))
    assert (value["counts"]["commits"], value["counts"]["files"], value["head"]) == (2, 2, shop.head)
    assert (value["synthesis"]["status"], value["waiting_for_vectors"]) == ("completed", 0)
    # What is for people goes past scripts, to stderr. Which steps are shown depends on when they are looked at.
    assert "Ask it: `holdfast repos ask" in added.stderr

    status = holdfast.json("repos", "status", "shop")
    assert set(status) == set(RepositoryStatusAnswer.model_fields)
    assert (status["ingested"], status["synthesis"]["status"]) == (True, "completed")
    assert (status["counts"]["entries"], status["work"]) == (value["counts"]["entries"], [])
    assert [each["slug"] for each in holdfast.json("repos", "list")] == ["shop"]
    for_people = holdfast.run("repos", "status", "shop").output
    assert f"memory score: {status['score']['total']} of 100" in for_people


@pytest.mark.slow
def test_a_second_sync_of_an_unchanged_repository_reads_nothing(holdfast: Cli, shop: GitRepo) -> None:
    holdfast.json("repos", "add", shop.path, "--wait")
    again = holdfast.json("repos", "sync", "shop", "--wait")
    shop.commit("Sell okapis", {"okapi.txt": "An okapi is no zebra.\n"})
    changed = holdfast.json("repos", "sync", "shop", "--wait")

    log = holdfast.json("repos", "syncs", "shop")
    assert (again["counts"]["commits"], changed["counts"]["commits"]) == (2, 3)
    assert [(each["trigger"], each["commits_added"], each["files_changed"]) for each in log] == [
        ("manual", 1, 1),
        ("manual", 0, 0),
        ("add", 2, 2),
    ]


@pytest.mark.slow
@pytest.mark.contract("KS-3")
def test_a_repository_is_searched_and_asked(holdfast: Cli, shop: GitRepo) -> None:
    holdfast.json("repos", "add", shop.path, "--wait")

    named = holdfast.json("repos", "search", "invoice_total")
    worded = holdfast.json("repos", "search", "floating point lost a cent", "--repo", "shop", "--type", "commit")
    for_people = holdfast.run("repos", "search", "invoice_total", "--limit", "1")
    files = holdfast.json("repos", "files", "sum the cents of an invoice")
    answer = holdfast.json("repos", "ask", "Why are totals kept in cents?")
    markdown = holdfast.run("repos", "ask", "Why are totals kept in cents?", "--repo", "shop")

    assert (named[0]["path"], named[0]["exact"]) == ("src/billing.py", True)
    assert (worded[0]["type"], worded[0]["commit"]) == ("commit", shop.head)
    assert "shop file:src/billing.py" in for_people.output
    assert (files[0]["path"], files[0]["repository"]) == ("src/billing.py", "shop")
    assert "floating point" in answer["markdown"] and "[1]" in answer["markdown"]
    assert f"shop@{shop.head[:7]}" in {each["address"] for each in answer["citations"]}
    assert "floating point" in markdown.stdout and "shop@" in markdown.stdout


@pytest.mark.slow
def test_a_repository_is_summed_up(holdfast: Cli, shop: GitRepo) -> None:
    shop.tag("v1.0", "The first release")
    holdfast.json("repos", "add", shop.path, "--wait")
    found = holdfast.json("repos", "findings", "shop")
    pages = holdfast.run("repos", "findings", "shop", "--kind", "milestone")
    again = holdfast.json("repos", "synthesise", "shop", "--wait")

    assert {"architecture", "milestone"} <= {each["kind"] for each in found}
    assert all(each["citations"] and each["state"] == "derived" for each in found)
    assert "v1.0" in pages.output
    assert again["synthesis"]["status"] == "completed"
    assert [each["target_id"] for each in holdfast.json("repos", "findings", "shop")] == [
        each["target_id"] for each in found
    ]


@pytest.mark.slow
def test_what_a_repository_says_does_not_command_the_terminal(holdfast: Cli, shop: GitRepo) -> None:
    shop.commit("Paint \x1b[31mred\x1b]0;title\x07 the okapi fence")
    holdfast.json("repos", "add", shop.path, "--wait")
    for words in (("search", "okapi fence"), ("ask", "Who painted the okapi fence?")):
        output = holdfast.run("repos", *words).output
        assert "the okapi fence" in output
        assert "\x1b" not in output and "\x07" not in output


@pytest.mark.slow
def test_a_repository_that_cannot_be_read_fails_the_command(holdfast: Cli, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    refused = holdfast.run("repos", "add", tmp_path / "plain", "--json")
    assert (refused.exit_code, refused.stdout) == (FAILED, "")
    assert "location: There is no git repository" in refused.stderr
    repo = GitRepo(tmp_path / "broken")
    holdfast.json("repos", "add", repo.path)
    (repo.path / ".git").rename(tmp_path / "moved")
    result = holdfast.run("repos", "sync", "broken", "--wait", "--json")
    assert (result.exit_code, result.stdout) == (FAILED, "")
    assert "could not be synced" in result.stderr
    assert holdfast.json("repos", "status", "broken")["state"] == "failed"
    missing = holdfast.run("repos", "add", tmp_path / "missing")
    assert missing.exit_code == FAILED and "no directory" in missing.output


def test_without_waiting_a_repository_is_only_queued(holdfast: Cli, shop: GitRepo) -> None:
    queued = holdfast.json("repos", "add", shop.path, "--slug", "my-shop", "--name", "My shop")
    assert "holdfast up" in holdfast.run("repos", "sync", "my-shop").output
    status = holdfast.json("repos", "status", "my-shop")
    stopped = holdfast.json("repos", "cancel", "my-shop")
    assert (queued["slug"], queued["state"], queued["name"]) == ("my-shop", "queued", "My shop")
    assert [(each["kind"], each["state"]) for each in status["work"]] == [("repository.sync", "queued")]
    assert stopped["state"] == "failed"
    assert holdfast.json("repos", "status", "my-shop")["work"] == []


@pytest.mark.slow
def test_a_repository_is_forgotten(holdfast: Cli, shop: GitRepo) -> None:
    holdfast.json("repos", "add", shop.path, "--wait")
    assert holdfast.json("repos", "remove", "shop", "--yes") == {"slug": "shop", "removed": True}
    assert holdfast.run("repos", "status", "shop").exit_code == NOT_FOUND
    assert holdfast.run("repos", "sync", "shop").exit_code == NOT_FOUND
    assert holdfast.json("repos", "list") == []
    nothing = holdfast.run("repos", "ask", "Where are the zebras?")
    assert nothing.exit_code == FAILED and "repos add" in nothing.output
    assert (shop.path / "README.md").exists()


@pytest.mark.slow
def test_ctrl_c_leaves_the_work_for_later(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XEROTIER_"))}
    command = [sys.executable, "-m", "holdfast", "repos"]
    data = ["--data-dir", str(tmp_path / "data"), "--json"]
    # A server that takes connections and says nothing: the work cannot end before it is interrupted.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        kept["HOLDFAST_FETCH_ALLOW"] = place
        with subprocess.Popen(
            [*command, "add", f"http://{place}/team/big.git", "--wait", *data],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=kept,
            # Whoever starts the tests in the background of a shell makes them, and all they start, deaf to it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            assert process.stderr is not None and process.stdout is not None
            while "Fetching" not in (line := process.stderr.readline()):
                assert line, "it ended before it fetched"
            process.send_signal(signal.SIGINT)
            said, printed = process.stderr.read(), process.stdout.read()
    status = subprocess.run(
        [*command, "status", "big", *data], capture_output=True, text=True, timeout=60, env=kept, check=True
    )
    assert process.returncode == 1 and printed == ""
    assert "big stays queued" in said and "Traceback" not in said
    assert [each["state"] for each in json.loads(status.stdout)["work"]] == ["queued"]


def test_where_to_send_webhooks_is_said(holdfast: Cli, shop: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PUBLIC_URL", "https://memory.example.org/")
    added = holdfast.json("repos", "add", shop.path)
    assert holdfast.run("secrets", "set", "HOOK", input="a-long-secret\n").exit_code == 0
    signed = holdfast.json("repos", "webhook", "shop", "--secret", "HOOK")
    url = f"https://memory.example.org/api/webhooks/{added['id']}"
    assert signed == {"slug": "shop", "url": url, "secret": "HOOK"}


@pytest.mark.slow
def test_a_workspace_narrows_every_command_to_its_own_repositories(holdfast: Cli, shop: GitRepo) -> None:
    holdfast.json("workspaces", "create", "Other")
    added = holdfast.run("repos", "add", shop.path, "--workspace", "default", "--wait", "--json")
    assert added.exit_code == 0, added.output
    for words in (
        ("status", "shop"),
        ("syncs", "shop"),
        ("findings", "shop"),
        ("search", "giraffes", "--repo", "shop"),
        ("files", "invoices", "--repo", "shop"),
        ("ask", "Why cents?", "--repo", "shop"),
    ):
        within = holdfast.run("repos", *words, "--workspace", "default")
        assert within.exit_code == 0, within.output
        assert holdfast.run("repos", *words, "--workspace", "other").exit_code == NOT_FOUND
        assert holdfast.run("repos", *words, "--workspace", "nowhere").exit_code == NOT_FOUND
    nothing = holdfast.run("repos", "search", "giraffes", "--workspace", "other")
    assert nothing.exit_code == FAILED and "There is no repository yet" in nothing.stderr
    for word in ("sync", "cancel", "synthesise", "remove"):
        assert holdfast.run("repos", word, "shop", "--workspace", "other").exit_code == NOT_FOUND
    assert holdfast.json("repos", "status", "shop")["counts"]["commits"] == 2


def test_kinds_of_findings_are_asked_for_in_the_singular_and_the_plural(holdfast: Cli, shop: GitRepo) -> None:
    shop.commit("Decide on cents\n\nDecision: totals are integers of cents.", {"docs/decisions/0001.md": "# Cents\n"})
    assert holdfast.run("repos", "add", shop.path, "--wait").exit_code == 0
    for one, several in (("decision", "decisions"), ("milestone", "milestones")):
        found = holdfast.json("repos", "findings", "shop", "--kind", several)
        assert found == holdfast.json("repos", "findings", "shop", "--kind", one)
        assert {each["kind"] for each in found} <= {one}
