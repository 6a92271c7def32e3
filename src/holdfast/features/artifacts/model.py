"""Owns what an artifact is: its identifier, type and size rules, its versions, and what can be wrong with one."""

import re
from dataclasses import dataclass

from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound

READ_BYTES = 1024 * 1024
"""Content over this reads as metadata; it is downloaded instead."""
CHAT_BYTES = 1024 * 1024
"""The most a chat's artifact may hold."""
WORKSPACE_BYTES = 2 * 1024 * 1024
"""The most a workspace's artifact may hold."""
PART_CHARACTERS = 40_000
"""How much of a content is read where nobody says how much: about ten thousand tokens."""
MAX_PART_CHARACTERS = READ_BYTES // 4
"""The most that one part holds: in bytes never more than is read as a whole."""
MAX_TITLE = 300
TYPES = ("text/markdown", "text/html", "text/plain", "image/svg+xml", "text/x-mermaid", "application/json")

_IDENTIFIER = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CODE_TYPE = re.compile(r"text/x-[a-z0-9][a-z0-9+#._-]{0,63}")
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#._ -]{0,63}")
_CHAT = re.compile(r"[!-~]{1,128}")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """What somebody wants kept. Without a chat it belongs to the workspace as a whole."""

    identifier: str
    title: str
    type: str
    content: str
    language: str | None = None
    chat_id: str | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact as it is now; its content is in its versions."""

    id: str
    workspace_id: str
    chat_id: str | None
    identifier: str
    title: str
    type: str
    language: str | None
    version: int
    size_bytes: int
    created_by: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class ArtifactVersion:
    """One version's facts, without its content."""

    version: int
    title: str
    size_bytes: int
    sha256: str
    author: str
    created_at: int


@dataclass(frozen=True, slots=True)
class ContentPart:
    """Which characters of a content are wanted: from `offset` on, at most `length` of them."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class ArtifactReading:
    """An artifact with one version of it; `content` is None when it is too long to hand over in one answer."""

    artifact: Artifact
    version: ArtifactVersion
    content: str | None
    next_offset: int | None = None
    """The first character that was left out after what is here; None where nothing was."""


@dataclass(frozen=True, slots=True)
class ArtifactDiff:
    """What changed between two versions, as a unified diff."""

    artifact: Artifact
    from_version: int
    to_version: int
    added_lines: int
    removed_lines: int
    diff: str


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """Names an artifact by its id, or by its identifier within a chat (or the workspace)."""

    artifact_id: str | None = None
    identifier: str | None = None
    chat_id: str | None = None


class ArtifactNotFound(NotFound):
    """No such artifact in the workspace."""

    def __init__(self, reference: str) -> None:
        super().__init__("artifact", reference)


class VersionNotFound(NotFound):
    """The artifact has no such version."""

    def __init__(self, version: int) -> None:
        super().__init__("artifact version", str(version))


class NoSuchPart(Invalid):
    """The content ends before the part begins."""

    def __init__(self, offset: int, version: int, characters: int) -> None:
        rule = f"begin below {characters:,}" if characters else "leave it out: there is nothing to read"
        problem = f"{offset:,} is past the end: version {version} has {characters:,} characters; {rule}"
        super().__init__("The artifact has no such part.", fields=[FieldError("offset", problem)])


class IdentifierTaken(Conflict):
    """An artifact of that identifier exists in the chat or workspace."""

    def __init__(self, identifier: str, *, in_chat: bool) -> None:
        where = "chat" if in_chat else "workspace"
        super().__init__(
            f"The {where} has an artifact {identifier!r} already; update it to write a new version, "
            "or choose another identifier.",
            code="identifier_taken",
        )


class VersionConflict(Conflict):
    """Somebody wrote a version that the caller has not seen."""

    def __init__(self, expected: int, present: int) -> None:
        super().__init__(
            f"The artifact is at version {present}, not {expected}; read it and apply the change again.",
            code="version_conflict",
        )


def is_type(type: str) -> bool:
    """Whether artifacts may have this type: one of the list, or `text/x-` and a language."""
    return type in TYPES or _CODE_TYPE.fullmatch(type) is not None


def checked(new: NewArtifact) -> NewArtifact:
    """The artifact with its title trimmed and its type in lower case; Invalid names every field that breaks a rule."""
    title = " ".join(new.title.split())
    type = new.type.strip().lower()
    wrong = []
    if not _IDENTIFIER.fullmatch(new.identifier):
        rule = "use 1 to 128 ASCII letters, digits, hyphens, underscores and dots"
        wrong.append(FieldError("identifier", rule))
    if not 1 <= len(title) <= MAX_TITLE or _UNSTORABLE.search(title):
        wrong.append(FieldError("title", f"write 1 to {MAX_TITLE} characters"))
    if not is_type(type):
        wrong.append(FieldError("type", f"use one of {', '.join(TYPES)}, or text/x- and a language"))
    if new.language is not None and not _LANGUAGE.fullmatch(new.language):
        wrong.append(FieldError("language", "name a programming language, such as python"))
    if new.chat_id is not None and not _CHAT.fullmatch(new.chat_id):
        wrong.append(FieldError("chat_id", "use 1 to 128 printable ASCII characters without spaces"))
    wrong += content_problems(new.content, in_chat=new.chat_id is not None)
    if wrong:
        raise Invalid("The artifact cannot be kept as it is.", fields=wrong)
    return NewArtifact(new.identifier, title, type, new.content, new.language or None, new.chat_id)


def content_problems(content: str, *, in_chat: bool) -> list[FieldError]:
    """What is wrong with a content, if anything."""
    limit = CHAT_BYTES if in_chat else WORKSPACE_BYTES
    if "\0" in content:
        return [FieldError("content", "remove the NUL characters; artifacts are text")]
    try:
        size = len(content.encode())
    except UnicodeEncodeError:
        return [FieldError("content", "remove the unpaired surrogates; artifacts are Unicode text")]
    if size > limit:
        return [FieldError("content", f"{size:,} bytes are more than the {limit // 1024 // 1024} MiB allowed")]
    return []
