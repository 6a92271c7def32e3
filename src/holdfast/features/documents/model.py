"""Owns what a document is, the states it goes through, and what can be wrong with an upload."""

import re
from dataclasses import dataclass
from typing import Literal

from holdfast.core.errors import FieldError, HoldfastError, Invalid, NotFound

State = Literal["queued", "extracting", "indexing", "ready", "failed"]
FINISHED: frozenset[State] = frozenset({"ready", "failed"})

MAX_FILENAME = 255
MAX_BYTES = 512 * 1024 * 1024

_CONTROLS = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_CHAT = re.compile(r"[!-~]{1,128}")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}")


@dataclass(frozen=True, slots=True)
class DocumentProgress:
    """How much of a document has been read."""

    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """An uploaded file and how far it has been read."""

    id: str
    workspace_id: str
    filename: str
    title: str
    format: str
    language: str | None
    media_type: str
    size_bytes: int
    sha256: str
    created_by: str
    created_by_name: str
    created_at: int
    updated_at: int
    state: State = "queued"
    reason_code: str | None = None
    reason: str | None = None
    """Why it failed, in words for whoever uploaded it."""
    chunks: int = 0
    characters: int = 0
    truncated: bool = False
    """Whether only its beginning was read, because it is too long."""
    progress_done: int = 0
    progress_total: int | None = None
    job_id: str = ""

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def progress(self) -> DocumentProgress:
        return DocumentProgress(self.progress_done, self.progress_total)


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """One passage of a document."""

    number: int
    heading: str
    page: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The document of an upload; not `created` when the workspace had the same bytes already."""

    document: Document
    created: bool


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A found passage with the document it is from."""

    document_id: str
    filename: str
    text: str
    score: float
    chunk: int
    heading: str
    page: int | None


class DocumentNotFound(NotFound):
    """No such document in the workspace."""

    def __init__(self, document_id: str) -> None:
        super().__init__("document", document_id)


class FileTooLarge(HoldfastError):
    """More bytes than a document may have."""

    code = "file_too_large"
    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"A file may have at most {limit // 1024 // 1024} MB; split it, or raise the limit.")


class EmptyFile(Invalid):
    """A file without a byte."""

    code = "empty_file"

    def __init__(self) -> None:
        super().__init__("The file is empty.", fields=[FieldError("file", "choose a file that has content")])


def checked_filename(filename: str) -> str:
    """The last part of the name that a client gave, without what could confuse a reader or a path."""
    name = _CONTROLS.sub("", filename.replace("\\", "/").rsplit("/", 1)[-1]).strip()
    if not name or name in (".", ".."):
        problem = "give the file a name, such as report.pdf"
        raise Invalid("The file has no name.", fields=[FieldError("filename", problem)])
    stem, dot, suffix = name.rpartition(".")
    if len(name) > MAX_FILENAME:
        name = f"{stem[: MAX_FILENAME - 1 - len(suffix)]}.{suffix}" if dot and len(suffix) < 20 else name[:MAX_FILENAME]
    return name


def checked_chat(chat_id: str | None) -> str | None:
    """The chat's id, or None."""
    if chat_id is not None and not _CHAT.fullmatch(chat_id):
        problem = "use 1 to 128 printable ASCII characters without spaces"
        raise Invalid("The chat cannot be named so.", fields=[FieldError("chat_id", problem)])
    return chat_id


def media_type_of(given: str) -> str:
    """The media type that a client gave, without parameters; a neutral one when it makes no sense."""
    bare = given.partition(";")[0].strip().lower()
    return bare if _MEDIA_TYPE.fullmatch(bare) else "application/octet-stream"
