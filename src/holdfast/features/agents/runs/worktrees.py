"""Owns a session's worktree: the repository's objects put there at the start, and what changed read at the end.

Git of ours never runs in a directory that an agent wrote to: its settings and hooks would run as us. Whatever needs git
runs in a sandbox of its own, without network, and what it leaves is read as plain bytes.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.transport.address import parse_location
from holdfast.engines.runners.base import WORKTREE
from holdfast.engines.runners.surroundings import TRUSTED_DIRECTORIES
from holdfast.engines.runtime.base import Mounted, RunLimits, RunSpec, Runtime
from holdfast.features.agents.runs.places import SessionPlace, fresh, read_below
from holdfast.features.agents.sessions.model import AgentSession
from holdfast.features.repositories.model import Repository
from holdfast.features.secrets.masking import SecretMask

OUT = "/out"
"""Where a look at the worktree puts what it found."""
PATCH_BYTES = 2_000_000
PACK_BYTES = 256 * 1024 * 1024
HISTORY_BYTES = 64 * 1024 * 1024
"""What is looked through for secrets of what a session committed."""
_FILES_BYTES = 16 * 1024 * 1024
_MOST_FILES = 2_000
_SECONDS = 300.0
_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    **TRUSTED_DIRECTORIES,
    "GIT_AUTHOR_NAME": "Holdfast agent",
    "GIT_AUTHOR_EMAIL": "agent@holdfast.invalid",
    "GIT_COMMITTER_NAME": "Holdfast agent",
    "GIT_COMMITTER_EMAIL": "agent@holdfast.invalid",
}
_BEGIN = """set -e
cd /work
git -c core.hooksPath=/dev/null reset --hard --quiet HEAD
"""
# What was not committed is part of the result, so it is committed last: beside the agent's own repository, in one that
# borrows its objects. None of its settings, hooks, filters, replaced or grafted objects have a say in what is told.
_COLLECT = r"""set -e
cd /work
theirs=/work/.git head=
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/nowhere
if [ -n "$BASE" ]; then
  [ -f .git ] && theirs=$(git rev-parse --absolute-git-dir)
  head=$(git --git-dir="$theirs" rev-parse --verify --quiet 'HEAD^{commit}') || true
  objects=$(realpath -e "$(git --git-dir="$theirs" rev-parse --git-path objects)") || {
    echo "Its repository is gone or broken." >/out/problem
    exit 0
  }
fi
export GIT_DIR=/out/git GIT_WORK_TREE=/work
git init --quiet --object-format="$FORMAT"
find . -mindepth 1 -path ./.git -prune -o -type d ! -perm -700 -exec chmod u+rwx {} \; \
  -o -type f ! -perm -400 -exec chmod u+r {} + || true
if [ -n "$BASE" ]; then
  echo "$objects" >/out/git/objects/info/alternates
  git cat-file -e "$BASE^{commit}"
  if [ -f "$theirs/info/exclude" ]; then cp "$theirs/info/exclude" /out/git/info/exclude; fi
  if [ -n "$head" ]; then
    git update-ref --no-deref HEAD "$head"
    # What its index knows of files spares reading each of them.
    if [ -f "$theirs/index" ]; then cp "$theirs/index" /out/git/index; fi
    git ls-files >/dev/null 2>&1 || { rm -f /out/git/index && git read-tree HEAD; }
  fi
else
  BASE=$(git hash-object -t tree /dev/null)
fi
add() { git -c core.safecrlf=false -c advice.addEmbeddedRepo=false add --all --ignore-errors "$@" 2>/out/added; }
if ! add .; then
  # A repository without a commit inside of it would keep all else out.
  { printf '.\0'; find . -mindepth 2 -name .git -prune -printf ':(exclude,literal)%h\0'; } >/out/paths
  cat /out/added >>/out/problem
  add --pathspec-from-file=/out/paths --pathspec-file-nul || true
fi
cat /out/added >>/out/problem
tree=$(git write-tree)
before=$(git rev-parse --verify --quiet 'HEAD^{tree}') || before=$(git hash-object -t tree /dev/null)
if [ "$tree" != "$before" ]; then
  made=$(git commit-tree ${head:+-p HEAD} -m "Work that session $SESSION left uncommitted" "$tree")
  git update-ref --no-deref HEAD "$made"
