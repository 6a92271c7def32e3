"""Owns the proof that what a program left is removed, however hard it made that."""

import os
from pathlib import Path

import pytest

from holdfast.engines.runtime.trees import TooDeep, give_tree, remove_tree


def _nested(root: Path, depth: int) -> None:
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("below", dir_fd=here)
        below = os.open("below", os.O_RDONLY, dir_fd=here)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=below))
        os.close(here)
        here = below
    os.close(here)


def test_what_is_nested_deeper_than_any_path_can_name_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "left"
    _nested(root, 5_000)
    with pytest.raises(TooDeep, match="nested over 400"):
        give_tree(root, os.getuid())
    remove_tree(root)
    assert list(tmp_path.iterdir()) == []


def test_what_is_handed_over_is_so_to_the_last_file_and_through_no_link(tmp_path: Path) -> None:
    root = tmp_path / "given"
    _nested(root, 300)
    (root / "out").symlink_to("/etc")
    uid = 12_345 if os.geteuid() == 0 else os.getuid()
    give_tree(root, uid)
    assert {path.lstat().st_uid for path in (root, root / "out", root / "below", root / "below/below/file")} == {uid}
    assert Path("/etc").stat().st_uid == 0


def test_links_are_removed_and_not_followed_and_missing_rights_are_taken_back(tmp_path: Path) -> None:
    kept, root = tmp_path / "kept", tmp_path / "left"
    (kept / "below").mkdir(parents=True)
    (kept / "file").write_text("ours")
    shut = root / "a" / "shut"
    (shut / "inside").mkdir(parents=True)
    (root / "a" / "out").symlink_to(kept)
    (root / "out").symlink_to(kept)
    os.mkfifo(root / "pipe")
    for each in (shut / "inside", shut, root):
        each.chmod(0)
    remove_tree(root)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").read_text() == "ours" and (kept / "below").is_dir()
    remove_tree(root)
    root.symlink_to(kept)
    remove_tree(root)
    assert sorted(path.name for path in kept.iterdir()) == ["below", "file"]
