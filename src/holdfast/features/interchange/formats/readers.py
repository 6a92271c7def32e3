"""Owns the choice of how a file is read, by its name and its content; one bad file is a problem, never an end."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from holdfast.features.interchange.formats.data_files import read_json
from holdfast.features.interchange.formats.front import split
from holdfast.features.interchange.formats.markdown import read_markdown
from holdfast.features.interchange.formats.own import read_own
from holdfast.features.interchange.model import MAX_DATA_BYTES, MAX_FILE_BYTES, ImportProblem, Item, SourceFile

MARKDOWN = frozenset({".md", ".markdown", ".mdx", ".mdc", ".txt"})
DATA = frozenset({".json", ".jsonl", ".ndjson"})


def is_readable(path: str) -> bool:
    """Whether a file of this name can hold something to import."""
    return PurePosixPath(path).suffix.lower() in MARKDOWN | DATA


def read(files: Iterable[SourceFile]) -> Iterator[Item]:
    """Everything that the files hold, in their order."""
    for file in files:
        if file.problem:
            yield ImportProblem(file.path, file.problem)
            continue
        try:
            yield from _read(file)
        except UnicodeDecodeError:
            yield ImportProblem(file.path, "it is not UTF-8 text")
        except RecursionError:
            yield ImportProblem(file.path, "it is nested too deeply to be read")
        except ValueError as problem:
            yield ImportProblem(file.path, f"it cannot be read: {problem}")


def _read(file: SourceFile) -> Iterator[Item]:
    data = PurePosixPath(file.path).suffix.lower() in DATA
    most = MAX_DATA_BYTES if data else MAX_FILE_BYTES
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
