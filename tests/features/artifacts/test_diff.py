"""Owns the proof that diffs are right: applying one to the old text gives the new text."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.artifacts.diff import MAX_CHANGES, find_edits, unified_diff
from tests.support.properties import examples

_TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "long line"]), max_size=30).map("\n".join)


def _applied(old: str, diff: str) -> str:
    """What `patch` makes of it."""
    lines = old.split("\n")
    lines = [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    made: list[str] = []
    at = 0
    body = diff.split("\n")[2:]
    for number, line in enumerate(body):
        unended = number + 1 < len(body) and body[number + 1].startswith("\\")
        text = line[1:] + ("" if unended else "\n")
        if line.startswith("@@"):
            first, length = line.split()[1][1:].split(",")
            start = int(first) - (1 if int(length) else 0)
            made += lines[at:start]
            at = start
        elif line.startswith((" ", "-")):
            assert lines[at] == text
            made += [text] if line.startswith(" ") else []
            at += 1
        elif line.startswith("+"):
            made.append(text)
    return "".join(made + lines[at:])


@examples(300)
@given(_TEXTS, _TEXTS)
def test_applying_a_diff_gives_the_new_text(old: str, new: str) -> None:
    diff, added, removed = unified_diff(old, new, "a", "b")

    assert _applied(old, diff) == new if diff else old == new
    assert added == sum(1 for line in diff.split("\n")[2:] if line.startswith("+"))
    assert removed == sum(1 for line in diff.split("\n")[2:] if line.startswith("-"))


def test_changes_are_few_where_few_were_made() -> None:
    old = [f"line {number}\n" for number in range(2000)]
    new = [*old[:500], "inserted\n", *old[500:1500], *old[1501:]]

    edits = find_edits(old, new)

    assert [(edit.a_end - edit.a_start, edit.b_end - edit.b_start) for edit in edits] == [(0, 1), (1, 0)]


def test_texts_without_likeness_are_replaced_in_one_piece() -> None:
    old = [f"old {number}\n" for number in range(MAX_CHANGES)]
    new = [f"new {number}\n" for number in range(MAX_CHANGES)]

    assert len(find_edits(old, new)) == 1


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
def test_patch_reads_it(tmp_path: Path) -> None:
    old, new = "one\ntwo\nthree", "zero\none\ntwo\nfour\n"
    diff, _, _ = unified_diff(old, new, "a", "b")
    (tmp_path / "file").write_text(old)

    subprocess.run(["patch", str(tmp_path / "file")], input=diff, text=True, check=True, capture_output=True)

    assert (tmp_path / "file").read_text() == new
