"""Owns the proof that a process which touches a repository has given up what it could misuse."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engines.git.model import GitFailed, GitLimits
from holdfast.engines.git.transport.address import parse_location
from tests.engines.git.reading import engine, snapshot
from tests.support.code.git import GitRepo, has_git

_PROBE = """
import json, os, resource, socket, sys
from holdfast.engines.sandbox.bounds import Bounds, bind
target, file = int(sys.argv[1]), sys.argv[2]
alone = bind(Bounds(memory_bytes=500_000_000, cpu_seconds=30))
told = {"alone": alone, "limits": [resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0]
    for name in ("AS", "CPU", "FSIZE", "NOFILE", "CORE")]}
try:
    socket.create_connection(("127.0.0.1", target), timeout=5)
    told["reached"] = True
except OSError:
    told["reached"] = False
try:
    with open(file, "w") as opened:
        opened.write("x")
    told["wrote"] = True
except OSError:
    told["wrote"] = False
try:
    bytearray(600_000_000)
    told["took"] = True
except MemoryError:
    told["took"] = False
print(json.dumps(told))
"""


def test_a_bound_process_has_no_network_no_files_and_little_memory(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-c", _PROBE, str(port), str(tmp_path / "file")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    told = json.loads(done.stdout)
    assert told["limits"] == [500_000_000, 30, 0, 256, 0]
    assert not told["wrote"]
    assert not told["took"]
    # Where the kernel lets an ordinary process have a network of its own, it is alone in it.
    assert told["reached"] is not told["alone"]


_CONFINED = """
import ctypes, json, os, subprocess, sys
from pathlib import Path
from holdfast.engines.sandbox.landlock import restrict
own, precious = Path(sys.argv[1]), Path(sys.argv[2])
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
told = {"restricted": restrict(str(own))}
for name, work in {
    "write own": lambda: (own / "file").write_text("x"),
    "rename own": lambda: (own / "file").rename(own / "other"),
    "read": lambda: precious.read_text(),
    "write": lambda: precious.write_text("changed"),
    "remove": lambda: precious.unlink(),
    "run": lambda: subprocess.run(["/bin/true"], check=True),
}.items():
    try:
        work()
        told[name] = True
    except OSError:
        told[name] = False
print(json.dumps(told))
"""


def test_a_confined_process_changes_nothing_but_its_own_directory(tmp_path: Path) -> None:
    own, precious = tmp_path / "own", tmp_path / "precious"
    own.mkdir()
    precious.write_text("kept")
    command = [sys.executable, "-c", _CONFINED, str(own), str(precious)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
    if not told.pop("restricted"):
        pytest.skip("this kernel has no Landlock")
    allowed = {name for name, worked in told.items() if worked}
    assert allowed == {"write own", "rename own", "read"}
    assert precious.read_text() == "kept"


@pytest.mark.skipif(not has_git(), reason="this machine has no git to make repositories with")
async def test_the_servers_environment_is_not_given_to_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.commit("Begin", {"a.txt": "x\n"})
    other = GitRepo(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("HOLDFAST_SECRET", "s3cret")
    async with engine(tmp_path) as git:
        location = parse_location(str(repo.path))
        head = await git.fetch("repo_1", location)
        assert head.commit == repo.head
        environments = [
            (Path("/proc") / pid / "environ").read_bytes()
            for pid in os.listdir("/proc")
            if pid.isdigit() and _is_reader(Path("/proc") / pid)
        ]
    assert all(b"s3cret" not in environment for environment in environments)


def _is_reader(process: Path) -> bool:
    try:
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and os.access(process / "environ", os.R_OK)
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not has_git(), reason="this machine has no git to make repositories with")
async def test_too_little_memory_is_told_and_ends_nobody_else(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "repo")
    repo.commit("Begin", {"a.txt": "word " * 6_000_000, "b.txt": "x\n"})
    async with engine(tmp_path, GitLimits(memory_bytes=500_000_000, file_bytes=50_000_000)) as git:
        location = parse_location(str(repo.path))
        head = await git.fetch("repo_1", location)
        with pytest.raises(GitFailed) as failure:
            await snapshot(git, location, head)
        assert failure.value.code in ("too_large", "crashed", "damaged")
        assert (await git.read("repo_1", location, head.commit, "b.txt")).total_lines == 1
