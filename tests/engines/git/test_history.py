"""Owns the proof that a history is read as git itself tells it, whatever shape it has."""

from pathlib import Path

import pytest

from holdfast.engines.git.model import FileChange, GitFailed, GitLimits
from holdfast.engines.git.transport.address import parse_location
from tests.engines.git.reading import engine, history, walked
from tests.support.code.git import AUTHOR, BEGAN, EMAIL, GitRepo, has_git

# Each test starts processes that read repositories.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_git(), reason="this machine has no git to make repositories with"),
]


async def test_a_commit_says_who_when_what_and_which_files(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    first = repo.commit("Begin", {"a.txt": "one\ntwo\n", "gone.txt": "x\n"})
    repo.remove("gone.txt")
    second = repo.commit(
        "Change\nthe first file\n\nBecause two\nwas wrong.\n",
        {"a.txt": "one\nTWO\nthree\n", "dir/b.bin": b"\0\1\2"},
        author="Grace Hopper",
        email="grace@example.org",
    )
    read = await history(repo.path, tmp_path)
    assert read.totals == [2]
    assert read.removed == []
    begin, change = read.commits
    assert (begin.sha, begin.parents, begin.author, begin.email) == (first, (), AUTHOR, EMAIL)
    assert (begin.authored_at, begin.committed_at) == (BEGAN * 1000, BEGAN * 1000)
    assert begin.changes == (FileChange("A", "a.txt", "", 2, 0), FileChange("A", "gone.txt", "", 1, 0))
    assert (change.sha, change.parents, change.author) == (second, (first,), "Grace Hopper")
    assert (change.subject, change.body) == ("Change the first file", "Because two\nwas wrong.")
    assert change.message == "Change the first file\n\nBecause two\nwas wrong."
    assert change.changes == (
        FileChange("M", "a.txt", "", 2, 1),
        FileChange("A", "dir/b.bin", "", 0, 0),
        FileChange("D", "gone.txt", "", 0, 1),
    )


async def test_parents_come_before_children_and_a_merge_has_no_changes(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    base = repo.commit("Base", {"a": "1\n"})
    repo.checkout("side", create=True)
    # Older by its date than its own parent: dates lie, parents do not.
    side = repo.commit("Side", {"b": "2\n"}, seconds=BEGAN - 10_000)
    repo.checkout("main")
    main = repo.commit("Main", {"c": "3\n"})
    merge = repo.merge("side")
    commits = (await history(repo.path, tmp_path)).commits
    shas = [commit.sha for commit in commits]
    assert set(shas) == {base, side, main, merge}
    seen: set[str] = set()
    for commit in commits:
        assert set(commit.parents) <= seen
        seen.add(commit.sha)
    assert commits[-1].sha == merge
    assert commits[-1].parents == (main, side)
    assert commits[-1].changes == ()


async def test_a_rename_is_one_change_with_its_former_name(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    text = "".join(f"line {number}\n" for number in range(30))
    repo.commit("Begin", {"old/name.py": text})
    repo.rename("old/name.py", "new/name.py")
    repo.commit("Move", {"new/name.py": text + "one more\n"})
    change = (await history(repo.path, tmp_path)).commits[-1].changes
    assert change == (FileChange("R", "new/name.py", "old/name.py", 1, 0),)


async def test_renames_too_many_to_compare_are_known_by_equal_content(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.commit("Begin", {f"old/{number}.txt": f"content {number}\n" for number in range(250)})
    (repo.path / "old").rename(repo.path / "new")
    repo.commit("Move all")
    moved = (await history(repo.path, tmp_path, limits=GitLimits(changes_per_commit=100))).commits[-1]
    assert len(moved.changes) == 100
    assert moved.more_changes == 150
    assert all(each.status == "R" and each.old_path == each.path.replace("new/", "old/") for each in moved.changes)


async def test_a_huge_file_beside_a_rename_is_never_compared(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.commit("Begin", {"a.txt": "same\n", "z.txt": "z\n"})
    repo.rename("a.txt", "b.txt")
    repo.commit("Move beside something large", {"large.txt": "y\n" * 2_000})
    moved = (await history(repo.path, tmp_path, limits=GitLimits(file_bytes=1_000))).commits[-1]
    assert moved.changes == (FileChange("R", "b.txt", "a.txt", 0, 0), FileChange("A", "large.txt", "", 0, 0))


async def test_changes_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.commit("Many", {f"{number:03}.txt": "x\n" for number in range(12)})
    commit = (await history(repo.path, tmp_path, limits=GitLimits(changes_per_commit=5))).commits[0]
    assert [change.path for change in commit.changes] == ["000.txt", "001.txt", "002.txt", "003.txt", "004.txt"]
    assert commit.more_changes == 7


async def test_long_messages_are_cut(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.commit("s" * 500 + "\n\n" + "b" * 500)
    commit = (await history(repo.path, tmp_path, limits=GitLimits(message_characters=100))).commits[0]
    assert (len(commit.subject), len(commit.body)) == (100, 100)


async def test_names_and_messages_in_other_encodings_are_readable(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.write(b"caf\xe9.txt", "x\n")
    repo.commit("Größe".encode("cp1252"), encoding="cp1252")
    repo.commit("Gr\xf6\xdfe undeclared".encode("latin-1"), {"b": "1\n"})
    repo.commit("日本語\n\n本文\x07".encode(), {"naïve.txt": "x\n"})
    repo.commit("", {"c": "1\n"}, author="\u00e9mile")
    commits = (await history(repo.path, tmp_path)).commits
    assert [commit.subject for commit in commits] == ["Größe", "Größe undeclared", "日本語", ""]
    assert commits[0].changes[0].path == "caf\\xe9.txt"
    assert commits[2].body == "本文"
    assert commits[2].changes[0].path == "naïve.txt"
    assert commits[3].author == "émile"


@pytest.mark.parametrize(
    "encoding", ["undefined", "punycode", "idna", "unicode_escape", "hex", "no such", "utf-16", "\xff"]
)
async def test_an_encoding_that_is_none_does_not_stop_a_walk(encoding: str, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    tree = repo.run("mktree", input=b"")
    said = f"author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\nencoding {encoding}\n\nSay \\N{{x}}-\xff"
    content = f"tree {tree}\n{said}".encode("latin-1")
    sha = repo.run("hash-object", "-w", "-t", "commit", "--literally", "--stdin", input=content)
    repo.run("update-ref", "refs/heads/main", sha)
    [commit] = (await history(repo.path, tmp_path)).commits
    assert (commit.sha, commit.author) == (sha, "A")
    assert commit.subject == "Say \\N{x}-\xff"


async def test_only_what_is_newer_than_the_last_walk_is_read_again(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    first = repo.commit("One", {"a": "1"})
    second = repo.commit("Two", {"a": "2"})
    location = parse_location(str(repo.path))
    async with engine(tmp_path) as git:
        head = await git.fetch("repo_1", location)
        nothing = await walked(git, location, head, known_head=second)
        assert (nothing.commits, nothing.removed, nothing.totals) == ([], [], [0])
        newer = await walked(git, location, head, known_head=first)
        assert [commit.sha for commit in newer.commits] == [second]


async def test_known_commits_are_asked_for_only_when_they_are_needed(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    first = repo.commit("One", {"a": "1"})
    repo.commit("Two", {"a": "2"})
    location = parse_location(str(repo.path))

    async def never() -> list[str]:
        raise AssertionError("asked although the last head is still an ancestor")

    async with engine(tmp_path) as git:
        head = await git.fetch("repo_1", location)
        async for _ in git.history("repo_1", location, head, known_head=first, known=never):
            pass


async def test_a_rewritten_branch_tells_what_came_and_what_went(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    base = repo.commit("Base", {"a": "1"})
    lost = repo.commit("Lost", {"a": "2"})
    repo.run("reset", "-q", "--hard", base)
    kept = repo.commit("Kept", {"a": "3"})
    location = parse_location(str(repo.path))
    async with engine(tmp_path) as git:
        head = await git.fetch("repo_1", location)
        read = await walked(git, location, head, known_head=lost, known=[base, lost])
        assert [commit.sha for commit in read.commits] == [kept]
        assert read.removed == [lost]
        gone = "12" * 20
        read = await walked(git, location, head, known_head=gone, known=[base, gone])
        assert [commit.sha for commit in read.commits] == [kept]
        assert read.removed == [gone]


async def test_a_walk_that_was_cut_short_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    shas = [repo.commit(f"Commit {number}", {"a": str(number)}) for number in range(6)]
    location = parse_location(str(repo.path))
    async with engine(tmp_path) as git:
        head = await git.fetch("repo_1", location)
        read = await walked(git, location, head, known=shas[:4])
    assert [commit.sha for commit in read.commits] == shas[4:]
    assert (read.removed, read.totals) == ([], [2])


async def test_a_repository_that_became_empty_loses_everything(tmp_path: Path) -> None:
    empty = GitRepo(tmp_path / "repo")
    location = parse_location(str(empty.path))
    async with engine(tmp_path) as git:
        head = await git.fetch("repo_1", location)
        assert (head.branch, head.commit) == ("", "")
        read = await walked(git, location, head, known_head="ab" * 20, known=["ab" * 20])
    assert (read.commits, read.removed) == ([], ["ab" * 20])


async def test_what_a_shallow_clone_was_cut_off_at_claims_no_changes(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.commit("One", {"a": "1\n"})
    second = repo.commit("Two", {"b": "2\n"})
    third = repo.commit("Three", {"c": "3\n"})
    shallow = GitRepo.clone(f"file://{repo.path}", tmp_path / "shallow", "--depth", "2")
    async with engine(tmp_path) as git:
        location = parse_location(str(shallow.path))
        head = await git.fetch("repo_1", location)
        read = await walked(git, location, head)
    assert head.shallow
    assert [commit.sha for commit in read.commits] == [second, third]
    assert read.commits[0].changes == ()
    assert [change.path for change in read.commits[1].changes] == ["c"]


async def test_damage_is_a_failure_in_words_and_not_a_crash(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.commit("One", {"a": "1\n"})
    sha = repo.commit("Two", {"a": "2\n"})
    tree = repo.run("rev-parse", f"{sha}^{{tree}}")
    (repo.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(GitFailed, match="damaged"):
        await history(repo.path, tmp_path)


@pytest.mark.slow
@pytest.mark.contract("KS-2")
async def test_ten_thousand_commits_are_all_read(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo", bare=True)
    head = repo.grow(10_000)
    read = await history(repo.path, tmp_path)
    assert read.totals == [10_000]
    assert len({commit.sha for commit in read.commits}) == 10_000
    assert read.commits[-1].sha == head
    assert all(len(commit.changes) == 1 for commit in read.commits)