fi
git rev-parse --verify --quiet HEAD >/out/head || exit 0
git diff --ignore-submodules=none --numstat -z "$BASE" HEAD -- >/out/files
# A branch that has nothing to do with where it began is told from its own first commit on.
range="$BASE..HEAD"
git rev-list --quiet "$range" -- 2>/dev/null || range=HEAD
git log -z --format=%H%x09%s "$range" -- >/out/commits
git rev-list --count "$range" -- >/out/counted
git diff --ignore-submodules=none --binary "$BASE" HEAD -- | head -c "$PATCH" >/out/patch
if [ -n "$HISTORY" ]; then
  # Raw for headers; each merge against each parent, since it may hold what none of them has.
  { git log --format=raw "$range" --; git log -m --text --patch --format=%an%n%ae%n%cn%n%ce%n%B "$range" --; } |
    head -c "$HISTORY" >/out/history
fi
if [ -n "$PACK" ] && [ "$(git rev-parse HEAD)" != "$BASE" ]; then
  { git rev-parse HEAD; echo "^$BASE"; } | git pack-objects --quiet --revs --stdout >/out/made
  git index-pack -o /out/index /out/made >/dev/null
fi
"""


class WorktreeFailed(HoldfastError):
    """A worktree could not be made or read; the message has git's last words."""

    code = "worktree_failed"


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that a session changed: lines added and removed, None in one that is no text."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class WorkDone:
    """What a session left in its worktree."""

    head: str | None
    patch: str
    is_cut: bool
    """Whether the patch is longer than what is kept of it."""
    files: tuple[FileDifference, ...]
    commits: tuple[tuple[str, str], ...]
    """Hash and subject, the newest first."""
    all_files: int
    all_commits: int
    """How many there are, however many of them are named."""
    packs: tuple[tuple[str, bytes], ...]
    """Its new objects, for a session that works on a case: what is verified has to be found again."""
    problem: str
    secrets: tuple[str, ...] = ()
    """What stands in place of secrets that its commits hold: such commits are kept nowhere."""


class Worktrees:
    """Makes worktrees and looks at them, each time in a sandbox."""

    def __init__(self, git: GitEngine, runtime: Runtime) -> None:
        self._git = git
        self._runtime = runtime

    async def begin(self, session: AgentSession, place: SessionPlace, repository: Repository | None) -> None:
        """The repository at the base commit, on a branch of the session's own; nothing where there is none."""
        base = session.frozen.base_commit
        if repository is None or base is None:
            return
        location = parse_location(repository.location)
        commit = await self._git.commit_id(repository.id, location, base)
        source = self._git.path(repository.id, location)
        await asyncio.to_thread(_copied, Path(source), place.work / ".git", session.branch, commit)
        said = await self._run(f"worktree {session.id}", _BEGIN, place, {}, session)
        if not (place.work / ".git" / "index").exists():
            raise WorktreeFailed(f"The repository could not be checked out at {commit[:12]}: {said[-500:]}")

    async def collect(self, session: AgentSession, place: SessionPlace, mask: SecretMask) -> WorkDone:
        """What changed since the base commit, without what nobody is to read; commits that hold it stay behind."""
        await asyncio.to_thread(fresh, place.out)
        base = session.frozen.base_commit or ""
        env = {
            "BASE": base,
            "FORMAT": "sha256" if len(base) == 64 else "sha1",
            "SESSION": session.id,
            "PATCH": str(PATCH_BYTES + 1),
            "HISTORY": str(HISTORY_BYTES) if mask else "",
            "PACK": "yes" if base and session.case_id else "",
        }
        said = await self._run(f"result of {session.id}", _COLLECT, place, env, session)
        return await asyncio.to_thread(_read, place.out, said, mask)

    async def adopt(self, session: AgentSession, work: WorkDone) -> None:
        """Keep what a session committed where its repository is read from."""
        if session.frozen.repository_id is not None and work.packs:
            await self._git.adopt(session.frozen.repository_id, work.packs)

    async def _run(
        self, name: str, script: str, place: SessionPlace, env: Mapping[str, str], session: AgentSession
    ) -> str:
        spec = RunSpec(
            name=name,
            command=("/bin/sh", "-c", f"exec 2>&1\n{script}"),
            env={**_ENV, **env},
            directory=WORKTREE,
            mounts=(Mounted(place.work, WORKTREE, writable=True), Mounted(place.out, OUT, writable=True)),
            limits=RunLimits(seconds=_SECONDS, output_bytes=1 << 20, file_bytes=PACK_BYTES),
            tenant=session.workspace_id,
            group=session.id if script == _COLLECT else None,
        )
        running = await self._runtime.start(spec)
        try:
            running.stdin.close()
            said = bytearray()
            while chunk := await running.stdout.read(65_536):
                said = (said + chunk)[-8_192:]
            await running.wait()
        finally:
            await running.stop(0)
        return said.decode("utf-8", "replace").strip()


