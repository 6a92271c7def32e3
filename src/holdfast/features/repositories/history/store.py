"""Owns the SQL of what git knows of a repository: commits, tags, the files at the head and what they define."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import orjson

from holdfast.engines.git.model import Commit, File, FileChange, Tag
from holdfast.features.repositories.model import FoundSymbol, KnownFile
from holdfast.storage.database import Row, Tx

_COMMIT = """sha, parents, author, email, authored_at, committed_at, subject, body, changes, more_changes
FROM repository_commit"""
_SYMBOL = "repository_id, name, kind, container, path, start_line, end_line FROM repository_symbol"
_FILE = "path, blob, kind, language, size, lines, passages FROM repository_file"
_AT_ONCE = 500
"""Parameters in one statement."""
_INTRODUCTIONS = ("readme", "index.", "__init__.", "mod.rs", "main.", "doc.go", "package-info.")
"""What names of files that introduce their directory begin with."""

T = TypeVar("T")


# Commits


def put_commits(tx: Tx, repository_id: str, commits: Sequence[Commit]) -> None:
    """Keep commits; those that are known stay as they are."""
    tx.many(
        "INSERT INTO repository_commit (repository_id, sha, parents, author, email, authored_at, committed_at, "
        "subject, body, changes, more_changes) VALUES (:repository, :sha, :parents, :author, :email, :authored_at, "
        ":committed_at, :subject, :body, :changes, :more_changes) ON CONFLICT (repository_id, sha) DO NOTHING",
        [
            {
                "repository": repository_id,
                "sha": commit.sha,
                "parents": " ".join(commit.parents),
                "author": _clean(commit.author),
                "email": _clean(commit.email),
                "authored_at": commit.authored_at,
                "committed_at": commit.committed_at,
                "subject": _clean(commit.subject),
                "body": _clean(commit.body),
                "changes": _changes_json(commit.changes),
                "more_changes": commit.more_changes,
            }
            for commit in commits
        ],
    )


def delete_commits(tx: Tx, repository_id: str, shas: Sequence[str]) -> None:
    """Forget commits that the branch no longer has."""
    tx.many(
        "DELETE FROM repository_commit WHERE repository_id = :repository AND sha = :sha",
        [{"repository": repository_id, "sha": sha} for sha in shas],
    )


def shas(tx: Tx, repository_id: str) -> list[str]:
    """Every commit that is kept."""
    rows = tx.all("SELECT sha FROM repository_commit WHERE repository_id = :id", {"id": repository_id})
    return [str(row["sha"]) for row in rows]


def known(tx: Tx, repository_id: str, wanted: Sequence[str]) -> set[str]:
    """Those of these hashes that are kept."""
    found: set[str] = set()
    for some in _batches(dict.fromkeys(wanted)):
        params: dict[str, Any] = {f"sha_{index}": sha for index, sha in enumerate(some)}
        within = ", ".join(f":{name}" for name in params)
        rows = tx.all(
            f"SELECT sha FROM repository_commit WHERE repository_id = :repository AND sha IN ({within})",
            {**params, "repository": repository_id},
        )
        found |= {str(row["sha"]) for row in rows}
    return found


def count_commits(tx: Tx, repository_id: str) -> int:
    """How many commits are kept."""
    row = tx.one("SELECT COUNT(*) AS n FROM repository_commit WHERE repository_id = :id", {"id": repository_id})
    return int(row["n"]) if row else 0


def commits(tx: Tx, repository_id: str, wanted: Sequence[str]) -> list[Commit]:
    """The commits of these hashes, in their order; those that are not kept are left out."""
    found: dict[str, Commit] = {}
    for some in _batches(dict.fromkeys(wanted)):
        params: dict[str, Any] = {f"sha_{index}": sha for index, sha in enumerate(some)}
        within = ", ".join(f":{name}" for name in params)
        rows = tx.all(
            f"SELECT {_COMMIT} WHERE repository_id = :repository AND sha IN ({within})",
            {**params, "repository": repository_id},
        )
        found |= {str(row["sha"]): _commit(row) for row in rows}
    return [found[sha] for sha in dict.fromkeys(wanted) if sha in found]


def commits_at(tx: Tx, repository_id: str, moments: Sequence[int]) -> list[Commit]:
    """The commits of these moments."""
    found: list[Commit] = []
    for some in _batches(dict.fromkeys(moments)):
        params: dict[str, Any] = {f"moment_{index}": moment for index, moment in enumerate(some)}
        within = ", ".join(f":{name}" for name in params)
        rows = tx.all(
            f"SELECT {_COMMIT} WHERE repository_id = :repository AND committed_at IN ({within})",
            {**params, "repository": repository_id},
        )
        found += map(_commit, rows)
    return found


def commits_by_prefix(tx: Tx, repository_id: str, prefix: str, limit: int = 5) -> list[Commit]:
    """The commits whose hash begins so."""
    start = prefix.lower()
    rows = tx.all(
        f"SELECT {_COMMIT} WHERE repository_id = :repository AND sha >= :start AND sha < :stop "
        "ORDER BY sha LIMIT :limit",
        {"repository": repository_id, "start": start, "stop": start + "g", "limit": limit},
    )
    return [_commit(row) for row in rows]


def commits_of_change(tx: Tx, repository_id: str, number: str, limit: int = 2) -> list[Commit]:
    """The commits whose subject ends with the number of the change that brought them, oldest first."""
    rows = tx.all(
        f"SELECT {_COMMIT} WHERE repository_id = :repository AND subject LIKE :named "
        "ORDER BY committed_at, sha LIMIT :limit",
        {"repository": repository_id, "named": f"%(#{number})%", "limit": limit},
    )
    return [_commit(row) for row in rows]


def page_commits(
    tx: Tx, repository_id: str, *, before: tuple[int, str] | None = None, limit: int = 500
) -> list[Commit]:
    """Commits, newest first, from a position (committed_at, sha) on."""
    older = "" if before is None else " AND (committed_at, sha) < (:moment, :last)"
    params: dict[str, Any] = {"repository": repository_id, "limit": limit}
    if before is not None:
        params |= {"moment": before[0], "last": before[1]}
    rows = tx.all(
        f"SELECT {_COMMIT} WHERE repository_id = :repository{older} ORDER BY committed_at DESC, sha DESC LIMIT :limit",
        params,
    )
    return [_commit(row) for row in rows]


def first_commit(tx: Tx, repository_id: str) -> Commit | None:
    """The commit that is older than all others."""
    row = tx.one(
        f"SELECT {_COMMIT} WHERE repository_id = :repository ORDER BY committed_at, authored_at, sha LIMIT 1",
        {"repository": repository_id},
    )
    return _commit(row) if row else None


def authors(tx: Tx, repository_id: str, limit: int) -> list[tuple[str, int, str]]:
    """Who wrote most commits, merges left out: name, how many, and the hash of one of them."""
    rows = tx.all(
        "SELECT author, COUNT(*) AS written, MAX(sha) AS one FROM repository_commit "
        "WHERE repository_id = :repository AND LENGTH(parents) <= 64 GROUP BY author "
        "ORDER BY written DESC, author LIMIT :limit",
        {"repository": repository_id, "limit": limit},
    )
    return [(str(row["author"]), int(row["written"]), str(row["one"])) for row in rows]


# Tags


def put_tags(tx: Tx, repository_id: str, tags: Sequence[Tag]) -> None:
    """Make the tags those given."""
    tx.execute("DELETE FROM repository_tag WHERE repository_id = :id", {"id": repository_id})
    tx.many(
        "INSERT INTO repository_tag (repository_id, name, sha, tagged_at, message) "
        "VALUES (:repository, :name, :sha, :tagged_at, :message) ON CONFLICT DO NOTHING",
        [
            {
                "repository": repository_id,
                "name": _clean(tag.name),
                "sha": tag.sha,
                "tagged_at": tag.tagged_at,
                "message": _clean(tag.message),
            }
            for tag in tags
        ],
    )


def tags(tx: Tx, repository_id: str) -> list[Tag]:
    """The tags, newest first."""
    rows = tx.all(
        "SELECT name, sha, tagged_at, message FROM repository_tag WHERE repository_id = :id "
        "ORDER BY tagged_at DESC, name",
        {"id": repository_id},
    )
    return [Tag(row["name"], row["sha"], row["tagged_at"], row["message"]) for row in rows]


# Files and symbols


def put_files(tx: Tx, repository_id: str, files: Sequence[File]) -> None:
    """Keep files and what they define, instead of what was known of them."""
    delete_files(tx, repository_id, [file.path for file in files])
    tx.many(
        "INSERT INTO repository_file (repository_id, path, name, blob, kind, language, size, lines, passages) "
        "VALUES (:repository, :path, :name, :blob, :kind, :language, :size, :lines, :passages)",
        [
            {
                "repository": repository_id,
                "path": file.path,
                "name": file.path.rsplit("/", 1)[-1].lower(),
                "blob": file.blob,
                "kind": file.kind,
                "language": file.language,
                "size": file.size,
                "lines": file.lines,
                "passages": len(file.passages),
            }
            for file in files
        ],
    )
    tx.many(
        "INSERT INTO repository_symbol (repository_id, path, number, folded, name, kind, container, start_line, "
        "end_line) VALUES (:repository, :path, :number, :folded, :name, :kind, :container, :start_line, :end_line)",
        [
            {
                "repository": repository_id,
                "path": file.path,
                "number": number,
                "folded": _clean(symbol.name).lower(),
                "name": _clean(symbol.name),
                "kind": symbol.kind,
                "container": _clean(symbol.container),
                "start_line": symbol.start_line,
                "end_line": symbol.end_line,
            }
            for file in files
            for number, symbol in enumerate(file.symbols)
        ],
    )


def delete_files(tx: Tx, repository_id: str, paths: Sequence[str]) -> None:
    """Forget files; what they define goes with them."""
    tx.many(
        "DELETE FROM repository_file WHERE repository_id = :repository AND path = :path",
        [{"repository": repository_id, "path": path} for path in paths],
    )


def blobs(tx: Tx, repository_id: str) -> dict[str, str]:
    """Path → blob of every file that is kept."""
    rows = tx.all("SELECT path, blob FROM repository_file WHERE repository_id = :id", {"id": repository_id})
    return {str(row["path"]): str(row["blob"]) for row in rows}


def files(tx: Tx, repository_id: str) -> list[KnownFile]:
    """Every file at the head, by path."""
    rows = tx.all(f"SELECT {_FILE} WHERE repository_id = :id ORDER BY path", {"id": repository_id})
    return [KnownFile(**row) for row in rows]


def files_named(tx: Tx, repository_id: str, path: str, limit: int = 10) -> list[KnownFile]:
    """The files whose path is this, or ends with it as whole parts."""
    wanted = path.strip("/")
    name = wanted.rsplit("/", 1)[-1].lower()
    rows = tx.all(
        f"SELECT {_FILE} WHERE repository_id = :repository AND name = :name ORDER BY LENGTH(path), path LIMIT 1000",
        {"repository": repository_id, "name": name},
    )
    found = [KnownFile(**row) for row in rows]
    return [file for file in found if f"/{file.path}".lower().endswith(f"/{wanted}".lower())][:limit]


def files_stemmed(tx: Tx, repository_id: str, path: str, limit: int = 10) -> list[KnownFile]:
    """The files whose path without extension is this, or ends with it as whole parts, shortest path first."""
    folder, _, stem = path.strip("/").lower().rpartition("/")
    rows = tx.all(
        f"SELECT {_FILE} WHERE repository_id = :repository AND name LIKE :named ESCAPE '\\' "
        "ORDER BY LENGTH(path), path LIMIT 1000",
        {"repository": repository_id, "named": f"{_literal(stem)}.%"},
    )
    found = [KnownFile(**row) for row in rows]
    within = f"/{folder}" if folder else ""
    return [file for file in found if f"/{file.path.lower().rpartition('/')[0]}".endswith(within)][:limit]


def files_below(tx: Tx, repository_id: str, directory: str, limit: int = 10) -> list[KnownFile]:
    """The files right in a directory of this path or end of one, what introduces it first."""
    wanted = f"/{directory.strip('/').lower()}"
    rows = tx.all(
        f"SELECT {_FILE} WHERE repository_id = :repository AND lower(path) LIKE :below ESCAPE '\\' "
        "ORDER BY LENGTH(path), path LIMIT 1000",
        {"repository": repository_id, "below": f"%{_literal(wanted[1:])}/%"},
    )
    found = [KnownFile(**row) for row in rows]
    inside = [file for file in found if f"/{file.path.lower().rpartition('/')[0]}".endswith(wanted)]
    return sorted(inside, key=lambda file: not file.path.lower().rpartition("/")[2].startswith(_INTRODUCTIONS))[:limit]


def _literal(text: str) -> str:
    """Words for LIKE that stand for themselves."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def count_files(tx: Tx, repository_id: str) -> int:
    """How many files the head has."""
    row = tx.one("SELECT COUNT(*) AS n FROM repository_file WHERE repository_id = :id", {"id": repository_id})
    return int(row["n"]) if row else 0


