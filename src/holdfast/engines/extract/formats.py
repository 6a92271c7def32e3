"""Owns what kinds of files can be read, and how a file's kind is told from its name and its first bytes."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from holdfast.core.errors import FieldError, Invalid

Format = Literal["pdf", "markdown", "html", "text", "docx", "pptx", "xlsx", "code"]

HEAD_BYTES = 4096
"""How much of a file's beginning `recognise` wants to see."""

_OFFICE: dict[str, Format] = {".docx": "docx", ".pptx": "pptx", ".xlsx": "xlsx", ".docm": "docx", ".xlsm": "xlsx"}
_MARKUP: dict[str, Format] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
}
LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    ".js": "javascript",
    ".jsx": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "tsx",
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    ".c": "c",
    ".h": "c",
    ".cpp": "cpp",
    ".cc": "cpp",
    ".cxx": "cpp",
    ".hpp": "cpp",
    ".hh": "cpp",
    ".cs": "csharp",
    ".rb": "ruby",
    ".php": "php",
    ".sh": "bash",
    ".bash": "bash",
    ".swift": "swift",
    ".kt": "kotlin",
    ".kts": "kotlin",
    # Without a grammar here: cut at lines.
    ".css": "css",
    ".dart": "dart",
    ".ex": "elixir",
    ".exs": "elixir",
    ".graphql": "graphql",
    ".hs": "haskell",
    ".ini": "ini",
    ".json": "json",
    ".jsonl": "json",
    ".lua": "lua",
    ".pl": "perl",
    ".proto": "protobuf",
    ".ps1": "powershell",
    ".r": "r",
    ".scala": "scala",
    ".sql": "sql",
    ".tf": "terraform",
    ".toml": "toml",
    ".vue": "vue",
    ".xml": "xml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".zig": "zig",
}
_BY_MEDIA_TYPE: dict[str, Format] = {
    "application/pdf": "pdf",
    "text/markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BINARY_STARTS = (
    b"\x89PNG",
    b"GIF8",
    b"\xff\xd8\xff",
    b"\x7fELF",
    b"MZ\x90",
    b"\x1f\x8b",
    b"7z\xbc\xaf",
    b"Rar!",
    b"BZh",
)


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file is, as far as reading it goes."""

    format: Format
    language: str | None = None


class UnsupportedFormat(Invalid):
    """A file that no reader here can make sense of."""

    code = "unsupported_format"

    def __init__(self, problem: str) -> None:
        super().__init__(f"This file cannot be read: {problem}.", fields=[FieldError("file", problem)])


def recognise(filename: str, media_type: str, head: bytes) -> FileKind:
    """The kind of a file; UnsupportedFormat with the remedy when there is none for it."""
    suffix = PurePosixPath(filename.lower()).suffix
    if b"%PDF-" in head[:1024]:
        return FileKind("pdf")
    if head.startswith(b"PK\x03\x04"):
        office = _OFFICE.get(suffix) or _BY_MEDIA_TYPE.get(media_type)
        if office not in ("docx", "pptx", "xlsx"):
            raise UnsupportedFormat("it is a ZIP archive; unpack it and upload the files in it")
        return FileKind(office)
    if head.startswith(_OLE):
        raise UnsupportedFormat(
            "it is in an old Office format or protected by a password; "
            "save it as docx, pptx or xlsx without one and upload that"
        )
    format = _OFFICE.get(suffix) or _MARKUP.get(suffix) or _BY_MEDIA_TYPE.get(media_type)
    if format in ("docx", "pptx", "xlsx", "pdf"):
        raise UnsupportedFormat(f"it is called {format} but does not begin like one; it may be damaged")
    if head.startswith(_BINARY_STARTS) or (b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))):
        raise UnsupportedFormat("it is binary; upload PDF, Markdown, HTML, text, docx, pptx, xlsx or source code")
    if format is not None:
        return FileKind(format)
    if suffix in LANGUAGES:
        return FileKind("code", LANGUAGES[suffix])
    if head[:1024].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return FileKind("html")
    return FileKind("text")
