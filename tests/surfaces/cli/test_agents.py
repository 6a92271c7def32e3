"""Owns the proof that agents are defined and run from the command line, with no server beside it."""

from pathlib import Path

import pytest

from tests.support.cli import OperatorCli
from tests.surfaces.agents.conftest import speaking


@pytest.fixture
def cli(tmp_path: Path) -> OperatorCli:
    return OperatorCli(tmp_path)


def test_an_agent_is_added_changed_shown_and_removed(cli: OperatorCli) -> None:
    made = cli.json("agents", "add", "Triage", "--minutes", "5", "--env", "A=b")
    assert (made["slug"], made["limits"]["minutes"], made["env"]) == ("triage", 5, {"A": "b"})
    changed = cli.json("agents", "edit", "triage", "--tokens", "1000")
    assert (changed["version"], changed["limits"]["tokens"], changed["limits"]["minutes"]) == (2, 1000, 5)
    assert [each["slug"] for each in cli.json("agents", "list")] == ["triage"]
    wrong = cli.run("agents", "attach", "triage", "nothing")
    assert wrong.exit_code != 0 and "catalog" in wrong.output
    assert cli.run("agents", "remove", "triage").exit_code == 0
    assert cli.json("agents", "list") == []


@pytest.mark.slow
def test_a_session_is_run_and_followed_to_its_end(cli: OperatorCli) -> None:
    command = speaking("say('hello\\x1b[31m')", "over('The end.')")
    cli.json("agents", "add", "Echo", "--runner", "command", "--command", command)
    followed = cli.run("sessions", "run", "echo", "Go.", "--follow")
    assert followed.exit_code == 0, followed.output
    assert "hello" in followed.output and "\x1b[31m" not in followed.output
    (listed,) = cli.json("sessions", "list")
    assert (listed["state"], listed["result"]["summary"]) == ("completed", "The end.")
    kinds = [each["kind"] for each in cli.json("sessions", "events", listed["session_id"])]
    assert kinds[0] == "prompt" and kinds[-1] == "result"
    assert cli.run("sessions", "show", listed["session_id"]).exit_code == 0


@pytest.mark.slow
def test_a_session_that_fails_says_so_by_its_exit_code(cli: OperatorCli) -> None:
    cli.json("agents", "add", "Bad", "--runner", "command", "--command", speaking("sys.exit(1)"))
    followed = cli.run("sessions", "run", "bad", "Go.", "--follow")
    assert followed.exit_code == 1, followed.output
    assert cli.json("sessions", "list", "--state", "failed")[0]["agent"] == "bad"
