"""Proves `holdfast secrets` and `holdfast endpoints` on the command line."""

import json
from pathlib import Path

import pytest

from holdfast.surfaces.cli.frame import FAILED, NOT_FOUND
from tests.surfaces.cli.test_documents import Cli


@pytest.fixture
def holdfast(sqlite_path: Path) -> Cli:
    return Cli(sqlite_path)


def test_a_secret_is_set_from_standard_input_and_never_shown(holdfast: Cli) -> None:
    made = holdfast.run("secrets", "set", "MODEL_KEY", "--json", input="sk-very-secret\n")
    listed = holdfast.run("secrets", "list")
    cleared = holdfast.json("secrets", "delete", "MODEL_KEY")

    assert made.exit_code == 0 and "sk-very" not in made.output
    assert "MODEL_KEY" in listed.output and "sk-very" not in listed.output
    assert cleared["cleared"] is True
    assert holdfast.json("secrets", "list")[0]["is_set"] is False
    assert holdfast.run("secrets", "delete", "OTHER").exit_code == NOT_FOUND
    assert holdfast.run("secrets", "set", "EMPTY", input="").exit_code == FAILED


def test_a_secret_is_bound_to_hosts_on_the_command_line(holdfast: Cli) -> None:
    hosts = ("--host", "api.example.com", "--host", "git.example.com:8443")
    made = holdfast.run("secrets", "set", "MODEL_KEY", *hosts, "--json", input="sk-1")
    listed = holdfast.run("secrets", "list")
    wrong = holdfast.run("secrets", "set", "MODEL_KEY", "--host", "*.example.com", input="sk-1")
    elsewhere = holdfast.run(
        *("endpoints", "add", "x", "--base-url", "https://api.evil.example/v1", "--model", "m"),
        *("--key-from", "MODEL_KEY"),
    )

    assert json.loads(made.output)["hosts"] == ["api.example.com", "git.example.com:8443"]
    assert "git.example.com:8443" in listed.output
    assert (wrong.exit_code, elsewhere.exit_code) == (FAILED, FAILED)
    assert "bound to api.example.com" in elsewhere.output


def test_an_endpoint_is_added_listed_shown_and_removed(holdfast: Cli) -> None:
    holdfast.run("secrets", "set", "MODEL_KEY", input="sk-1")
    url = "http://127.0.0.1:11434/v1"

    added = holdfast.json("endpoints", "add", "fast", "--base-url", url, "--model", "qwen3", "--key-from", "MODEL_KEY")
    more = holdfast.json("endpoints", "add", "fast", "--base-url", "https://api.example.com/v1", "--model", "big")
    less = holdfast.json("endpoints", "add", "fast", "--base-url", url, "--model", "qwen3", "--without", "code_search")
    one = holdfast.json("endpoints", "add", "fast", "--base-url", url, "--model", "qwen3", "--replace")

    assert added["name"] == "fast"
    assert added["path"] == f"/{added['project_id']}/fast/v1"
    assert [(each["model"], each["key_secret"]) for each in added["upstreams"]] == [("qwen3", "MODEL_KEY")]
    assert [each["model"] for each in more["upstreams"]] == ["qwen3", "big"]
    assert ([each["model"] for each in less["upstreams"]], less["disabled_tools"]) == (
        ["big", "qwen3"],
        ["code_search"],
    )
    assert ([each["model"] for each in one["upstreams"]], one["disabled_tools"]) == (["qwen3"], ["code_search"])
    assert [each["name"] for each in holdfast.json("endpoints", "list")] == ["default", "fast"]
    assert holdfast.json("endpoints", "show", "default")["embedded"] is True
    assert holdfast.json("endpoints", "remove", "fast")["removed"] is True
    assert holdfast.run("endpoints", "show", "fast").exit_code == NOT_FOUND


def test_an_upstream_of_anthropics_wire_is_added_and_claude_codes_lines_are_shown(holdfast: Cli) -> None:
    url = "https://api.anthropic.com/v1"
    made = holdfast.json("endpoints", "add", "opus", "--base-url", url, "--model", "claude-opus", "--kind", "anthropic")
    shown = holdfast.run("endpoints", "show", "opus").stdout

    assert made["upstreams"][0]["kind"] == "anthropic"
    assert f"upstream: claude-opus at {url} (anthropic)" in shown
    assert f"/{made['project_id']}/opus\n" in shown and "export ANTHROPIC_BASE_URL=http" in shown
    assert "ANTHROPIC_AUTH_TOKEN" in shown


def test_a_missing_secret_and_a_metadata_address_are_refused_in_one_line(holdfast: Cli) -> None:
    url = "http://127.0.0.1:11434/v1"
    missing = holdfast.run("endpoints", "add", "x", "--base-url", url, "--model", "m", "--key-from", "NOPE")
    metadata = holdfast.run("endpoints", "add", "x", "--base-url", "http://169.254.169.254/v1", "--model", "m")

    assert (missing.exit_code, metadata.exit_code) == (FAILED, FAILED)
    assert "holdfast secrets set" in missing.output
    assert "base_url" in metadata.output


def test_the_master_key_is_changed(holdfast: Cli, sqlite_path: Path) -> None:
    holdfast.run("secrets", "set", "MODEL_KEY", input="sk-1")
    before = (sqlite_path.parent / "master.key").read_text()

    assert holdfast.json("secrets", "rekey") == {"secrets": 1}
    assert "1 secret is sealed" in holdfast.run("secrets", "rekey").output
    assert (sqlite_path.parent / "master.key").read_text() != before
    url = "http://127.0.0.1:11434/v1"
    assert holdfast.json("endpoints", "add", "x", "--base-url", url, "--model", "m", "--key-from", "MODEL_KEY")
