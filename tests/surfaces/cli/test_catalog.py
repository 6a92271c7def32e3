"""`holdfast catalog`, `exec` and `approvals`: servers from the command line, their tools, and who decides there."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import OperatorCli
from tests.support.execution.counting import PROGRAM

PASSWORD = "correct horse battery"


class Holdfast(OperatorCli):
    """Commands whose answer is read by a script."""

    def __call__(self, *words: str, given: str = "", code: int = 0) -> Any:
        result = self.run(*words, "--json", "--data-dir", self.settings.data_dir, given=given)
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if code == 0 else result.output

    def add_demo(self, **env: str) -> Any:
        given = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        return self("catalog", "add", "demo", "--command", "/usr/bin/python3", "--arg", str(PROGRAM), *given)


@pytest.fixture
def holdfast(sqlite_path: Path) -> Holdfast:
    return Holdfast(sqlite_path.parent)


@pytest.mark.contract("XA-2")
def test_arguments_that_begin_with_a_dash_are_the_servers_own(holdfast: Holdfast) -> None:
    args = ("--arg", "-y", "--arg", "pkg@1.2.3", "--arg", "--verbose", "--arg", "-c")
    made = holdfast("catalog", "add", "pkg", "--command", "npx", *args, "--allow", "api.example.com:443")
    assert made["args"] == ["-y", "pkg@1.2.3", "--verbose", "-c"] and made["install"] == "installing"
    assert holdfast("catalog", "show", "pkg")["network"] == {"allow": ["api.example.com:443"]}


def test_what_cannot_be_is_said_with_its_field(holdfast: Holdfast) -> None:
    assert "one of --command, --image and --url" in holdfast("catalog", "add", "x", code=1)
    both = holdfast("catalog", "add", "x", "--command", "/bin/true", "--url", "https://x.example/mcp", code=1)
    assert "one of --command, --image and --url" in both
    assert "write NAME=VALUE" in holdfast("catalog", "add", "x", "--command", "/bin/true", "--env", "MODE", code=1)
    assert "small letters" in holdfast("catalog", "add", "Not-A-Name", "--command", "/bin/true", code=1)
    missing = holdfast("catalog", "add", "x", "--command", "/bin/true", "--env", "A_KEY=${NONE_SUCH}", code=1)
    assert "env.A_KEY" in missing
    assert holdfast("catalog", "list") == []
    for words in (("show",), ("probe",), ("tools",), ("logs",), ("logins",), ("reset",), ("remove",)):
        assert "nothing" in holdfast("catalog", *words, "nothing", code=4)


def test_an_entry_is_changed_by_what_is_given_and_by_nothing_else(holdfast: Holdfast, tmp_path: Path) -> None:
    holdfast.add_demo(MODE="fast", PLACE="here")
    manifest = tmp_path / "manifest.json"
    manifest.write_text('{"env": {"MODE": {"enum": ["fast", "slow"]}}, "tool_scopes": {"count": "demo.write"}}')
    holdfast("catalog", "set", "demo", "--env", "MODE=slow", "--env", "PLACE=", "--manifest", str(manifest))
    changed = holdfast("catalog", "set", "demo", "--disabled")
    assert (changed["env"], changed["enabled"]) == ({"MODE": "slow"}, False)
    shown = holdfast.run("catalog", "show", "demo", "--data-dir", holdfast.settings.data_dir).stdout
    assert "env (MODE (kind value, enum ['fast', 'slow']))" in shown and "tool_scopes (count demo.write)" in shown
    assert changed["manifest"]["tool_scopes"] == {"count": "demo.write"} and changed["args"] == [str(PROGRAM)]
    assert "env.MODE" in holdfast("catalog", "set", "demo", "--env", "MODE=odd", code=1)


@pytest.mark.slow
@pytest.mark.contract("XM-11")
def test_a_tool_is_pinned_run_and_decided_about_from_the_command_line(holdfast: Holdfast) -> None:
    holdfast.add_demo(COUNT_DIR="/work")
    assert "add" in [tool["name"] for tool in holdfast("catalog", "probe", "demo")["tools"]]
    assert {tool["policy"] for tool in holdfast("catalog", "tools", "demo")} == {"auto", "approve"}
    ran = holdfast("exec", "demo.add", '{"left": 2, "right": 3}')
    assert (ran["status"], ran["result"]["structuredContent"]) == ("succeeded", {"total": 5})
    assert "no JSON object" in holdfast("exec", "demo.add", "[1]", code=1)
    assert "left" in holdfast("exec", "demo.add", "{}", code=1)
    asked = holdfast("exec", "demo.count", '{"name": "a"}')
    assert asked["status"] == "awaiting_approval" and "/approve/" in asked["approval_url"]
    (waiting,) = holdfast("approvals", "list")
    assert waiting["tool_name"] == "demo.count" and waiting["arguments"] == {"name": "a"}
    holdfast(
        *("users", "create", "--email", "ada@example.com", "--name", "Ada", "--role", "admin", "--password-stdin"),
        given=PASSWORD,
    )
    decide = ("approvals", "approve", waiting["id"], "--email", "ada@example.com")
    assert "Traceback" not in holdfast(*decide, given="not the password\n", code=1)
    (refused,) = holdfast("audit", "list", "--outcome", "denied", "--action", "session.start")
    assert "wrong password" in json.dumps(refused)
    assert "session" in holdfast(*decide, "--session", given=f"{PASSWORD}\n", code=1)
    assert holdfast("approvals", "list") and holdfast("approvals", "list", "--state", "approved") == []
    assert holdfast(*decide, "--always", given=f"{PASSWORD}\n")["state"] == "approved"
    assert "decided already" in holdfast(*decide, given=f"{PASSWORD}\n", code=1)
    scoped = holdfast("catalog", "policy", "demo", "fail", "--scope", "demo.write")
    assert (scoped["scope"], scoped["policy_is_set"]) == ("demo.write", False)
    denied = holdfast("catalog", "policy", "demo", "slow", "deny", "--destructive")
    assert (denied["policy"], denied["destructive"]) == ("deny", True)
    assert "denied_by_policy" in holdfast("exec", "demo.slow", "{}", code=1)


@pytest.mark.slow
@pytest.mark.contract("XA-2")
def test_a_changed_tool_is_accepted_by_the_digest_that_was_read(holdfast: Holdfast) -> None:
    holdfast.add_demo()
    holdfast("catalog", "probe", "demo")
    holdfast("catalog", "set", "demo", "--env", 'CHANGED={"count": {"description": "Counts otherwise."}}')
    holdfast("catalog", "probe", "demo")
    (waiting,) = [tool for tool in holdfast("catalog", "tools", "demo") if tool["state"] == "quarantined"]
    assert waiting["waiting_digest"] != waiting["digest"] and "Counts otherwise." in json.dumps(waiting["change"])
    stale = holdfast("catalog", "accept", "demo", "count", "--digest", waiting["digest"], code=1)
    assert "again since you looked" in stale
    accepted = holdfast("catalog", "accept", "demo", "count", "--digest", waiting["waiting_digest"])
    assert (accepted["state"], accepted["digest"]) == ("active", waiting["waiting_digest"])
    assert holdfast("catalog", "remove", "demo") == {"name": "demo", "removed": True}


def test_switches_of_a_workspace_are_shown_and_changed_one_by_one(holdfast: Holdfast) -> None:
    off = {"log_arguments": False, "sampling_approvals": False, "webhook_url": None, "webhook_secret": None}
    assert holdfast("approvals", "settings") == off
    hook = ("--webhook-url", "https://hooks.example.com/x")
    assert holdfast("approvals", "settings", "--log-arguments", *hook)["log_arguments"] is True
    changed = holdfast("approvals", "settings", "--sampling-approvals")
    assert changed == off | {"log_arguments": True, "sampling_approvals": True, "webhook_url": hook[1]}
    assert "webhook_url" in holdfast("approvals", "settings", "--webhook-url", "ftp://x", code=1)
    assert holdfast("approvals", "settings", "--no-log-arguments", "--webhook-url", "")["webhook_url"] is None
