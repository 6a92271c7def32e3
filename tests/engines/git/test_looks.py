"""Owns the proof that single looks (tree, lines, log, blame, one commit, tags) say what git says."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.errors import NotFound
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.model import BranchHead, GitFailed, Tag, TreeEntry
from holdfast.engines.git.transport.address import parse_location
from tests.engines.git.reading import engine
from tests.support.code.git import BEGAN, GitRepo, has_git

# Each test starts processes that read repositories.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_git(), reason="this machine has no git to make repositories with"),
]


@pytest.fixture
async def git(tmp_path: Path) -> AsyncIterator[GitEngine]:
    async with engine(tmp_path) as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "repo")


async def _head(git: GitEngine, path: Path, branch: str = "") -> BranchHead:
    return await git.fetch("repo_1", parse_location(str(path)), branch=branch)


async def test_a_directory_is_listed(git: GitEngine, repo: GitRepo) -> None:
    repo.link("link", "a.txt")
    repo.write(b"d/caf\xe9", "x")
    sha = repo.commit("Begin", {"a.txt": "12345\n", "d/e/f.txt": "x\n"})
    location = parse_location(str(repo.path))
    assert list(await git.tree("repo_1", location, sha)) == [
        TreeEntry("a.txt", "file", 6),
        TreeEntry("d", "directory"),
        TreeEntry("link", "symlink"),
    ]
    within = await git.tree("repo_1", location, sha, "d/")
    assert [entry.path for entry in within] == ["d/caf\\xe9", "d/e"]
    everything = await git.tree("repo_1", location, sha, recursive=True)
    assert [entry.path for entry in everything] == ["a.txt", "d", "d/caf\\xe9", "d/e", "d/e/f.txt", "link"]
    assert len(await git.tree("repo_1", location, sha, recursive=True, limit=2)) == 2
    for path in ("nothing", "a.txt", "a.txt/x"):
        with pytest.raises(NotFound):
            await git.tree("repo_1", location, sha, path)


async def test_lines_of_a_file_are_read_and_cut(git: GitEngine, repo: GitRepo) -> None:
    repo.write(b"caf\xe9.txt", "in Latin\n")
    lines = [f"line {number}" for number in range(1, 1_001)]
    first = repo.commit("Begin", {"a.txt": "\n".join(lines) + "\n", "wide.txt": ("x" * 30_000 + "\n") * 5, "e": ""})
    repo.commit("Change", {"a.txt": "changed\n"})
    location = parse_location(str(repo.path))
    some = await git.read("repo_1", location, first[:10], "a.txt", 10, 12)
    assert (some.text, some.start_line, some.end_line, some.total_lines) == ("line 10\nline 11\nline 12", 10, 12, 1_000)
    assert (some.commit, some.path) == (first, "a.txt")
    cut = await git.read("repo_1", location, first, "a.txt")
    assert (cut.start_line, cut.end_line) == (1, 400)
    wide = await git.read("repo_1", location, first, "wide.txt")
    assert (wide.end_line, wide.total_lines) == (1, 5)
    beyond = await git.read("repo_1", location, first, "a.txt", 2_000)
    assert beyond.text == ""
    assert (await git.read("repo_1", location, first, "e")).total_lines == 0
    assert (await git.read("repo_1", location, first, "caf\\xe9.txt")).text == "in Latin"


async def test_what_is_not_there_or_no_text_is_told(git: GitEngine, repo: GitRepo) -> None:
    sha = repo.commit("Begin", {"a/b.bin": b"\0\1", "c": "x"})
    location = parse_location(str(repo.path))
    for path in ("nothing", "a/nothing", "../etc/passwd", "/etc/passwd", "a\\b"):
        with pytest.raises(NotFound):
            await git.read("repo_1", location, sha, path)
    for commit in ("12" * 20, "zz", "", "HEAD~1", "deadbeef"):
        with pytest.raises(NotFound):
            await git.read("repo_1", location, commit, "c")
    for path, words in (("a/b.bin", "binary"), ("a", "directory")):
        with pytest.raises(GitFailed, match=words):
            await git.read("repo_1", location, sha, path)


async def test_a_log_follows_a_file_through_its_names_and_merges(git: GitEngine, repo: GitRepo) -> None:
    text = "".join(f"line {number}\n" for number in range(20))
    first = repo.commit("Begin", {"old.py": text, "other": "1"})
    repo.commit("Elsewhere", {"other": "2"})
    repo.checkout("side", create=True)
    side = repo.commit("On the side", {"old.py": text + "side\n"})
    repo.checkout("main")
    repo.commit("Elsewhere again", {"other": "3"})
    repo.merge("side")
    repo.rename("old.py", "pkg/new.py")
    moved = repo.commit("Move")
    last = repo.commit("Change", {"pkg/new.py": text + "side\nlast\n"})
    location = parse_location(str(repo.path))
    log = await git.log("repo_1", location, last, "pkg/new.py")
    assert [commit.sha for commit in log] == [last, moved, side, first]
    assert [commit.sha for commit in await git.log("repo_1", location, last, "pkg/new.py", 2)] == [last, moved]
    assert [commit.sha for commit in await git.log("repo_1", location, last, "pkg")] == [last, moved]
    assert len(await git.log("repo_1", location, last, "", 100)) == 7
    with pytest.raises(NotFound):
        await git.log("repo_1", location, last, "old.py")


async def test_blame_names_the_commit_of_each_run_of_lines(git: GitEngine, repo: GitRepo) -> None:
    first = repo.commit("Begin\n\nbody", {"a.txt": "one\ntwo\nthree\nfour\n"})
    second = repo.commit("Change two", {"a.txt": "one\nTWO\nthree\nfour\n"}, author="Grace Hopper")
    location = parse_location(str(repo.path))
    runs = await git.blame("repo_1", location, second, "a.txt", 1, 4)
    assert [(run.start_line, run.end_line, run.sha) for run in runs] == [(1, 1, first), (2, 2, second), (3, 4, first)]
    assert (runs[1].author, runs[1].subject, runs[1].committed_at) == (
        "Grace Hopper",
        "Change two",
        (BEGAN + 60) * 1000,
    )
    some = await git.blame("repo_1", location, second, "a.txt", 2, 3)
    assert [(run.start_line, run.end_line, run.sha) for run in some] == [(2, 2, second), (3, 3, first)]
    far = await git.blame("repo_1", location, second, "a.txt", 4, 4_000)
    assert [(run.start_line, run.end_line) for run in far] == [(4, 4)]
    assert await git.blame("repo_1", location, second, "a.txt", 5, 9) == []
    assert await git.blame("repo_1", location, second, "a.txt", 3, 2) == []


async def test_a_commit_is_shown_by_the_beginning_of_its_hash(git: GitEngine, repo: GitRepo) -> None:
    repo.commit("Begin", {"a.txt": "one\n"})
    sha = repo.commit("Change", {"a.txt": "two\n", "b.bin": b"\0"})
    location = parse_location(str(repo.path))
    shown = await git.show("repo_1", location, sha[:7])
    assert shown.commit.sha == sha
    assert "-one\n+two\n" in shown.patch
    assert not shown.truncated
    long = repo.commit("Long", {"long.txt": "x" * 50 + "\n" + "line\n" * 30_000})
    cut = await git.show("repo_1", location, long)
    assert cut.truncated
    assert len(cut.patch) == 60_000
    with pytest.raises(NotFound):
        await git.show("repo_1", location, "12" * 20)


async def test_tags_name_their_commits(git: GitEngine, repo: GitRepo) -> None:
    first = repo.commit("Begin", {"a": "1"})
    repo.tag("v1")
    second = repo.commit("Next", {"a": "2"})
    repo.tag("v2", "The second\n\nrelease")
    repo.run("tag", "tree", "HEAD^{tree}")
    location = parse_location(str(repo.path))
    head = await _head(git, repo.path)
    assert list(await git.tags("repo_1", location, head)) == [
        Tag("v1", first, BEGAN * 1000),
        Tag("v2", second, (BEGAN + 180) * 1000, "The second\n\nrelease"),
    ]


async def test_where_a_repository_stands(git: GitEngine, repo: GitRepo, tmp_path: Path) -> None:
    first = repo.commit("Begin", {"a": "1"})
    repo.checkout("feature/x", create=True)
    second = repo.commit("Next", {"a": "2"})
    assert (await _head(git, repo.path)) == BranchHead("feature/x", second)
    assert (await _head(git, repo.path, "main")) == BranchHead("main", first)
    with pytest.raises(GitFailed, match="no branch 'nope'; it has feature/x, main"):
        await _head(git, repo.path, "nope")
    repo.checkout(first)
    assert (await _head(git, repo.path)) == BranchHead("HEAD", first)
    assert (await _head(git, repo.path, "HEAD")) == BranchHead("HEAD", first)
    clone = GitRepo.clone(repo, tmp_path / "clone")
    assert (await _head(git, clone.path, "feature/x")).commit == second
    clone.run("remote", "set-url", "origin", "https://robot:s3cret@h.example/r.git")
    assert (await _head(git, clone.path, "main")).origin == "https://h.example/r.git"
    repo.run("worktree", "add", "-q", "-f", str(tmp_path / "linked"), "main")
    assert (await _head(git, tmp_path / "linked")) == BranchHead("main", first)
    bare = GitRepo.clone(repo, tmp_path / "bare.git", "--bare")
    bare.run("symbolic-ref", "HEAD", "refs/heads/never-pushed")
    assert (await _head(git, bare.path)).branch == "main"
    (tmp_path / "plain").mkdir()
    with pytest.raises(GitFailed, match="no git repository"):
        await _head(git, tmp_path / "plain")
    # The directories above are not searched: they are not what was asked for.
    (repo.path / "sub").mkdir()
    with pytest.raises(GitFailed, match="no git repository"):
        await _head(git, repo.path / "sub")


async def test_a_repository_of_another_owner_is_read_and_one_with_other_hashes_is_told(
    git: GitEngine, repo: GitRepo, tmp_path: Path
) -> None:
    commit = repo.commit("Begin", {"a": "1"})
    other = tmp_path / "other"
    repo.run("init", "-q", "--object-format=sha256", str(other))
    if os.getuid() == 0:
        for path in (repo.path, *repo.path.rglob("*")):
            os.chown(path, 12_345, 12_345)
    assert (await _head(git, repo.path)).commit == commit
    with pytest.raises(GitFailed, match="can't be read yet"):
        await _head(git, other)


async def test_looks_at_the_same_time_all_get_their_own_answer(git: GitEngine, repo: GitRepo) -> None:
    sha = repo.commit("Begin", {f"{number}.txt": f"text {number}\n" for number in range(20)})
    location = parse_location(str(repo.path))
    excerpts = await asyncio.gather(
        *(git.read("repo_1", location, sha, f"{number}.txt") for number in range(20)),
    )
    assert [excerpt.text for excerpt in excerpts] == [f"text {number}" for number in range(20)]


async def test_a_look_survives_the_death_of_a_warm_reader(git: GitEngine, repo: GitRepo) -> None:
    sha = repo.commit("Begin", {"a.txt": "x\n"})
    location = parse_location(str(repo.path))
    await git.read("repo_1", location, sha, "a.txt")
    readers = [pid for pid in _children() if b"engines.git.reading.child" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(readers) == 1
    os.kill(readers[0], signal.SIGKILL)
    assert (await git.read("repo_1", location, sha, "a.txt")).text == "x"


def _children() -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


async def test_a_reader_that_is_dropped_finishes_what_it_was_asked(git: GitEngine, repo: GitRepo) -> None:
    sha = repo.commit("Begin", {"a.txt": "x\n"})
    location = parse_location(str(repo.path))

    async def look() -> str:
        return (await git.read("repo_1", location, sha, "a.txt")).text

    await look()
    for _ in range(3):
        looks = [asyncio.create_task(look()) for _ in range(6)]
        await asyncio.sleep(0)
        await git._readers.drop(location.path)
        assert await asyncio.gather(*looks) == ["x"] * 6


async def test_a_name_was_introduced_by_the_oldest_commit_that_has_it(git: GitEngine, repo: GitRepo) -> None:
    first = repo.commit("Begin", {"a.py": "def serve(): ...\n", "b.bin": b"\0 serve_all \0"})
    repo.checkout("side", create=True)
    brought = repo.commit("Serve all", {"b.py": "def serve_all(): ...\n"}, author="Grace Hopper")
    repo.checkout("main")
    repo.commit("Something else", {"c.py": "pass\n"})
    repo.merge("side")
    head = repo.commit("Rewrite", {"b.py": "def serve_all() -> None: ...\n", "d.py": "serve_all()\n"})
    location = parse_location(str(repo.path))

    async def introduced(name: str) -> str | None:
        found = await git.introduced("repo_1", location, head, name)
        return None if found is None else found.sha

    assert await introduced("serve_all") == brought
    assert await introduced("serve") == first
    assert await introduced("serve_") is None
    assert await introduced("a.*b(") is None
    assert await git.introduced("repo_1", location, head, "serve_all", seconds=-1.0) is None
