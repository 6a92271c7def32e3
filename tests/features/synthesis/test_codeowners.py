"""Owns the proof of CODEOWNERS: the documented examples, sections, and the globs against a matcher of another kind."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.synthesis.sources.codeowners import CodeOwners, matches, parse_code_owners
from tests.support.properties import examples


@pytest.mark.parametrize(
    ("pattern", "path", "speaks"),
    [
        ("*", "README.md", True),
        ("*", "deep/down/file.go", True),
        ("*.js", "a.js", True),
        ("*.js", "src/deep/a.js", True),
        ("*.js", "src/a.jsx", False),
        ("/build/logs/", "build/logs/today/1.log", True),
        ("/build/logs/", "x/build/logs/1.log", False),
        ("docs/*", "docs/getting-started.md", True),
        ("docs/*", "docs/build-app/troubleshooting.md", False),
        ("docs/**", "docs/build-app/troubleshooting.md", True),
        ("apps/", "apps/a.py", True),
        ("apps/", "services/apps/a.py", True),
        ("apps/", "apps", False),
        ("/docs/", "docs/a/b.md", True),
        ("/docs/", "src/docs/a.md", False),
        ("/scripts/", "scripts/x.sh", True),
        ("**/logs", "build/logs/x", True),
        ("**/logs", "logs", True),
        ("/apps/github", "apps/github/x.rb", True),
        ("/apps/github", "apps/github", True),
        ("/apps/github", "apps/githubber", False),
        ("src/**/gen", "src/gen/x", True),
        ("src/**/gen", "src/a/b/gen", True),
        ("a?c.txt", "abc.txt", True),
        ("a?c.txt", "a/c.txt", False),
        (r"\#weird", "#weird", True),
        (r"with\ space.md", "with space.md", True),
        ("(group)+.md", "(group)+.md", True),
        ("(group)+.md", "groupp.md", False),
    ],
)
def test_a_pattern_speaks_for_what_the_documentation_says(pattern: str, path: str, speaks: bool) -> None:
    assert matches(pattern, path) is speaks


def _owners(owners: CodeOwners, path: str) -> tuple[str, ...]:
    return tuple(owner for rule in owners.rules_for(path) for owner in rule.owners)


def test_the_last_rule_that_matches_wins_and_may_take_owners_away() -> None:
    lines = ["# who owns what", "*  @org/all # everything", "", "/src/ @ada @grace", "/src/free/", "*.md docs@x.org"]
    owners = parse_code_owners("CODEOWNERS", lines)
    assert _owners(owners, "setup.cfg") == ("@org/all",)
    assert _owners(owners, "src/main.py") == ("@ada", "@grace")
    assert _owners(owners, "src/free/a.py") == ()
    assert _owners(owners, "src/guide.md") == ("docs@x.org",)
    assert [rule.line for rule in owners.rules_for("src/main.py")] == [4]


def test_each_section_has_a_last_rule_of_its_own() -> None:
    lines = ["* @all", "[Database] @dba", "*.sql", "^[Docs][2] @writers", "docs/ @editor", "README.md"]
    owners = parse_code_owners("CODEOWNERS", lines)
    assert _owners(owners, "schema/a.sql") == ("@all", "@dba")
    assert _owners(owners, "docs/a.md") == ("@all", "@editor")
    assert _owners(owners, "README.md") == ("@all", "@writers")


def reference(pattern: str, path: str) -> bool:
    """The same rules, read segment by segment without a regular expression."""
    inner = pattern.strip("/")
    wanted = [part for part in inner.split("/") if part]
    given_parts = path.split("/")
    anchored = pattern.startswith("/") or "/" in inner
    starts = [0] if anchored else range(len(given_parts))
    return any(_walk(wanted, given_parts[start:], pattern, anchored) for start in starts)


def _walk(wanted: Sequence[str], left: Sequence[str], pattern: str, anchored: bool) -> bool:
    if not wanted:
        return not left if not pattern.endswith("/") else bool(left)
    head, rest = wanted[0], wanted[1:]
    if head == "**":
        if not rest:
            return len(left) > (1 if pattern.endswith("/") else 0)
        return any(_walk(rest, left[skip:], pattern, anchored) for skip in range(len(left)))
    if not left or not _segment(head, left[0]):
        return False
    if rest:
        return _walk(rest, left[1:], pattern, anchored)
    if pattern.endswith("/"):
        return len(left) > 1
    return len(left) == 1 if head == "*" and anchored else True


def _segment(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(_segment(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in (name[0], "?") and _segment(pattern[1:], name[1:])


SEGMENT = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "?", "**", "*.c", "a.c"])
NAME = st.sampled_from(["a", "b", "ab", "abb", "c.c", "a.c", "x"])


@given(
    st.lists(SEGMENT, min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
    st.lists(NAME, min_size=1, max_size=5),
)
@examples(400)
def test_globs_agree_with_a_matcher_of_another_kind(
    parts: list[str], leading: bool, trailing: bool, names: list[str]
) -> None:
    pattern = ("/" if leading else "") + "/".join(parts) + ("/" if trailing else "")
    path = "/".join(names)
    assert matches(pattern, path) is reference(pattern, path)
