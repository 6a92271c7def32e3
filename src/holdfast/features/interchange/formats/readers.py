"""Owns the choice of how a file is read, by its name and its content; one bad file is a problem, never an end."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from holdfast.features.interchange.formats.data_files import read_json
from holdfast.features.interchange.formats.front import split
from holdfast.features.interchange.formats.markdown import read_markdown
from holdfast.features.interchange.formats.own import ABOUT, content_folder, read_own
from holdfast.features.interchange.model import (
    MAX_DATA_BYTES,
    MAX_FILE_BYTES,
    ImportProblem,
    Item,
    KeptBytes,
    KeptDocument,
    SourceFile,
)

MARKDOWN = frozenset({".md", ".markdown", ".mdx", ".mdc", ".txt"})
DATA = frozenset({".json", ".jsonl", ".ndjson"})


def is_readable(path: str) -> bool:
    """Whether a file of this name can hold something to import."""
    return PurePosixPath(path).suffix.lower() in MARKDOWN | DATA or content_folder(path) is not None


def most_bytes(path: str) -> int:
    """How large a file of this name may be."""
    data = PurePosixPath(path).suffix.lower() in DATA or content_folder(path) is not None
    return MAX_DATA_BYTES if data else MAX_FILE_BYTES


def read(files: Iterable[SourceFile]) -> Iterator[Item]:
    """Everything that the files hold, in their order."""
    document = ""
    for file in files:
        if file.problem:
            yield ImportProblem(file.path, file.problem)
            continue
        if document and content_folder(file.path) == document and len(file.data) <= most_bytes(file.path):
            yield KeptBytes(file.path, file.data)
            continue
        try:
            for item in _read(file):
                if isinstance(item, KeptDocument):
                    document = file.path.removesuffix(f"/{ABOUT}")
                yield item
        except UnicodeDecodeError:
            yield ImportProblem(file.path, "it is not UTF-8 text")
        except RecursionError:
            yield ImportProblem(file.path, "it is nested too deeply to be read")
        except ValueError as problem:
            yield ImportProblem(file.path, f"it cannot be read: {problem}")


def _read(file: SourceFile) -> Iterator[Item]:
    suffix = PurePosixPath(file.path).suffix.lower()
    data, most = suffix in DATA, most_bytes(file.path)
    if suffix not in MARKDOWN | DATA:
        yield ImportProblem(file.path, f"it is part of a document whose {ABOUT} is missing")
        return
    if len(file.data) > most:
        yield ImportProblem(file.path, f"it is over {most // 1024 // 1024} MB")
        return
    text = file.data.decode("utf-8-sig")
    if "\0" in text:
        yield ImportProblem(file.path, "it is not text: it holds NUL characters")
        return
    if data:
        yield from read_json(file.path, text)
        return
    front, body = split(text)
    if "holdfast" in front:
        yield from read_own(file.path, front, body)
    elif body.strip():
        yield from read_markdown(file.path, front, body)
