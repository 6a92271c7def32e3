"""Owns the proof that URLs are cloned completely, only from where they may be, and within limits."""

import asyncio
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from holdfast.engines.git.model import Credentials, GitFailed, GitLimits, Progress
from holdfast.engines.git.transport.address import parse_location
from tests.engines.git.cloning import cloner, fails, left
from tests.engines.git.reading import walked
from tests.support.access.credentials import credential
from tests.support.code.git import GitRepo
from tests.support.code.git_server import GitServer, git_server, has_http_backend

# Each test starts processes that read repositories.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_http_backend(), reason="this machine has no git http-backend"),
]


@pytest.mark.contract("KS-2")
async def test_a_url_is_cloned_and_then_read_without_its_server(tmp_path: Path, repo: GitRepo) -> None:
    told: list[Progress] = []

    async def tell(progress: Progress) -> None:
        told.append(progress)

    with git_server(tmp_path / "served") as server:
        async with cloner(tmp_path, server.place) as git:
            location = parse_location(server.url("project.git"))
            head = await git.fetch("repo_1", location, progress=tell)
    assert (head.branch, head.commit) == ("main", repo.run("rev-parse", "main"))
    assert told
    assert told[-1].done == told[-1].total
    assert left(tmp_path) == ["repo_1.git"]
    async with cloner(tmp_path) as git:
        assert len((await walked(git, location, head)).commits) == 30
        assert (await git.read("repo_1", location, head.commit, "src/part_0/module_0.py")).text.startswith("# module 0")


@pytest.mark.slow
async def test_a_second_fetch_brings_what_is_new_and_drops_what_went(
    tmp_path: Path, repo: GitRepo, server: GitServer
) -> None:
    work = GitRepo.clone(repo, tmp_path / "work")
    work.run("push", "-q", "origin", "HEAD:refs/heads/feature", "HEAD:refs/tags/v1")
    location = parse_location(server.url("project.git"))
    async with cloner(tmp_path, server.place) as git:
        first = await git.fetch("repo_1", location)
        assert [tag.name for tag in await git.tags("repo_1", location, first)] == ["v1"]
        assert (await git.fetch("repo_1", location, branch="feature")).commit == first.commit
        work.run("reset", "-q", "--hard", "HEAD~2")
        rewritten = work.commit("Instead", {"new.txt": "x\n"})
        work.force_push(repo)
        work.run("push", "-q", "origin", ":refs/heads/feature", ":refs/tags/v1")
        second = await git.fetch("repo_1", location)
        assert second.commit == rewritten
        assert await git.tags("repo_1", location, second) == []
        with pytest.raises(GitFailed, match="no branch 'feature'; it has main"):
            await git.fetch("repo_1", location, branch="feature")
        shas = repo.run("rev-list", first.commit).split()
        read = await walked(git, location, second, known_head=first.commit, known=shas)
    assert [commit.sha for commit in read.commits] == [rewritten]
    assert len(read.removed) == 2


@pytest.mark.slow
async def test_an_empty_repository_can_be_cloned_and_filled_later(tmp_path: Path, server: GitServer) -> None:
    bare = GitRepo(tmp_path / "served" / "empty.git", bare=True, branch="trunk")
    location = parse_location(server.url("empty.git"))
    async with cloner(tmp_path, server.place) as git:
        assert (await git.fetch("repo_1", location)).commit == ""
        commit = bare.grow(2, branch="trunk")
        head = await git.fetch("repo_1", location)
        assert (head.branch, head.commit) == ("trunk", commit)


async def test_a_private_repository_needs_the_right_token(tmp_path: Path, repo: GitRepo, server: GitServer) -> None:
    server.login = ("robot", "s3cret-token-value")
    url = server.url("project.git")
    async with cloner(tmp_path, server.place) as git:
        nobody = await fails(git, url)
        assert nobody.code == "unauthorized"
        assert "--key-from" in nobody.message
        wrong = await fails(git, url, credentials=Credentials("robot", credential("wrong-token", url)))
        assert wrong.code == "token_refused"
        assert "wrong-token" not in wrong.message
        head = await git.fetch(
            "repo_1", parse_location(url), credentials=Credentials("robot", credential("s3cret-token-value", url))
        )
        assert head.commit == repo.run("rev-parse", "main")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "mirrors").rglob("*") if path.is_file())
    assert b"s3cret-token-value" not in kept


