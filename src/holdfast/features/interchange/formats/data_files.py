"""Owns the reading of other memory stores' data files: mem0's exports and server-memory's JSON lines."""

import json
import re
from collections.abc import Iterator
from typing import Any

from holdfast.features.interchange.formats.front import moment_or_none, texts
from holdfast.features.interchange.model import ImportProblem, Item, Note, NoteLink
from holdfast.features.memory.model import MAX_CHARACTERS

MAX_WHOLE = 4_000_000
MAX_RECORD = 1_000_000
_LISTS = ("results", "memories", "data", "items")
_LIST = re.compile(r'\s*(?:\{\s*"(?:results|memories|data|items)"\s*:\s*)?\[')
# Spaces are counted here; what is left of the text once it is cleaned has the limit of any memory.
_LONGEST_TEXT = 2 * MAX_CHARACTERS
_LINE = re.compile(r"[^\n]+")
_SEPARATOR = re.compile(r"\s*,?\s*")


def read_json(file: str, text: str) -> Iterator[Item]:
    """Every record of a JSON document or of JSON lines; a line that is wrong is reported and the rest read."""
    if len(text) > MAX_WHOLE:
        yield from _long(file, text)
        return
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield from _lines(file, text)
        return
    if isinstance(whole, dict) and isinstance(whole.get("entities"), list):
        yield from _graph(file, whole)
        return
    found = False
    for number, record in enumerate(_records(whole), 1):
        found = True
        yield from _record(file, record, f"record {number}")
    if not found:
        yield ImportProblem(file, "it holds no memories, entities or relations that are known here")


def _long(file: str, text: str) -> Iterator[Item]:
    """A long file record by record: a few bytes of JSON can stand for much more memory than they take."""
    opening = _LIST.match(text)
    if opening is None:
        yield from _lines(file, text)
        return
    decoder, number = json.JSONDecoder(), 0
    base, at = opening.end(), 0
    window = text[base : base + 2 * MAX_RECORD]
    while True:
        if at > MAX_RECORD:
            base, at = base + at, 0
            window = text[base : base + 2 * MAX_RECORD]
        separator = _SEPARATOR.match(window, at)
        at = separator.end() if separator else at
        if window[at : at + 1] in ("]", ""):
            return
        number += 1
        try:
            record, end = decoder.raw_decode(window, at)
        except (ValueError, RecursionError):
            end = at + 2 * MAX_RECORD
        if end - at > MAX_RECORD:
            yield ImportProblem(
                file, f"record {number} is not JSON, or is over {MAX_RECORD:,} characters; the rest was left"
            )
            return
        yield from _record(file, record, f"record {number}")
        at = end


def _each_line(text: str) -> Iterator[tuple[int, str]]:
    """Lines that hold something, with their numbers; the empty ones between them cost nothing."""
    number, counted = 1, 0
    for found in _LINE.finditer(text):
        number += text.count("\n", counted, found.start())
        counted = found.start()
        yield number, found[0]


def _lines(file: str, text: str) -> Iterator[Item]:
    for number, line in _each_line(text):
        if len(line) > MAX_RECORD:
            yield ImportProblem(file, f"line {number} is over {MAX_RECORD:,} characters")
            continue
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            yield ImportProblem(file, f"line {number} is not JSON")
            continue
        yield from _record(file, record, f"line {number}")


def _records(whole: object) -> Iterator[object]:
    if isinstance(whole, list):
        yield from whole
        return
    if not isinstance(whole, dict):
        return
    for name in _LISTS:
        if isinstance(whole.get(name), list):
            yield from whole[name]
            return
    if "memory" in whole or "content" in whole or "type" in whole:
        yield whole


def _graph(file: str, graph: dict[str, Any]) -> Iterator[Item]:
    for kind, name in (("entity", "entities"), ("relation", "relations")):
        records = graph.get(name)
        for number, record in enumerate(records if isinstance(records, list) else [], 1):
            if isinstance(record, dict):
                yield from _record(file, {**record, "type": kind}, f"{kind} {number}")
            else:
                yield ImportProblem(file, f"{kind} {number} is not an object")