def count_below(tx: Tx, repository_id: str, prefix: str) -> int:
    """How many files lie below a directory, given with its slash."""
    row = tx.one(
        "SELECT COUNT(*) AS n FROM repository_file WHERE repository_id = :id AND SUBSTR(path, 1, :length) = :prefix",
        {"id": repository_id, "length": len(prefix), "prefix": prefix},
    )
    return int(row["n"]) if row else 0


def symbols(tx: Tx, repository_id: str, names: Sequence[str], limit: int = 20) -> list[FoundSymbol]:
    """What is defined under these names, whatever their case, shortest path first."""
    found: list[FoundSymbol] = []
    for some in _batches(dict.fromkeys(name.lower() for name in names)):
        params: dict[str, Any] = {f"name_{index}": name for index, name in enumerate(some)}
        within = ", ".join(f":{name}" for name in params)
        rows = tx.all(
            f"SELECT {_SYMBOL} WHERE repository_id = :repository AND folded IN ({within}) "
            "ORDER BY LENGTH(path), path, start_line LIMIT :limit",
            {**params, "repository": repository_id, "limit": limit},
        )
        found += [FoundSymbol(**row) for row in rows]
    return found[:limit]


def largest_symbols(tx: Tx, repository_id: str, limit: int) -> list[FoundSymbol]:
    """What stands by itself in a file, the longest definitions first."""
    rows = tx.all(
        f"SELECT {_SYMBOL} WHERE repository_id = :repository AND container = '' "
        "ORDER BY end_line - start_line DESC, path, start_line LIMIT :limit",
        {"repository": repository_id, "limit": limit},
    )
    return [FoundSymbol(**row) for row in rows]


def _commit(row: Row) -> Commit:
    return Commit(
        sha=row["sha"],
        parents=tuple(row["parents"].split()),
        author=row["author"],
        email=row["email"],
        authored_at=row["authored_at"],
        committed_at=row["committed_at"],
        subject=row["subject"],
        body=row["body"],
        changes=tuple(FileChange(*change) for change in orjson.loads(row["changes"])),
        more_changes=row["more_changes"],
    )


def _changes_json(changes: Sequence[FileChange]) -> str:
    rows = [[each.status, each.path, each.old_path, each.insertions, each.deletions] for each in changes]
    return orjson.dumps(rows).decode().replace("\\u0000", "")


def _clean(text: str) -> str:
    """Neither store keeps NUL in a text."""
    return text.replace("\0", "")


def _batches(values: "Sequence[T] | dict[T, None]") -> Iterator[list[T]]:
    left = iter(values)
    while some := list(islice(left, _AT_ONCE)):
        yield some