async def test_internal_places_are_refused_unless_the_operator_allows_them(
    tmp_path: Path, repo: GitRepo, server: GitServer
) -> None:
    async with cloner(tmp_path) as git:
        refused = await fails(git, server.url("project.git"))
        assert refused.code == "refused_address"
        assert "HOLDFAST_FETCH_ALLOW" in refused.message
        for url in ("git://10.0.0.1/x.git", "https://localhost/x.git", "https://169.254.169.254/x.git"):
            assert (await fails(git, url)).code == "refused_address", url
    assert server.requests == []
    assert left(tmp_path) == []


async def test_a_redirect_is_followed_only_where_it_may_lead(tmp_path: Path, repo: GitRepo, server: GitServer) -> None:
    async with cloner(tmp_path, server.place) as git:
        server.redirect = "http://10.0.0.1{path}"
        assert (await fails(git, server.url("moved.git"))).code == "refused_address"
        server.redirect = "file:///etc/passwd"
        assert (await fails(git, server.url("moved.git"))).code == "refused_address"

        def once(handler: BaseHTTPRequestHandler) -> bool:
            if not handler.path.startswith("/moved.git"):
                return False
            handler.send_response(301)
            handler.send_header("Location", handler.path.replace("/moved.git", "/project.git"))
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return True

        server.redirect, server.answer_with = "", once
        head = await git.fetch("repo_1", parse_location(server.url("moved.git")))
        assert head.commit == repo.run("rev-parse", "main")


async def test_a_token_never_follows_a_redirect_to_another_host(
    tmp_path: Path, repo: GitRepo, server: GitServer
) -> None:
    with git_server(tmp_path / "served") as other:
        server.redirect = f"http://127.0.0.1:{other.port}{{path}}"
        async with cloner(tmp_path, server.place, other.place) as git:
            url = server.url("project.git")
            failure = await fails(git, url, credentials=Credentials("", credential("s3cret-token-value", url)))
            assert failure.code == "redirected"
            assert f"127.0.0.1:{other.port}/project.git" in failure.message
            assert other.requests == []
            # Without a token there is nothing to lose.
            assert (await git.fetch("repo_1", parse_location(url))).commit


async def test_a_token_is_not_sent_in_clear_to_strangers(tmp_path: Path) -> None:
    async with cloner(tmp_path) as git:
        for url in ("http://git.example.org/x.git", "git://git.example.org/x.git"):
            failure = await fails(git, url, credentials=Credentials("", credential("token", url)))
            assert failure.code == "insecure"
            assert "https://" in failure.message


async def test_what_is_not_there_is_told_apart_from_what_is_no_repository(
    tmp_path: Path, repo: GitRepo, server: GitServer
) -> None:
    async with cloner(tmp_path, server.place) as git:
        assert (await fails(git, server.url("nothing.git"))).code == "not_found"

        def page(handler: BaseHTTPRequestHandler) -> bool:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/html")
            handler.send_header("Content-Length", "2")
            handler.end_headers()
            handler.wfile.write(b"hi")
            return True

        server.answer_with = page
        assert (await fails(git, server.url("project.git"))).code == "not_a_repository"
        ssh = await fails(git, "git@git.example.org:owner/name.git")
        assert ssh.code == "ssh_unsupported"
        assert "https://git.example.org/owner/name.git" in ssh.message
        gone = await fails(git, "https://nowhere.invalid/x.git")
        assert gone.code == "unreachable"


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def _stall(handler: BaseHTTPRequestHandler, released: threading.Event, begun: threading.Event) -> bool:
    """Answer a fetch with the beginning of an answer, and then nothing."""
    if handler.command != "POST":
        return False
    handler.send_response(200)
    handler.send_header("Content-Type", "application/x-git-upload-pack-result")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(_chunk(b"0008NAK\n" + b"0009\x02wait"))
    handler.wfile.flush()
    begun.set()
    released.wait(60)
    handler.close_connection = True
    return True


@pytest.mark.slow
async def test_a_server_that_never_ends_is_left_in_time(tmp_path: Path, repo: GitRepo, server: GitServer) -> None:
    released, begun = threading.Event(), threading.Event()
    server.answer_with = lambda handler: _stall(handler, released, begun)
    try:
        async with cloner(tmp_path, server.place, limits=GitLimits(clone_seconds=2)) as git:
            failure = await fails(git, server.url("project.git"))
        assert failure.code == "too_slow"
        assert "clone it yourself" in failure.message
    finally:
        released.set()
    assert left(tmp_path) == []


