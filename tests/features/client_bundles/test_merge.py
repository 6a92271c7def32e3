"""Merging into files that people wrote: their comments, keys and order stay; broken files are left alone."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.client_bundles.files import jsonc, toml_file, yaml_file
from holdfast.features.client_bundles.files.blocks import marks, merge_block, merge_ignored
from holdfast.features.client_bundles.files.folder import NotWritten, diff, plan, write
from holdfast.features.client_bundles.files.values import Exactly, merged
from holdfast.features.client_bundles.model import BundleFile, Unmergeable
from tests.support.properties import examples

BEGIN, END = marks("xerotier")
OURS: dict[str, Any] = {
    "mcpServers": {"xerotier": {"url": "https://x/v1/mcp", "headers": {"Authorization": "Bearer k"}}}
}


def test_a_new_json_file_is_indented_by_two() -> None:
    assert jsonc.merge("", OURS) == json.dumps(OURS, indent=2) + "\n"
    assert jsonc.merge("\ufeff", OURS) == "\ufeff" + json.dumps(OURS, indent=2) + "\n"
    assert jsonc.merge("// mine\n", OURS).startswith("// mine\n{")


def test_comments_keys_order_and_trailing_commas_stay() -> None:
    text = """\
// servers of mine
{
    "z": 1, /* first */
    "mcpServers": {
        // the other one
        "other": {"command": "x"}, // keep
    }, // end
    "a": [1, 2,],
}
"""
    result = jsonc.merge(text, OURS)
    assert (
        result
        == """\