def _copied(source: Path, target: Path, branch: str, commit: str) -> None:
    """A `.git` with a repository's objects and nothing else of it: no hooks, no settings, no other branches."""
    inside = source / ".git" if (source / ".git").is_dir() else source
    target.mkdir(mode=0o700)
    shutil.copytree(inside / "objects", target / "objects", symlinks=True, ignore=shutil.ignore_patterns("alternates"))
    for directory, names, files in os.walk(target / "objects"):
        # Objects are kept read-only; their new owner must be able to remove them.
        for name in (*names, *files):
            path = Path(directory, name)
            if not path.is_symlink():
                path.chmod(0o700 if name in names else 0o600)
    head = target / "refs" / "heads" / branch
    head.parent.mkdir(parents=True)
    head.write_text(commit + "\n")
    (target / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    long = len(commit) == 64
    version = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n" if long else "[core]\n"
    (target / "config").write_text(f"{version}[core]\n\tbare = false\n\tfilemode = true\n")


def _read(out: Path, said: str, mask: SecretMask) -> WorkDone:
    head = (read_below(out, "head", 128) or b"").decode("ascii", "replace").strip()
    patch = read_below(out, "patch", PATCH_BYTES + 1) or b""
    files = (read_below(out, "files", _FILES_BYTES) or b"").decode("utf-8", "replace")
    commits = (read_below(out, "commits", 1 << 18) or b"").decode("utf-8", "replace")
    problem = (read_below(out, "problem", 2_000) or b"").decode("utf-8", "replace").strip()
    history = (read_below(out, "history", HISTORY_BYTES) or b"").decode("utf-8", "replace") if mask else ""
    counted = (read_below(out, "counted", 20) or b"").strip()
    secrets = mask.named("\n".join((history, files, commits)))
    changes = _changes(files)
    text = mask.text(patch.decode("utf-8", "replace").replace("\0", "\ufffd"))
    return WorkDone(
        head=head or None,
        patch=text.encode()[:PATCH_BYTES].decode("utf-8", "ignore"),
        is_cut=len(patch) > PATCH_BYTES,
        files=tuple(replace(each, path=mask.text(each.path)) for each in changes[:_MOST_FILES]),
        commits=tuple(
            (line.partition("\t")[0], mask.text(line.partition("\t")[2])[:500])
            for line in commits.split("\0")[:500]
            if line
        ),
        all_files=len(changes),
        all_commits=int(counted) if counted.isdigit() else 0,
        packs=() if secrets else tuple(_packs(out)),
        problem=mask.text(problem or said)[-500:],
        secrets=tuple(secrets),
    )


def _packs(out: Path) -> Iterator[tuple[str, bytes]]:
    made, index = read_below(out, "made", PACK_BYTES), read_below(out, "index", PACK_BYTES)
    if made and index and len(made) < PACK_BYTES:
        # Packs go by a digest; which one does not matter to whoever reads them.
        name = hashlib.sha256(made).hexdigest()
        yield f"pack-{name}.pack", made
        yield f"pack-{name}.idx", index


def _changes(numstat: str) -> list[FileDifference]:
    found: list[FileDifference] = []
    parts = numstat.split("\0")
    while parts:
        columns = parts.pop(0).split("\t")
        if len(columns) != 3:
            continue
        added, removed, path = columns
        if not path and len(parts) >= 2:
            # A renamed file: its old and its new name follow.
            parts.pop(0)
            path = parts.pop(0)
        count = [int(each) if each.isdigit() else None for each in (added, removed)]
        found.append(FileDifference(path[:1_000], *count))
    return found
