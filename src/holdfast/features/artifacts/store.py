"""Owns the SQL of artifacts and their versions."""

from holdfast.features.artifacts.model import WORKSPACE_BYTES, Artifact, ArtifactReference, ArtifactVersion, ContentPart
from holdfast.storage.database import Params, Row, Tx

_COLUMNS = (
    "id, workspace_id, chat_id, identifier, title, type, language, version, size_bytes, "
    "created_by, created_at, updated_at"
)
_VERSION_COLUMNS = "version, title, size_bytes, sha256, author, created_at"


def artifact(row: Row) -> Artifact:
    """An artifact from its row."""
    return Artifact(
        id=row["id"],
        workspace_id=row["workspace_id"],
        chat_id=row["chat_id"],
        identifier=row["identifier"],
        title=row["title"],
        type=row["type"],
        language=row["language"],
        version=row["version"],
        size_bytes=row["size_bytes"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def artifact_version(row: Row) -> ArtifactVersion:
    """A version's facts from its row."""
    return ArtifactVersion(
        version=row["version"],
        title=row["title"],
        size_bytes=row["size_bytes"],
        sha256=row["sha256"],
        author=row["author"],
        created_at=row["created_at"],
    )


def insert(tx: Tx, new: Artifact) -> bool:
    """Keep a new artifact; False when its identifier is taken."""
    return (
        tx.execute(
            f"INSERT INTO artifact ({_COLUMNS}) VALUES (:id, :workspace_id, :chat_id, :identifier, :title, :type, "
            ":language, :version, :size_bytes, :created_by, :created_at, :updated_at) ON CONFLICT DO NOTHING",
            {
                "id": new.id,
                "workspace_id": new.workspace_id,
                "chat_id": new.chat_id,
                "identifier": new.identifier,
                "title": new.title,
                "type": new.type,
                "language": new.language,
                "version": new.version,
                "size_bytes": new.size_bytes,
                "created_by": new.created_by,
                "created_at": new.created_at,
                "updated_at": new.updated_at,
            },
        )
        == 1
    )


def advance(tx: Tx, artifact_id: str, *, title: str | None, size_bytes: int, now: int) -> Artifact | None:
    """Take the next version number. The row stays locked until the transaction ends, so no two take the same."""
    row = tx.one(
        "UPDATE artifact SET version = version + 1, title = COALESCE(CAST(:title AS TEXT), title), "
        f"size_bytes = :size_bytes, updated_at = :now WHERE id = :id RETURNING {_COLUMNS}",
        {"id": artifact_id, "title": title, "size_bytes": size_bytes, "now": now},
    )
    return artifact(row) if row else None


def insert_version(tx: Tx, artifact_id: str, new: ArtifactVersion, content: str) -> None:
    """Keep one version's content."""
    tx.execute(
        "INSERT INTO artifact_version (artifact_id, version, title, content, size_bytes, sha256, author, created_at) "
        "VALUES (:artifact_id, :version, :title, :content, :size_bytes, :sha256, :author, :created_at)",
        {
            "artifact_id": artifact_id,
            "version": new.version,
            "title": new.title,
            "content": content,
            "size_bytes": new.size_bytes,
            "sha256": new.sha256,
            "author": new.author,
            "created_at": new.created_at,
        },
    )


def find(tx: Tx, workspace_id: str, reference: ArtifactReference) -> Artifact | None:
    """The workspace's artifact with that id, or with that identifier in the chat or outside of chats."""
    params: dict[str, str | None] = {"workspace_id": workspace_id}
    if reference.artifact_id is not None:
        # Whoever is shown an identifier may write it where an id belongs; an id of that spelling comes first.
        where = "(id = :id OR (identifier = :id AND chat_id IS NULL)) ORDER BY CASE WHEN id = :id THEN 0 ELSE 1 END"
        params["id"] = reference.artifact_id
    elif reference.chat_id is not None:
        where = "identifier = :identifier AND chat_id = :chat_id"
        params |= {"identifier": reference.identifier, "chat_id": reference.chat_id}
    else:
        where = "identifier = :identifier AND chat_id IS NULL"
        params["identifier"] = reference.identifier
    row = tx.one(f"SELECT {_COLUMNS} FROM artifact WHERE workspace_id = :workspace_id AND {where} LIMIT 1", params)
    return artifact(row) if row else None


def hold(tx: Tx, workspace_id: str, artifact_id: str) -> Artifact | None:
    """The artifact, kept from being changed by others until this transaction ends; None when it is gone."""
    row = tx.one(
        f"UPDATE artifact SET version = version WHERE workspace_id = :workspace AND id = :id RETURNING {_COLUMNS}",
        {"workspace": workspace_id, "id": artifact_id},
    )
    return artifact(row) if row else None


def find_version(
    tx: Tx, artifact_id: str, version: int, *, content_up_to: int | None
) -> tuple[ArtifactVersion, str | None] | None:
    """A version, with its content unless that is longer than `content_up_to` bytes (None: however long)."""
    row = tx.one(
        f"SELECT {_VERSION_COLUMNS}, CASE WHEN CAST(:most AS INTEGER) IS NULL OR size_bytes <= :most THEN content END "
        "AS content FROM artifact_version WHERE artifact_id = :id AND version = :version",
        {"id": artifact_id, "version": version, "most": content_up_to},
    )
    return (artifact_version(row), row["content"]) if row else None


def find_part(tx: Tx, artifact_id: str, version: int, part: ContentPart) -> tuple[ArtifactVersion, str, int] | None:
    """A version, some characters of its content, and how many it has."""
    row = tx.one(
        f"SELECT {_VERSION_COLUMNS}, substr(content, :begin, :length) AS part, length(content) AS characters "
        "FROM artifact_version WHERE artifact_id = :id AND version = :version",
        # PostgreSQL counts characters in 32 bits; no content is longer than this.
        {"id": artifact_id, "version": version, "begin": min(part.offset, WORKSPACE_BYTES) + 1, "length": part.length},
    )
    return (artifact_version(row), row["part"], int(row["characters"])) if row else None


def versions(tx: Tx, artifact_id: str, *, before: int, limit: int) -> list[ArtifactVersion]:
    """Versions below a number, newest first."""
    rows = tx.all(
        f"SELECT {_VERSION_COLUMNS} FROM artifact_version WHERE artifact_id = :id AND version < :before "
        "ORDER BY version DESC LIMIT :limit",
        {"id": artifact_id, "before": before, "limit": limit},
    )
    return [artifact_version(row) for row in rows]


def page(
    tx: Tx,
    workspace_id: str,
    *,
    chat_id: str | None,
    type: str | None,
    limit: int,
    offset: int = 0,
    before: tuple[int, str] | None = None,
) -> list[Artifact]:
    """Artifacts by their last change, newest first; after a position or skipping a number of them."""
    where, params = _filter(workspace_id, chat_id, type)
    if before is not None:
        where += " AND (updated_at < :at OR (updated_at = :at AND id < :id))"
        params = {**params, "at": before[0], "id": before[1]}
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM artifact WHERE {where} ORDER BY updated_at DESC, id DESC LIMIT :limit OFFSET :offset",
        {**params, "limit": limit, "offset": offset},
    )
    return [artifact(row) for row in rows]


def count(tx: Tx, workspace_id: str, *, chat_id: str | None, type: str | None) -> int:
    """How many artifacts the filter leaves."""
    where, params = _filter(workspace_id, chat_id, type)
    row = tx.one(f"SELECT COUNT(*) AS number FROM artifact WHERE {where}", params)
    return int(row["number"]) if row else 0


def delete(tx: Tx, artifact_id: str) -> None:
    """Remove the artifact and, by cascade, its versions."""
    tx.execute("DELETE FROM artifact WHERE id = :id", {"id": artifact_id})


def _filter(workspace_id: str, chat_id: str | None, type: str | None) -> tuple[str, Params]:
    where, params = "workspace_id = :workspace_id", {"workspace_id": workspace_id}
    if chat_id is not None:
        where += " AND chat_id = :chat_id"
        params["chat_id"] = chat_id
    if type is not None:
        where += " AND type = :type"
        params["type"] = type
    return where, params