// servers of mine
{
    "z": 1, /* first */
    "mcpServers": {
        // the other one
        "other": {"command": "x"}, // keep
        "xerotier": {
            "url": "https://x/v1/mcp",
            "headers": {
                "Authorization": "Bearer k"
            }
        },
    }, // end
    "a": [1, 2,],
}
"""
    )
    assert jsonc.merge(result, OURS) == result


def test_only_the_key_changes_in_an_entry_that_is_there() -> None:
    text = '{"mcpServers": {"xerotier": {"disabled": true, /* why */ "headers": {"Authorization": "Bearer old"}}}}'
    result = jsonc.merge(text, {"mcpServers": {"xerotier": {"headers": {"Authorization": "Bearer new"}}}})
    assert result == text.replace("old", "new")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "a": 1\n}'),
        ("{ }", '{\n  "a": 1\n}'),
        ("{\n}\n", '{\n  "a": 1\n}\n'),
        ('{"b": 2}', '{"b": 2,\n  "a": 1\n}'),
        ('{\n\t"b": 2 // two\n}', '{\n\t"b": 2, // two\n\t"a": 1\n}'),
        ('{\r\n "b": 2\r\n}\r\n', '{\r\n "b": 2,\r\n "a": 1\r\n}\r\n'),
        ('\ufeff{"a": 0}', '\ufeff{"a": 1}'),
        ('{"a": 0, "a": 2}', '{"a": 0, "a": 1}'),
        ("{/* only */}", '{/* only */\n  "a": 1\n}'),
        ('{"b": "{}"}', '{"b": "{}",\n  "a": 1\n}'),
    ],
)
def test_small_files_are_changed_in_place(text: str, expected: str) -> None:
    assert jsonc.merge(text, {"a": 1}) == expected


def test_lists_gain_what_they_lack() -> None:
    assert jsonc.merge('{"i": ["a"]}', {"i": ["a"]}) == '{"i": ["a"]}'
    assert jsonc.parse(jsonc.merge('{"i": ["a", ]}', {"i": ["b"]})).value == {"i": ["a", "b"]}  # type: ignore[union-attr]
    assert jsonc.parse(jsonc.merge('{"i": null}', {"i": ["b"]})).value == {"i": ["b"]}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", "line 1, column 2"),
        ('{"a": 1 "b": 2}', "line 1, column 9"),
        ('{\n  "a": tru\n}', "line 2, column 8"),
        ("{'a': 1}", "line 1, column 2"),
        ("{a: 1}", "double quotes"),
        ('{"a": 1} x', "nothing more"),
        ("{/* }", "does not end"),
        ("[1]", "not an object"),
        ('{"mcpServers": []}', "mcpServers is not an object"),
        ('{"mcpServers": {"xerotier": {"url": {}}}}', "mcpServers.xerotier.url is not a plain value"),
        ('{"a": 01}', "a value was expected"),
        ("{,}", "double quotes"),
        ('{"a": ' + "[" * 5000, "too deeply"),
    ],
)
def test_a_file_that_is_not_json_is_refused_with_the_place(text: str, where: str) -> None:
    with pytest.raises(Unmergeable, match=re.escape(where)):
        jsonc.merge(text, OURS)


_TRIVIA = st.sampled_from(["", " ", "\n", "\n  ", "\t", " // note\n", '/* a, } " */', "\r\n", "\n// [x]\n    "])
_KEYS = st.sampled_from(["mcpServers", "xerotier", "url", "other", 'q"uo\\te', "é", "//", "headers"])
_PLAIN = st.none() | st.booleans() | st.integers(-99, 99) | st.sampled_from(["", "/* no */", '"', "é\n", "{}", "//x"])


@st.composite
def documents(draw: st.DrawFn, depth: int = 3) -> str:
    """JSON with comments, trailing commas and odd blanks; objects have each key once."""

    def value(level: int) -> str:
        kind = draw(st.sampled_from(["plain", "object", "array"])) if level else "plain"
        if kind == "plain":
            return json.dumps(draw(_PLAIN), ensure_ascii=draw(st.booleans()))
        if kind == "array":
            return collection("[", [value(level - 1) for _ in range(draw(st.integers(0, 2)))], "]")
        return members(level)

    def members(level: int) -> str:
        keys = draw(st.lists(_KEYS, unique=True, max_size=3))
        return collection(
            "{", [f"{json.dumps(key)}{draw(_TRIVIA)}:{draw(_TRIVIA)}{value(level - 1)}" for key in keys], "}"
        )

    def collection(opens: str, parts: list[str], closes: str) -> str:
        spaced = [f"{draw(_TRIVIA)}{part}{draw(_TRIVIA)}" for part in parts]
        comma = draw(st.sampled_from(["", ","])) if parts else ""
        return opens + ",".join(spaced) + comma + draw(_TRIVIA) + closes

    return draw(_TRIVIA) + members(depth) + draw(_TRIVIA)


def comments(text: str) -> list[str]:
    outside_strings = re.findall(r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', text, re.DOTALL)
    return [found for found in outside_strings if found]


@examples(200)
@given(documents())
def test_whatever_is_in_the_file_stays_and_a_second_run_changes_nothing(text: str) -> None:
    before = jsonc.parse(text)
    assert before is not None
    try:
        wanted = merged(before.value, OURS)
    except Unmergeable:
        with pytest.raises(Unmergeable):
            jsonc.merge(text, OURS)
        return
    result = jsonc.merge(text, OURS)
    after = jsonc.parse(result)
    assert after is not None and after.value == wanted
    assert comments(result) == comments(text)
    assert list(after.value)[: len(before.value)] == list(before.value)
    assert jsonc.merge(result, OURS) == result


CODEX: dict[str, Any] = {
    "mcp_servers": {"xerotier": {"url": "https://x", "http_headers": {"Authorization": "Bearer k"}}}
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\n",
        'model = "x" # best\n\n[mcp_servers.other] # keep\ncommand = "y"\n\n[profiles.a]\nmodel = "z"\n',
        "[mcp_servers]\n",
        '[mcp_servers.xerotier]\n# my note\nurl = "https://old"\ndisabled_tools = ["a"]\n\n[z]\na = 1\n',
        "[mcp_servers.xerotier]\nurl = 'https://old'\n[mcp_servers.xerotier.http_headers]\nX = 'y' # z\n",
        'mcp_servers.other.url = "https://y"\n',
        'mcp_servers = { other = { url = "https://y" } }\n',
        "a = 1",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_toml_keeps_everything_else(text: str, newline: str, mark: str) -> None:
    given_text = mark + text.replace("\n", newline)
    result = toml_file.merge(given_text, CODEX)
    plain = result.removeprefix("\ufeff")
    assert tomllib.loads(plain) == merged(tomllib.loads(text), CODEX)
    assert [line for line in text.splitlines() if "#" in line] == [line for line in plain.splitlines() if "#" in line]
    assert result.startswith("\ufeff") == bool(mark)
    if newline == "\r\n" and newline in given_text:
        assert "\n" not in result.replace("\r\n", "")
    assert toml_file.merge(result, CODEX) == result


def test_broken_toml_is_refused_with_the_place() -> None:
    with pytest.raises(Unmergeable, match="line 2"):
        toml_file.merge("a = 1\nb = \n", CODEX)
    with pytest.raises(Unmergeable, match="mcp_servers is not an object"):
        toml_file.merge("mcp_servers = 1\n", CODEX)


GOOSE: dict[str, Any] = {
    "extensions": {"xerotier": {"enabled": True, "headers": {"Authorization": "Bearer k"}, "env_keys": Exactly([])}}
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a note\n",
        "GOOSE_MODEL: x # best\n",
        "GOOSE_MODEL: x",
        "extensions:\n  # built in\n  developer:\n    enabled: true # yes\n    bundled: true\n\nlast: 1 # end\n",
        "extensions: {}\nlast: 1\n",
        "extensions:\nlast: 1\n",
        "extensions: # mine\n    developer: {enabled: true}\n",
        "extensions: {developer: {enabled: true}} # flow\n",
        "extensions:\n  xerotier:\n    enabled: false # off\n    env_keys: [A]\n    mine: |\n      a\n\nlast: 1\n",
        "extensions:\n  xerotier:\n    env_keys:\n    headers: {X: y}\nlast: 1\n",
        "---\na: 1\n",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_yaml_keeps_everything_else(text: str, newline: str) -> None:
    given_text = text.replace("\n", newline)
    result = yaml_file.merge(given_text, GOOSE)
    assert yaml.safe_load(result) == merged(yaml.safe_load(text), GOOSE)
    assert [part for part in result.split() if part == "#"] == [part for part in text.split() if part == "#"]
    if newline == "\r\n" and newline in given_text:
        assert "\n" not in result.replace("\r\n", "")
    assert yaml_file.merge(result, GOOSE) == result


def test_yaml_lists_of_servers_are_merged_by_name() -> None:
    text = "mcpServers:\n  - name: other # keep\n    url: https://y\n  - name: xerotier\n    url: https://old\n"
    ours = {"mcpServers": [{"name": "xerotier", "url": "https://x", "requestOptions": {"headers": {"A": "b"}}}]}
    result = yaml_file.merge(text, ours)
    assert yaml.safe_load(result) == merged(yaml.safe_load(text), ours)
    assert "other # keep" in result
    added = yaml_file.merge("mcpServers:\n  - name: other # keep\n", ours)
    assert yaml.safe_load(added)["mcpServers"][1]["name"] == "xerotier" and "other # keep" in added


@pytest.mark.parametrize(
    "text", ["a: [", "a: 1\n b: 2\n", "- x\n", "extensions: []\n", "a: 1\n---\nb: 2\n", "\tx: 1\n"]
)
def test_broken_yaml_is_refused(text: str) -> None:
    with pytest.raises(Unmergeable):
        yaml_file.merge(text, GOOSE)


def test_rules_stand_between_marks_and_are_replaced_there() -> None:
    first = merge_block("# Mine\r\n", "old rules")
    assert first == f"# Mine\r\n\r\n{BEGIN}\r\nold rules\r\n{END}\r\n"
    second = merge_block(first + "after\r\n", "new rules")
    assert second == first.replace("old", "new") + "after\r\n"
    assert merge_block(second, "new rules") == second
    assert merge_block("", "x", "---\na: b\n---\n") == f"---\na: b\n---\n{BEGIN}\nx\n{END}\n"
    with pytest.raises(Unmergeable):
        merge_block(BEGIN, "x")


def test_ignored_files_are_named_once() -> None:
    first = merge_ignored("node_modules", [".mcp.json"])
    assert first.startswith("node_modules\n\n#") and first.endswith("\n.mcp.json\n")
    assert merge_ignored(first, [".mcp.json"]) == first
    assert merge_ignored("/.mcp.json\n", [".mcp.json"]) == "/.mcp.json\n"
    assert merge_ignored(first, [".cursor/mcp.json"]) == first + ".cursor/mcp.json\n"


def _files(key: str) -> list[BundleFile]:
    ours = {"mcpServers": {"xerotier": {"headers": {"Authorization": f"Bearer {key}"}}}}
    return [
        BundleFile(".cursor/mcp.json", lambda before: jsonc.merge(before, ours), has_key=True),
        BundleFile(".gitignore", lambda before: merge_ignored(before, [".cursor/mcp.json"])),
    ]


KEY = "xero_" + "0" * 32 + "_" + "A" * 43


def test_files_are_written_whole_and_private_and_the_diff_shows_no_key(tmp_path: Path) -> None:
    changes = plan(tmp_path, _files(KEY))
    assert not list(tmp_path.iterdir())
    shown = diff(changes)
    assert "+++ .cursor/mcp.json" in shown and "xero_…" in shown and KEY not in shown
    assert write(changes) == [".cursor/mcp.json", ".gitignore"]
    assert (tmp_path / ".cursor/mcp.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".cursor", ".gitignore", "mcp.json"]
    again = plan(tmp_path, _files(KEY))
    assert diff(again) == "" and write(again) == []
    rotated = plan(tmp_path, _files(KEY[:-1] + "B"))
    assert diff(rotated) == "" and write(rotated) == [".cursor/mcp.json"]


def test_a_file_with_the_key_becomes_private_and_others_keep_their_mode(tmp_path: Path) -> None:
    settings_file, ignored = tmp_path / ".cursor/mcp.json", tmp_path / ".gitignore"
    settings_file.parent.mkdir()
    settings_file.write_text("{}")
    settings_file.chmod(0o644)
    ignored.write_text("x\n")
    ignored.chmod(0o664)
    write(plan(tmp_path, _files(KEY)))
    assert settings_file.stat().st_mode & 0o777 == 0o600 and ignored.stat().st_mode & 0o777 == 0o664


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x\n")
    (tmp_path / ".gitignore").symlink_to("real")
    write(plan(tmp_path, _files(KEY)))
    assert (tmp_path / ".gitignore").is_symlink() and ".cursor/mcp.json" in (tmp_path / "real").read_text()


@pytest.mark.parametrize("broken", [b"{", b"\xff\xfe{", b"[]"])
def test_one_broken_file_stops_everything_before_anything_is_written(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_bytes(broken)
    with pytest.raises(Unmergeable, match=r"Nothing was written\. .*mcp\.json"):
        plan(tmp_path, _files(KEY))
    assert path.read_bytes() == broken and not (tmp_path / ".gitignore").exists()


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / ".cursor/mcp.json").mkdir(parents=True)
    with pytest.raises(NotWritten, match=r"mcp\.json"):
        plan(tmp_path, _files(KEY))
