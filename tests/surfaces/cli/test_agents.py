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


@pytest.mark.parametrize("field", ["minutes", "tokens", "memory_mb", "disk_mb", "processes"])
def test_a_limit_of_nothing_is_named_and_not_passed_over(cli: OperatorCli, field: str) -> None:
    cli.json("agents", "add", "Triage")
    for words in (("add", "Other"), ("edit", "triage")):
        wrong = cli.run("agents", *words, f"--{field.replace('_', '-')}", "0")
        assert wrong.exit_code != 0 and f"limits.{field}" in wrong.output, wrong.output
    assert cli.json("agents", "show", "triage")["version"] == 1


@pytest.mark.slow
def test_nothing_that_a_session_told_acts_on_the_terminal(cli: OperatorCli) -> None:
    evil = "\x1b[2J\x1b]0;mine\x07\u202e\u009b31m"
    lines = (
        f"evil = {evil!r}",
        "say(evil)",
        "tell(type='tool_started', call_id='1', name=evil, arguments=dict(a=evil))",
        "open('evil.txt', 'w').write(evil)",
        "over(evil)",
    )
    cli.json("agents", "add", "Evil", "--runner", "command", "--command", speaking(*lines))
    session = cli.run("sessions", "run", "evil", evil, "--follow")
    (listed,) = cli.json("sessions", "list")
    id, artifact = listed["session_id"], listed["result"]["patch_artifact"]
    shown = [session.output]
    for words in (("list",), ("show", id), ("events", id)):
        for form in ((), ("--json",)):
            shown.append(cli.run("sessions", *words, *form).output)
    assert "2J" in shown[0] and [sign for sign in "\x1b\x07\u202e\u009b" for text in shown if sign in text] == []
    # What is piped on is as it was: a patch is applied to bytes.
    assert "\x1b[2J" in cli.run("artifacts", "show", artifact).output


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