async def test_a_server_that_sends_without_end_is_cut_off(tmp_path: Path, repo: GitRepo, server: GitServer) -> None:
    def flood(handler: BaseHTTPRequestHandler) -> bool:
        if handler.command != "POST":
            return False
        handler.send_response(200)
        handler.send_header("Content-Type", "application/x-git-upload-pack-result")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        line = b"1004\x02" + b"x" * 4_095
        try:
            handler.wfile.write(_chunk(b"0008NAK\n"))
            while True:
                handler.wfile.write(_chunk(line * 16))
        except OSError:
            handler.close_connection = True
        return True

    server.answer_with = flood
    async with cloner(tmp_path, server.place, limits=GitLimits(clone_bytes=3_000_000)) as git:
        failure = await fails(git, server.url("project.git"))
    assert failure.code == "too_large", failure.message
    assert left(tmp_path) == []


@pytest.mark.slow
async def test_fetches_of_one_repository_wait_for_each_other(tmp_path: Path, repo: GitRepo, server: GitServer) -> None:
    location = parse_location(server.url("project.git"))
    async with cloner(tmp_path, server.place) as git, cloner(tmp_path, server.place) as other:
        heads = await asyncio.gather(
            git.fetch("repo_1", location), git.fetch("repo_1", location), other.fetch("repo_1", location)
        )
    assert len({head.commit for head in heads}) == 1
    assert left(tmp_path) == ["repo_1.git"]


async def test_what_a_killed_fetch_left_in_a_mirror_is_in_nobodys_way(
    tmp_path: Path, repo: GitRepo, server: GitServer
) -> None:
    location = parse_location(server.url("project.git"))
    async with cloner(tmp_path, server.place) as git:
        await git.fetch("repo_1", location)
        mirror = tmp_path / "mirrors" / "repo_1.git"
        for name in ("refs/heads/main.lock", "HEAD.lock", "packed-refs.lock", "objects/pack/pack_half_done"):
            (mirror / name).write_bytes(b"")
        commit = repo.grow(31)
        assert (await git.fetch("repo_1", location)).commit == commit
        assert not list(mirror.rglob("*half_done"))
        await git.forget("repo_1")
        await git.forget("repo_1")
        assert list((tmp_path / "mirrors").iterdir()) == []


_CLONE = """
import asyncio, sys
from pathlib import Path
from holdfast.engines.git.transport.address import parse_location
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.transport.tunnel import Rules
directory, url, place = sys.argv[1:]
asyncio.run(GitEngine(Path(directory), Rules(allow_private=(place,))).fetch("repo_1", parse_location(url)))
"""


def _cloning_processes() -> list[int]:
    """The processes of this machine that clone."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"engines.git.transport.cloning" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.slow
@pytest.mark.contract("KS-2")
async def test_a_clone_killed_midway_leaves_nothing_in_the_way_of_the_next(
    tmp_path: Path, repo: GitRepo, server: GitServer
) -> None:
    released, begun = threading.Event(), threading.Event()
    server.answer_with = lambda handler: _stall(handler, released, begun)
    url = server.url("project.git")
    process = subprocess.Popen([sys.executable, "-c", _CLONE, str(tmp_path / "mirrors"), url, server.place])
    try:
        assert await asyncio.to_thread(begun.wait, 60)
        children = [pid for pid in _cloning_processes() if _parent(pid) == process.pid]
        assert len(children) == 1
        assert [name.endswith(".cloning") for name in left(tmp_path)] == [True]
        process.kill()
        process.wait()
        async with asyncio.timeout(30):
            while _is_running(children[0]):
                await asyncio.sleep(0.02)
    finally:
        process.kill()
        process.wait()
        released.set()
    server.answer_with = None
    async with cloner(tmp_path, server.place) as git:
        head = await git.fetch("repo_1", parse_location(url))
    assert head.commit == repo.run("rev-parse", "main")
    assert left(tmp_path) == ["repo_1.git"]


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def test_cancelling_a_clone_ends_its_process(tmp_path: Path, repo: GitRepo, server: GitServer) -> None:
    released, begun = threading.Event(), threading.Event()
    server.answer_with = lambda handler: _stall(handler, released, begun)
    try:
        async with cloner(tmp_path, server.place) as git:
            task = asyncio.create_task(git.fetch("repo_1", parse_location(server.url("project.git"))))
            assert await asyncio.to_thread(begun.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    finally:
        released.set()
    assert not [pid for pid in _cloning_processes() if _parent(pid) == os.getpid()]
    assert left(tmp_path) == []
