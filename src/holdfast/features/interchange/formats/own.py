"""Owns Holdfast's own export files: each record to a path and text, and back, with nothing lost."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from holdfast.core.text.slugs import is_slug, slug_of
from holdfast.features.artifacts.model import Artifact, ArtifactVersion
from holdfast.features.collections.model import CollectionVector, EdgeFacts, GraphRecord
from holdfast.features.documents.model import Document
from holdfast.features.intelligence.model import MAX_NOTE, MAX_TEXT, Decision, Milestone, Relation
from holdfast.features.interchange.formats import case_files, collection_files
from holdfast.features.interchange.formats.fields import Fields, MalformedExport, bounded
from holdfast.features.interchange.formats.front import render
from holdfast.features.interchange.formats.records import Names, RecordForm
from holdfast.features.interchange.model import (
    Item,
    KeptCase,
    KeptDecision,
    KeptDocument,
    KeptMemory,
    KeptMilestone,
    KeptRelation,
    KeptVersion,
)
from holdfast.features.memory.model import MAX_CHARACTERS, Memory, Revision
from holdfast.features.memory.writing.wording import digest_of

_HERE = "it is that of the workspace which takes it in"
_BODY = "it is the body of the file"
MEMORY = RecordForm(
    Memory,
    {"workspace_id": _HERE, "content": _BODY, "digest": "it is made from the content"},
    ids=frozenset({"id", "superseded_by"}),
    defaults={"category": "fact", "revision": 1},
)
REVISION = RecordForm(Revision, {"memory_id": "it stands in that memory's file"}, most={"content": 2 * MAX_CHARACTERS})
DECISION = RecordForm(
    Decision,
    {"workspace_id": _HERE, "rationale": _BODY},
    ids=frozenset({"id", "supersedes", "superseded_by"}),
    most={"alternatives": MAX_TEXT},
)
MILESTONE = RecordForm(
    Milestone, {"workspace_id": _HERE, "description": _BODY, "decisions": "they are relations, which have files"}
)
ARTIFACT = RecordForm(
    Artifact,
    {"workspace_id": _HERE, "title": "it is that of its newest version", "size_bytes": "it is made from the content"},
    renamed={"version": "versions"},
    defaults={"version": 1},
)
VERSION = RecordForm(
    ArtifactVersion,
    {"size_bytes": "it is made from the content"},
    renamed={"created_at": "written_at"},
    defaults={"version": 1},
)
RELATION = RecordForm(
    Relation, {"workspace_id": _HERE}, renamed={"start": "from", "end": "to"}, most={"note": MAX_NOTE}
)
_READ_AGAIN = "it is found out again when the file is read"
DOCUMENT = RecordForm(
    Document,
    {
        "workspace_id": _HERE,
        "job_id": "it is read by a job of the server that takes it in",
        "updated_at": "it changes whenever the file is read",
        **dict.fromkeys(("title", "format", "language", "state", "reason_code", "reason"), _READ_AGAIN),
        **dict.fromkeys(("chunks", "characters", "truncated", "progress_done", "progress_total"), _READ_AGAIN),
    },
)
FORMS: tuple[RecordForm[Any], ...] = (
    *(MEMORY, REVISION, DECISION, MILESTONE, ARTIFACT, VERSION, RELATION, DOCUMENT),
    *case_files.FORMS,
    *collection_files.FORMS,
)

ABOUT = "about.md"
"""What is known of a document, beside the folder with its bytes."""
_CONTENT = re.compile(r"(?P<folder>(?:.*/)?documents/[^/]+)/content/[^/]+")


def memory_file(memory: Memory, history: Sequence[Revision], names: Names) -> tuple[str, bytes]:
    """`memories/<slug>.md`: what it says is the body."""
    front = {"holdfast": "memory", **MEMORY.dump(memory, names)}
    if history:
        front["history"] = [REVISION.dump(each, names) for each in history]
    return f"memories/{memory.slug}.md", render(front, memory.content)


def decision_file(decision: Decision, names: Names) -> tuple[str, bytes]:
    """`decisions/<title>-<id>.md`: the rationale is the body."""
    front = {"holdfast": "decision", **DECISION.dump(decision, names)}
    return f"decisions/{_name(decision.title, names(decision.id))}.md", render(front, decision.rationale)


def milestone_file(milestone: Milestone, names: Names) -> tuple[str, bytes]:
    """`milestones/<title>-<id>.md`: the description is the body; its decisions are relations."""
    front = {"holdfast": "milestone", **MILESTONE.dump(milestone, names)}
    return f"milestones/{_name(milestone.title, names(milestone.id))}.md", render(front, milestone.description)


def version_file(artifact: Artifact, version: ArtifactVersion, content: str, names: Names) -> tuple[str, bytes]:
    """`artifacts/<identifier>-<id>/<version>.md`: the content is the body."""
    front = {"holdfast": "artifact", **ARTIFACT.dump(artifact, names), **VERSION.dump(version, names)}
    path = f"artifacts/{_name(artifact.identifier, names(artifact.id))}/{version.version:06d}.md"
    return path, render(front, content)


def document_file(document: Document, names: Names) -> tuple[str, bytes]:
    """`documents/<filename>-<id>/about.md`: what is known of a file."""
    front = {"holdfast": "document", **DOCUMENT.dump(document, names)}
    return f"{_document_folder(document, names)}/{ABOUT}", render(front, "")


def content_path(document: Document, names: Names, number: int, *, only: bool) -> str:
    """`documents/<filename>-<id>/content/<filename>`: its bytes; in several files where they are many."""
    path = PurePosixPath(document.filename)
    suffix = path.suffix if re.fullmatch(r"\.[A-Za-z0-9]{1,12}", path.suffix) else ""
    name = slug_of(path.stem, fallback="file", max_length=50) + suffix
    return f"{_document_folder(document, names)}/content/{name if only else f'{name}.{number:06d}'}"


def content_folder(path: str) -> str | None:
    """The folder of the document whose bytes a file of this path holds; None for any other path."""
    match = _CONTENT.fullmatch(path)
    return match["folder"] if match else None


def case_file(kept: KeptCase, names: Names) -> tuple[str, bytes]:
    """`cases/<title>-<id>.md`: what it says is the body."""
    path = f"cases/{_name(kept.case.title, names(kept.case.id))}.md"
    return path, render(*case_files.case_front(kept, names))


def record_file(record: GraphRecord, names: Names) -> tuple[str, bytes]:
    """`records/<title>-<id>.md`: a record of a collection."""
    front = {"holdfast": "record", **collection_files.RECORD.dump(record, names)}
    return f"records/{_name(record.title, names(record.id))}.md", render(front, "")


def vectors_file(vectors: Sequence[CollectionVector], names: Names, page: int) -> tuple[str, bytes]:
    """`vectors/<page>.md`: some texts and vectors of collections a file, each on a line."""
    records = [collection_files.VECTOR.dump(each, names) for each in vectors]
    return f"vectors/{page:06d}.md", render({"holdfast": "vectors", "vectors": records}, "")


def relations_file(
    relations: Sequence[Relation], edges: Mapping[str, EdgeFacts], names: Names, page: int
) -> tuple[str, bytes]:
    """`relations/<page>.md`: some hundred ties a file, each on a line with what was said of it as an edge."""
    told = {id: collection_files.EDGE.dump(edge, names) for id, edge in edges.items()}
    records = [RELATION.dump(each, names) | told.get(each.id, {}) for each in relations]
    body = "\n".join(
        f"- {each.start.type} {names(each.start.id)} {each.relation} {each.end.type} {names(each.end.id)}"
        for each in relations
    )
    return f"relations/{page:06d}.md", render({"holdfast": "relations", "relations": records}, body)


def read_own(file: str, front: Mapping[str, Any], body: str) -> list[Item]:
    """What one of our files holds; Malformed when an edit broke it."""
    readers: dict[str, Callable[[str, Fields, str], list[Item]]] = {
        "memory": _memory,
        "decision": _decision,
        "milestone": _milestone,
        "artifact": _version,
        "document": _document,
        "case": case_files.read_case,
        "record": collection_files.read_record,
        "vectors": collection_files.read_vectors,
        "relations": _relations,
    }
    kind = str(front.get("holdfast"))
    if kind not in readers:
        raise MalformedExport(f"the field holdfast names no type that can be imported ({kind[:40]!r})")
    return readers[kind](file, Fields(front), body)


def _memory(file: str, fields: Fields, body: str) -> list[Item]:
    if not is_slug(fields.text("slug")):
        raise MalformedExport("the field slug is not lower-case words joined by hyphens")
    content = bounded(body, "the memory", 2 * MAX_CHARACTERS)
    memory = MEMORY.load(fields, workspace_id="", content=content, digest=digest_of(body))
    history = tuple(REVISION.load(each, memory_id=memory.id) for each in fields.records("history"))
    if len(history) != memory.revision - 1 or any(each.revision != n for n, each in enumerate(history, 1)):
        raise MalformedExport("the history does not lead up to the revision")
    return [KeptMemory(file, memory, history)]


def _decision(file: str, fields: Fields, body: str) -> list[Item]:
    decision = DECISION.load(fields, workspace_id="", rationale=bounded(body, "the rationale", MAX_TEXT))
    return [KeptDecision(file, decision)]


def _milestone(file: str, fields: Fields, body: str) -> list[Item]:
    description = bounded(body, "the description", MAX_TEXT)
    return [KeptMilestone(file, MILESTONE.load(fields, workspace_id="", description=description, decisions=()))]


def _version(file: str, fields: Fields, body: str) -> list[Item]:
    size = len(body.encode())
    version = VERSION.load(fields, size_bytes=size)
    artifact = ARTIFACT.load(fields, workspace_id="", title=version.title, size_bytes=size)
    return [KeptVersion(file, artifact, version, body)]


def _document(file: str, fields: Fields, body: str) -> list[Item]:
    """As it is before it is read."""
    document = DOCUMENT.load(
        fields,
        workspace_id="",
        title=fields.text("filename"),
        format="",
        language=None,
        updated_at=fields.time("created_at"),
    )
    return [KeptDocument(file, document)]


def _relations(file: str, fields: Fields, body: str) -> list[Item]:
    found = [(RELATION.load(each, workspace_id=""), each) for each in fields.records("relations")]
    return [KeptRelation(file, relation, collection_files.read_edge(each, relation.id)) for relation, each in found]


def _document_folder(document: Document, names: Names) -> str:
    return f"documents/{_name(document.filename, names(document.id))}"


def _name(title: str, id: str) -> str:
    return f"{slug_of(title, fallback='untitled', max_length=50)}-{id[-12:]}"
