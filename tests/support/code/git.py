"""Owns small real repositories for tests, made with git itself: fixed people and moments, so the same hashes always."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

BEGAN = 1_700_000_000
"""The first commit's moment in seconds; every further commit is a minute later."""
AUTHOR = "Ada Lovelace"
EMAIL = "ada@example.org"


def has_git() -> bool:
    """Whether this machine has git at all; Holdfast itself never needs it."""
    return shutil.which("git") is not None


def environment() -> dict[str, str]:
    """What git sees: nobody's configuration, nobody's identity."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
    }


class GitRepo:
    """One repository. Each `commit` is a minute after the one before and by `AUTHOR`, unless told otherwise."""

    def __init__(self, path: Path, *, bare: bool = False, branch: str = "main") -> None:
        self.path = path
        self._commits = 0
        path.mkdir(parents=True, exist_ok=True)
        self.run("init", "-q", f"--initial-branch={branch}", *(["--bare"] if bare else []))

    @classmethod
    def clone(cls, source: "GitRepo | Path | str", path: Path, *options: str) -> "GitRepo":
        """A clone by git; `--depth 1` needs a `file://` source."""
        made = cls.__new__(cls)
        made.path, made._commits = path, 0
        start = source.path if isinstance(source, GitRepo) else source
        command = ["git", "-c", "protocol.file.allow=always", "clone", "-q", *options, str(start), str(path)]
        subprocess.run(command, env=environment(), check=True, capture_output=True)
        return made

    def run(self, *arguments: str | bytes, input: bytes | None = None, who: Mapping[str, str] = {}) -> str:
        """One git command in the repository; its output without the last line end."""
        command = ["git", "-c", "protocol.file.allow=always", "-C", str(self.path), *arguments]
        done = subprocess.run(command, input=input, capture_output=True, env={**environment(), **who}, check=False)
        if done.returncode:
            raise AssertionError(f"git {arguments!r}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="surrogateescape").removesuffix("\n")

    @property
    def head(self) -> str:
        """The commit that HEAD names."""
        return self.run("rev-parse", "HEAD")

    def write(self, path: str | bytes, content: str | bytes) -> None:
        """Put a file into the working tree; a path in bytes need not be UTF-8."""
        target = os.path.join(os.fsencode(self.path), os.fsencode(path))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def link(self, path: str, target: str) -> None:
        """Put a symbolic link into the working tree."""
        (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        (self.path / path).symlink_to(target)

    def remove(self, path: str) -> None:
        """Remove a file; the next commit holds it."""
        self.run("rm", "-q", "-r", "--", path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file; the next commit holds it."""
        (self.path / new).parent.mkdir(parents=True, exist_ok=True)
        self.run("mv", "--", old, new)

    def commit(
        self,
        message: str | bytes,
        files: Mapping[str, str | bytes] | None = None,
        *,
        author: str = AUTHOR,
        email: str = EMAIL,
        seconds: int | None = None,
        encoding: str = "",
    ) -> str:
        """Commit everything in the working tree, after writing `files`; the new commit's hash."""
        for path, content in (files or {}).items():
            self.write(path, content)
        self.run("add", "-A")
        options = ["-c", f"i18n.commitEncoding={encoding}"] if encoding else []
        given = message.encode() if isinstance(message, str) else message
        self.run(
            *options,
            *("commit", "-q", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim", "-F", "-"),
            input=given,
            who=self._who(author, email, seconds),
        )
        return self.head

    def checkout(self, name: str, *, create: bool = False) -> None:
        """Switch to a branch (or a commit: a detached HEAD)."""
        self.run("checkout", "-q", *(["-b"] if create else []), name)

    def merge(self, name: str, message: str = "") -> str:
        """Merge a branch with a merge commit, always; its hash."""
        said = message or f"Merge branch '{name}'"
        self.run("merge", "-q", "--no-ff", "-m", said, name, who=self._who(AUTHOR, EMAIL, None))
        return self.head

    def tag(self, name: str, message: str = "", at: str = "HEAD") -> None:
        """A light tag, or an annotated one with a message."""
        options = ["-a", "-m", message] if message else []
        self.run("tag", *options, name, at, who=self._who(AUTHOR, EMAIL, None))

    def submodule(self, path: str, source: "GitRepo") -> None:
        """Add another repository as a submodule; the next commit holds it."""
        self.run("submodule", "--quiet", "add", str(source.path), path)

    def force_push(self, target: "GitRepo", branch: str = "main") -> None:
        """Replace a branch of a bare repository by ours."""
        self.run("push", "-q", "--force", str(target.path), f"HEAD:refs/heads/{branch}")

    def grow(self, commits: int, *, files: int = 50, branch: str = "main") -> str:
        """Add many small commits at once (fast-import), each changing one of `files` files; the last one's hash."""
        self.run("fast-import", "--quiet", "--force", input=b"".join(_stream(commits, files, branch)))
        if not self.is_bare:
            self.run("reset", "-q", "--hard", branch)
        return self.run("rev-parse", branch)

    @property
    def is_bare(self) -> bool:
        """Whether there is no working tree."""
        return self.run("rev-parse", "--is-bare-repository") == "true"

    def _who(self, author: str, email: str, seconds: int | None) -> dict[str, str]:
        self._commits += 1
        moment = f"{BEGAN + 60 * (self._commits - 1) if seconds is None else seconds} +0000"
        return {
            "GIT_AUTHOR_NAME": author,
            "GIT_AUTHOR_EMAIL": email,
            "GIT_AUTHOR_DATE": moment,
            "GIT_COMMITTER_NAME": author,
            "GIT_COMMITTER_EMAIL": email,
            "GIT_COMMITTER_DATE": moment,
        }


def _stream(commits: int, files: int, branch: str) -> Iterable[bytes]:
    """fast-import's words for a line of commits; every file grows a line each time it is touched."""
    held = [f"# module {number}\n" for number in range(files)]
    for number in range(commits):
        which = number * 7 % files
        held[which] = (held[which] + f"value_{number} = {number * 31 % 1009}\n")[-4_000:]
        message = f"Change module {which} for the {number}th time\n\nBecause value {number} was needed.\n".encode()
        content = held[which].encode()
        yield f"commit refs/heads/{branch}\ncommitter {AUTHOR} <{EMAIL}> {BEGAN + number} +0000\n".encode()
        yield b"data %d\n%s\n" % (len(message), message)
        yield b"M 100644 inline src/part_%d/module_%d.py\n" % (which % 10, which)
        yield b"data %d\n%s\n" % (len(content), content)
