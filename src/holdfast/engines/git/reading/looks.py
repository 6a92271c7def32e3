"""Owns single looks into a repository: tags, a directory, lines of a file, its log, blame, one commit. In the child."""

from collections.abc import Callable, Iterator
from typing import Any

import pygit2
from pygit2.enums import FileMode, SortMode

from holdfast.engines.extract.model import ExtractionFailed
from holdfast.engines.extract.text import clean, decode
from holdfast.engines.git.reading.commits import CommitReader, millis
from holdfast.engines.git.reading.origins import introduced
from holdfast.engines.git.reading.repository import ReadingProblem, declared_encoding, find_commit, spell, words
from holdfast.engines.git.reading.sorts import is_binary

_MOST_LINES = 400
_MOST_CHARACTERS = 60_000
_MOST_BYTES = 20_000_000
_MOST_TAGS = 20_000
_MOST_WALKED = 300_000
_MOST_NAMES = 6
_KINDS = {FileMode.TREE: "directory", FileMode.COMMIT: "submodule", FileMode.LINK: "symlink"}


def tags(repo: pygit2.Repository, limits: dict[str, Any]) -> list[list[Any]]:
    """Every tag that names a commit, oldest first."""
    found: list[list[Any]] = []
    for raw in repo.raw_listall_references():
        if not raw.startswith(b"refs/tags/") or len(found) == _MOST_TAGS:
            continue
        try:
            target = repo.lookup_reference(raw.decode()).resolve().target
            tag = repo[target]
            commit = tag.peel(pygit2.Commit)
        except (UnicodeDecodeError, pygit2.GitError, KeyError, ValueError):
            continue
        name, sha = raw.removeprefix(b"refs/tags/").decode(), str(commit.id)
        if isinstance(tag, pygit2.Tag):
            moment = tag.tagger.time if tag.tagger is not None else commit.commit_time
            message = words(tag.raw_message or b"", None).strip()[: limits["message_characters"]]
            found.append([name, sha, millis(moment), message])
        else:
            found.append([name, sha, millis(commit.commit_time), ""])
    return sorted(found, key=lambda tag: (tag[2], tag[0]))


def tree(
    repo: pygit2.Repository, limits: dict[str, Any], commit: str, path: str, recursive: bool, limit: int
) -> list[list[Any]]:
    """The names in a directory, with all that is below when asked."""
    found = entry_at(find_commit(repo, commit).tree, path)
    if not isinstance(found, pygit2.Tree):
        raise ReadingProblem("no_such_path", path)
    prefix = f"{path.strip('/')}/" if path.strip("/") else ""
    rows: list[list[Any]] = []
    for name, entry in _entries(found, prefix, recursive):
        if len(rows) == limit:
            break
        kind = _KINDS.get(FileMode(entry.filemode or 0), "file")
        size = repo.odb.read_header(entry.id)[1] if kind == "file" and entry.id in repo.odb else 0
        rows.append([name, kind, size])
    return rows


def _entries(tree: pygit2.Tree, prefix: str, recursive: bool) -> Iterator[tuple[str, pygit2.Object]]:
    for entry in tree:
        name = prefix + spell(entry.raw_name or b"")
        yield name, entry
        if recursive and isinstance(entry, pygit2.Tree):
            yield from _entries(entry, name + "/", recursive)


def read(
    repo: pygit2.Repository,
    limits: dict[str, Any],
    commit: str,
    path: str,
    start_line: int,
    end_line: int | None,
) -> list[Any]:
    """Lines of a file, cut where they are too many."""
    found = find_commit(repo, commit)
    lines = _text(repo, found, path).split("\n")
    if lines[-1] == "":
        lines.pop()
    first = max(1, start_line)
    last = min(len(lines), end_line if end_line is not None else len(lines), first + _MOST_LINES - 1)
    kept: list[str] = []
    size = 0
    for line in lines[first - 1 : last]:
        size += len(line) + 1
        if size > _MOST_CHARACTERS and kept:
            break
        kept.append(line[:_MOST_CHARACTERS])
    return [path, str(found.id), "\n".join(kept), first, first + len(kept) - 1, len(lines)]


def _text(repo: pygit2.Repository, commit: pygit2.Commit, path: str) -> str:
    entry = entry_at(commit.tree, path)
    if entry.filemode == FileMode.COMMIT:
        raise ReadingProblem("not_text", f"{path} is a submodule: its files are in another repository.")
    if isinstance(entry, pygit2.Tree):
        raise ReadingProblem("not_text", f"{path} is a directory; list it instead.")
    if repo.odb.read_header(entry.id)[1] > _MOST_BYTES:
        raise ReadingProblem("not_text", f"{path} is larger than {_MOST_BYTES // 1_000_000} MB and is not read.")
    data = repo.odb.read(entry.id)[1]
    try:
        if not is_binary(data):
            return clean(decode(data))
    except ExtractionFailed:
        pass
    raise ReadingProblem("not_text", f"{path} is binary.")


