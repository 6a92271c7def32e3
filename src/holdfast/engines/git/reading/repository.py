"""Owns opening a repository safely and saying its names, messages and moments in text. Runs in the child."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import ConfigLevel, RepositoryOpenFlag

from holdfast.engines.extract.text import clean
from holdfast.engines.git.transport.address import BadLocation, parse_location

_WINDOW_BYTES = 8 * 1024 * 1024
_MAPPED_BYTES = 64 * 1024 * 1024
_CACHED_BYTES = 4 * 1024 * 1024
"""Of objects as they are stored; parsed they take three times that, and a walk asks for most of them once."""
_OPEN_PACKS = 100
_COMMON_BRANCHES = ("main", "master", "trunk", "develop")
_MAX_NAMED = 10
_NO_WORDS = frozenset({"undefined", "idna", "punycode", "unicode-escape", "raw-unicode-escape"})
"""Codecs that are no encodings of texts; some take minutes for a long one."""
_HINT = "Give the directory that holds .git, or a bare repository."


class ReadingProblem(Exception):
    """A failure in words: `code` says which kind, the text what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def prepare() -> None:
    """Bound libgit2's memory and keep it from reading anybody's configuration."""
    settings = pygit2.settings
    settings.mwindow_size = _WINDOW_BYTES
    settings.mwindow_mapped_limit = _MAPPED_BYTES
    settings.mwindow_file_limit = _OPEN_PACKS
    settings.cache_max_size(_CACHED_BYTES)
    # Objects were hashed when they came and carry a checksum besides; hashing each again is a fifth of a walk.
    settings.enable_strict_hash_verification(False)
    # Nothing in a repository is run here, so it does not matter whose it is.
    settings.owner_validation = False
    for level in (ConfigLevel.SYSTEM, ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.PROGRAMDATA):
        settings.search_path[level] = ""


def open_repository(path: str) -> pygit2.Repository:
    """The repository at a path: bare, with a working tree or a linked one; the working tree is not looked at."""
    try:
        return pygit2.Repository(path, RepositoryOpenFlag.BARE | RepositoryOpenFlag.NO_SEARCH)
    except (pygit2.GitError, KeyError):
        pass
    try:
        return pygit2.Repository(path, RepositoryOpenFlag.NO_SEARCH)
    except (pygit2.GitError, KeyError) as error:
        if "object format" in str(error) or "extension" in str(error):
            why = f"The repository at {path} is of a kind that can't be read yet: {error}."
            raise ReadingProblem("unsupported", why) from None
        raise ReadingProblem("not_a_repository", f"There is no git repository at {path}. {_HINT}") from None


def branches(repo: pygit2.Repository) -> Iterator[str]:
    """The names of all branches that are text."""
    for raw in repo.raw_listall_references():
        if raw.startswith(b"refs/heads/"):
            try:
                yield raw.removeprefix(b"refs/heads/").decode()
            except UnicodeDecodeError:
                continue


def find_head(repo: pygit2.Repository, branch: str) -> dict[str, Any]:
    """Where the repository stands on a branch; without one, on what its HEAD names."""
    name, commit = _named(repo, branch) if branch and branch != "HEAD" else _followed(repo)
    return {
        "branch": name,
        "commit": str(commit.id) if commit is not None else "",
        "shallow": bool(repo.is_shallow),
        "origin": _origin(repo),
    }


def _named(repo: pygit2.Repository, branch: str) -> tuple[str, pygit2.Commit]:
    for prefix in ("refs/heads/", "refs/remotes/origin/"):
        if commit := _commit_of(repo, prefix + branch):
            return branch, commit
    known = sorted(branches(repo))
    there = f"it has {', '.join(known[:_MAX_NAMED])}" if known else "it has no branch yet"
    more = f" and {len(known) - _MAX_NAMED} more" if len(known) > _MAX_NAMED else ""
    raise ReadingProblem("no_such_branch", f"The repository has no branch {branch!r}; {there}{more}.")


def _followed(repo: pygit2.Repository) -> tuple[str, pygit2.Commit | None]:
    if commit := _commit_of(repo, "HEAD"):
        if repo.head_is_detached:
            return "HEAD", commit
        return repo.head.shorthand, commit
    # HEAD may name a branch that nobody ever pushed.
    known = set(branches(repo))
    for name in (*_COMMON_BRANCHES, *sorted(known)):
        if name in known and (commit := _commit_of(repo, f"refs/heads/{name}")):
            return name, commit
    return "", None


def _commit_of(repo: pygit2.Repository, reference: str) -> pygit2.Commit | None:
    try:
        return repo.lookup_reference(reference).resolve().peel(pygit2.Commit)
    except (pygit2.GitError, KeyError, ValueError):
        return None


def _origin(repo: pygit2.Repository) -> str:
    try:
        location = parse_location(repo.config["remote.origin.url"] or "")
    except (KeyError, BadLocation, UnicodeDecodeError, pygit2.GitError):
        return ""
    return "" if location.is_local else location.text


def shallow_roots(repo: pygit2.Repository) -> frozenset[str]:
    """The commits where a shallow clone was cut off; what they changed is not known."""
    if not repo.is_shallow:
        return frozenset()
    # A linked working tree keeps it where all of them share.
    for directory in (Path(repo.path), Path(repo.path).parent.parent):
        try:
            return frozenset((directory / "shallow").read_text("ascii").split())
        except (OSError, UnicodeDecodeError):
            continue
    return frozenset()


def find_commit(repo: pygit2.Repository, sha: str) -> pygit2.Commit:
    """The commit of a hash or the beginning of one."""
    try:
        found = repo.get(sha) if len(sha) == 40 else repo[sha]
        if found is None:
            raise KeyError(sha)
        return found.peel(pygit2.Commit)
    except (KeyError, ValueError, pygit2.GitError):
        raise ReadingProblem("no_such_commit", sha) from None


def spell(raw: bytes) -> str:
    """A path as text; bytes that are not UTF-8 are written as escapes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace")


def declared_encoding(commit: pygit2.Commit) -> str | None:
    """The encoding that a commit names for its words, where that is a name at all."""
    try:
        return commit.message_encoding
    except UnicodeDecodeError:
        return None


def words(raw: bytes, encoding: str | None) -> str:
    """A message or a name: by its declared encoding, else UTF-8, else Latin-1; without what no store can hold."""
    if encoding:
        try:
            if codecs.lookup(encoding).name.replace("_", "-") not in _NO_WORDS:
                return clean(raw.decode(encoding))
        except (LookupError, ValueError):
            pass
    try:
        return clean(raw.decode())
    except UnicodeDecodeError:
        return clean(raw.decode("latin-1"))