def _record(file: str, record: object, where: str) -> Iterator[Item]:
    if not isinstance(record, dict):
        yield ImportProblem(file, f"{where} is not an object")
    elif record.get("type") == "relation":
        yield _relation(file, record, where)
    elif record.get("type") == "entity":
        yield _entity(file, record, where)
    else:
        yield _memory(file, record, where)


def _entity(file: str, record: dict[str, Any], where: str) -> Item:
    name = record.get("name")
    if not isinstance(name, str) or not name.strip():
        return ImportProblem(file, f"{where} has no name")
    kind = str(record.get("entityType") or record.get("entity_type") or "").strip()
    given = record.get("observations")
    observations = [str(each) for each in given] if isinstance(given, list) else []
    head = f"{name} ({kind})" if kind else name
    content = "\n".join([f"{head}:" if observations else head, *(f"- {each}" for each in observations)])
    if len(content) > _LONGEST_TEXT:
        return _too_long(file, where, content)
    return Note(file, content, name.strip()[:200], tags=texts([kind[:60]]) if kind else (), source=file, names=(name,))


def _relation(file: str, record: dict[str, Any], where: str) -> Item:
    start, end = record.get("from") or record.get("from_id"), record.get("to") or record.get("to_id")
    relation = record.get("relationType") or record.get("relation_type") or record.get("relation")
    if not (isinstance(start, str) and isinstance(end, str) and isinstance(relation, str)):
        return ImportProblem(file, f"{where} is a relation without from, to and relationType")
    return NoteLink(file, start, relation, end)


def _memory(file: str, record: dict[str, Any], where: str) -> Item:
    """mem0's shape (`memory`, `metadata`, `categories`), or plain `content` with our own field names."""
    content = next((record[key] for key in ("memory", "content", "text", "data") if record.get(key)), None)
    if not isinstance(content, str):
        return ImportProblem(file, f"{where} has no text in memory, content or text")
    if len(content) > _LONGEST_TEXT:
        return _too_long(file, where, content)
    metadata = record.get("metadata") if isinstance(record.get("metadata"), dict) else {}
    assert isinstance(metadata, dict)
    category = record.get("category") or metadata.get("category") or metadata.get("type")
    owner = next((f"{key}:{record[key]}" for key in ("user_id", "agent_id", "run_id") if record.get(key)), "")
    title = record.get("title")
    return Note(
        file=file,
        content=content,
        title=str(title)[:200] if title else None,
        category=_word(category),
        tags=texts(record.get("tags") or record.get("categories") or metadata.get("tags") or []),
        occurred_at=moment_or_none(record.get("occurred_at") or metadata.get("occurred_at")),
        learned_at=moment_or_none(record.get("created_at")),
        source=str(record.get("source") or owner or file)[:500],
        said_by=_said_by(record),
        said_by_agent=record.get("role") == "assistant" or not (record.get("user_id") or record.get("actor_id")),
    )


def _said_by(record: dict[str, Any]) -> str:
    """Who said it, by mem0's fields: the one who spoke before the one whose memory it is."""
    for key in ("actor_id", "agent_id" if record.get("role") == "assistant" else "user_id", "user_id", "agent_id"):
        if isinstance(record.get(key), str | int) and str(record[key]).strip():
            return " ".join(str(record[key]).split())[:200]
    return ""


def _too_long(file: str, where: str, content: str) -> ImportProblem:
    return ImportProblem(file, f"{where} has {len(content):,} characters; a memory has at most {MAX_CHARACTERS:,}")


def _word(category: object) -> str | None:
    text = str(category or "").strip().lower().replace(" ", "-")
    usable = text[:1].isalpha() and len(text) <= 40 and all(letter.isalnum() or letter in "-_" for letter in text)
    return text if usable and text.isascii() else None