def entry_at(tree: pygit2.Tree, path: str) -> pygit2.Object:
    """What is at a path, which is spelled as `spell` writes it."""
    found: pygit2.Object = tree
    for part in path.strip("/").split("/") if path.strip("/") else ():
        if not isinstance(found, pygit2.Tree):
            raise ReadingProblem("no_such_path", path)
        found = _child(found, part, path)
    return found


def _child(tree: pygit2.Tree, part: str, path: str) -> pygit2.Object:
    try:
        return tree[part]
    except (KeyError, ValueError):
        if "\\" in part:
            for entry in tree:
                if spell(entry.raw_name or b"") == part:
                    return entry
        raise ReadingProblem("no_such_path", path) from None


def log(repo: pygit2.Repository, limits: dict[str, Any], commit: str, path: str, limit: int) -> list[list[Any]]:
    """The commits that changed a path, newest first; a file's former names are followed."""
    reader = CommitReader(repo, limits)
    start = find_commit(repo, commit)
    names = [path.strip("/")]
    entry_at(start.tree, names[0])
    rows: list[list[Any]] = []
    for number, each in enumerate(repo.walk(start.id, SortMode.TOPOLOGICAL | SortMode.TIME)):
        if len(rows) == limit or number == _MOST_WALKED:
            break
        if not names[0] or _touches(repo, reader, each, names):
            rows.append(reader.row(each))
    return rows


def _touches(repo: pygit2.Repository, reader: CommitReader, commit: pygit2.Commit, names: list[str]) -> bool:
    """Whether a commit with one parent changed a file of one of these names; a former name joins them."""
    parents = commit.parent_ids
    if len(parents) > 1:
        return False
    older = repo.get(parents[0]) if parents else None
    before = older.tree if isinstance(older, pygit2.Commit) else None
    touched = False
    for name in tuple(names):
        now, then = _id_at(commit.tree, name), _id_at(before, name) if before is not None else None
        if now == then:
            continue
        touched = True
        if then is None and before is not None and len(names) < _MOST_NAMES:
            former = _former_name(reader, commit, name)
            if former and former not in names:
                names.append(former)
    return touched


def _id_at(tree: pygit2.Tree, path: str) -> str | None:
    try:
        return str(tree[path].id)
    except (KeyError, ValueError):
        pass
    if "\\" not in path:
        return None
    try:
        return str(entry_at(tree, path).id)
    except ReadingProblem:
        return None


def _former_name(reader: CommitReader, commit: pygit2.Commit, name: str) -> str:
    for difference in reader.differences(commit):
        if spell(difference.path) == name:
            return spell(difference.old_path)
    return ""


def blame(
    repo: pygit2.Repository, limits: dict[str, Any], commit: str, path: str, start_line: int, end_line: int
) -> list[list[Any]]:
    """Runs of lines with the commit that last changed them."""
    found = find_commit(repo, commit)
    path = path.strip("/")
    text = _text(repo, found, path)
    if not text:
        return []
    # The end of the last line begins no further one.
    total = text.removesuffix("\n").count("\n") + 1
    first = max(1, start_line)
    last = min(end_line, total, first + _MOST_LINES - 1)
    if first > last:
        return []
    try:
        hunks = repo.blame(path, newest_commit=found.id, min_line=first, max_line=last)
    except (KeyError, ValueError, pygit2.GitError):
        raise ReadingProblem("not_text", f"Who wrote the lines of {path} can't be told.") from None
    runs: list[list[Any]] = []
    for hunk in hunks:
        begin = max(hunk.final_start_line_number, first)
        end = min(hunk.final_start_line_number + hunk.lines_in_hunk - 1, last)
        if begin > end:
            continue
        sha = str(hunk.final_commit_id)
        if runs and runs[-1][2] == sha and runs[-1][1] == begin - 1:
            runs[-1][1] = end
        else:
            runs.append([begin, end, *_who(repo, sha)])
    return runs


def _who(repo: pygit2.Repository, sha: str) -> list[Any]:
    commit = find_commit(repo, sha)
    encoding = declared_encoding(commit)
    subject = " ".join(words(commit.raw_message, encoding).strip().partition("\n\n")[0].split())
    name = words(commit.author.raw_name, encoding)
    return [sha, name, millis(commit.commit_time), subject[:1_000], millis(commit.author.time)]


def show(repo: pygit2.Repository, limits: dict[str, Any], sha_prefix: str) -> list[Any]:
    """A commit and its patch."""
    commit = find_commit(repo, sha_prefix)
    reader = CommitReader(repo, limits)
    row = reader.row(commit)
    pieces: list[str] = []
    size = 0
    for difference in reader.differences(commit):
        text = reader.patch(difference)
        pieces.append(text[: _MOST_CHARACTERS - size])
        size += len(text)
        if size > _MOST_CHARACTERS:
            return [row, "".join(pieces), True]
    return [row, "".join(pieces), False]


def commit_id(repo: pygit2.Repository, limits: dict[str, Any], commit: str) -> str:
    """The whole hash of a commit."""
    return str(find_commit(repo, commit).id)


LOOKS: dict[str, Callable[..., object]] = {
    "tags": tags,
    "tree": tree,
    "read": read,
    "log": log,
    "blame": blame,
    "show": show,
    "introduced": introduced,
    "commit_id": commit_id,
}
