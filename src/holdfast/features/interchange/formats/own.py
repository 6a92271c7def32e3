"""Owns Holdfast's own export files: each record to a path and text, and back, with nothing lost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.core.text.slugs import is_slug, slug_of
from holdfast.features.artifacts.model import Artifact, ArtifactVersion
from holdfast.features.intelligence.model import MAX_NOTE, MAX_TEXT, STATUSES, Decision, Milestone, Ref, Relation
from holdfast.features.interchange.formats.fields import Fields, MalformedExport, bounded
from holdfast.features.interchange.formats.front import moment, render
from holdfast.features.interchange.model import (
    Item,
    KeptDecision,
    KeptMemory,
    KeptMilestone,
    KeptRelation,
    KeptVersion,
)
from holdfast.features.memory.model import MAX_CHARACTERS, Memory, Revision
from holdfast.features.memory.writing.wording import digest_of

Names = Callable[[str], str]
"""The id that an export writes for one of ours: that of its origin, where it was imported."""


def memory_file(memory: Memory, history: Sequence[Revision], names: Names) -> tuple[str, bytes]:
    """`memories/<slug>.md`: what it says is the body."""
    front = {
        "holdfast": "memory",
        "id": names(memory.id),
        "slug": memory.slug,
        "title": memory.title,
        "category": memory.category,
        "tags": list(memory.tags),
        "status": memory.status,
        "status_note": memory.status_note,
        "occurred_at": _time(memory.occurred_at),
        "learned_at": moment(memory.learned_at),
        "updated_at": moment(memory.updated_at),
        "valid_until": _time(memory.valid_until),
        "superseded_by": names(memory.superseded_by) if memory.superseded_by else None,
        "author": memory.author,
        "author_name": memory.author_name,
        "trust": memory.trust,
        "session_id": memory.session_id,
        "chat_id": memory.chat_id,
        "visibility": None if memory.visibility == "workspace" else memory.visibility,
        "source": memory.source,
        "position": memory.position,
        "revision": memory.revision,
        "history": [
            _filled(
                {
                    "revision": each.revision,
                    "title": each.title,
                    "content": each.content,
                    "category": each.category,
                    "tags": list(each.tags),
                    "occurred_at": _time(each.occurred_at),
                    "written_at": moment(each.written_at),
                    "editor": each.editor,
                }
            )
            for each in history
        ],
    }
    return f"memories/{memory.slug}.md", render(_filled(front), memory.content)


def decision_file(decision: Decision, names: Names) -> tuple[str, bytes]:
    """`decisions/<title>-<id>.md`: the rationale is the body."""
    id = names(decision.id)
    front = {
        "holdfast": "decision",
        "id": id,
        "title": decision.title,
        "status": decision.status,
        "blocking": decision.blocking,
        "alternatives": list(decision.alternatives),
        "decided_at": moment(decision.decided_at),
        "supersedes": names(decision.supersedes) if decision.supersedes else None,
        "superseded_by": names(decision.superseded_by) if decision.superseded_by else None,
        "superseded_at": _time(decision.superseded_at),
        "author": decision.author,
        "author_name": decision.author_name,
        "created_at": moment(decision.created_at),
        "updated_at": moment(decision.updated_at),
    }
    return f"decisions/{_name(decision.title, id)}.md", render(_filled(front), decision.rationale)


def milestone_file(milestone: Milestone, names: Names) -> tuple[str, bytes]:
    """`milestones/<title>-<id>.md`: the description is the body; its decisions are relations."""
    id = names(milestone.id)
    front = {
        "holdfast": "milestone",
        "id": id,
        "title": milestone.title,
        "type": milestone.type,
        "occurred_at": moment(milestone.occurred_at),
        "author": milestone.author,
        "author_name": milestone.author_name,
        "created_at": moment(milestone.created_at),
        "updated_at": moment(milestone.updated_at),
    }
    return f"milestones/{_name(milestone.title, id)}.md", render(_filled(front), milestone.description)


def version_file(artifact: Artifact, version: ArtifactVersion, content: str, names: Names) -> tuple[str, bytes]:
    """`artifacts/<identifier>-<id>/<version>.md`: the content is the body."""
    id = names(artifact.id)
    front = {
        "holdfast": "artifact",
        "id": id,
        "identifier": artifact.identifier,
        "title": version.title,
        "type": artifact.type,
        "language": artifact.language,
        "chat_id": artifact.chat_id,
        "version": version.version,
        "versions": artifact.version,
        "author": version.author,
        "written_at": moment(version.created_at),
        "created_by": artifact.created_by,
        "created_at": moment(artifact.created_at),
        "updated_at": moment(artifact.updated_at),
        "sha256": version.sha256,
    }
    path = f"artifacts/{_name(artifact.identifier, id)}/{version.version:06d}.md"
    return path, render(_filled(front), content)


def relations_file(relations: Sequence[Relation], names: Names, page: int) -> tuple[str, bytes]:
    """`relations/<page>.md`: some hundred ties a file, each on a line."""
    records = [
        _filled(
            {
                "id": names(each.id),
                "from": {"type": each.start.type, "id": names(each.start.id)},
                "relation": each.relation,
                "to": {"type": each.end.type, "id": names(each.end.id)},
                "note": each.note,
                "author": each.author,
                "created_at": moment(each.created_at),
            }
        )
        for each in relations
    ]
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
        "relations": _relations,
    }
    kind = str(front.get("holdfast"))
    if kind not in readers:
        raise MalformedExport(f"the field holdfast names no type that can be imported ({kind[:40]!r})")
    return readers[kind](file, Fields(front), body)


def _memory(file: str, fields: Fields, body: str) -> list[Item]:
    slug = fields.text("slug")
    if not is_slug(slug):
        raise MalformedExport("the field slug is not lower-case words joined by hyphens")
    id = fields.id()
    memory = Memory(
        id=id,
        workspace_id="",
        slug=slug,
        title=fields.text("title"),
        content=bounded(body, "the memory", 2 * MAX_CHARACTERS),
        digest=digest_of(body),
        category=fields.text("category", "fact"),
        tags=fields.words("tags"),
        status=fields.choice("status", ("current", "superseded", "retracted")),
        occurred_at=fields.optional_time("occurred_at"),
        learned_at=fields.time("learned_at"),
        valid_until=fields.optional_time("valid_until"),
        superseded_by=fields.optional_id("superseded_by"),
        status_note=fields.text("status_note"),
        author=fields.text("author"),
        author_name=fields.text("author_name"),
        trust=fields.choice("trust", ("person", "agent", "web")),
        session_id=fields.optional("session_id"),
        chat_id=fields.optional("chat_id"),
        source=fields.text("source"),
        position=fields.number("position", 0),
        revision=fields.number("revision", 1),
        updated_at=fields.time("updated_at"),
        visibility="chat" if fields.text("visibility") == "chat" else "workspace",
    )
    history = [
        Revision(
            memory_id=id,
            revision=each.number("revision", 1),
            title=each.text("title"),
            content=each.text("content", most=2 * MAX_CHARACTERS),
            category=each.text("category"),
            tags=each.words("tags"),
            occurred_at=each.optional_time("occurred_at"),
            written_at=each.time("written_at"),
            editor=each.text("editor"),
        )
        for each in fields.records("history")
    ]
    if len(history) != memory.revision - 1 or any(each.revision != n for n, each in enumerate(history, 1)):
        raise MalformedExport("the history does not lead up to the revision")
    return [KeptMemory(file, memory, tuple(history))]


def _decision(file: str, fields: Fields, body: str) -> list[Item]:
    decision = Decision(
        id=fields.id(),
        workspace_id="",
        title=fields.text("title"),
        rationale=bounded(body, "the rationale", MAX_TEXT),
        alternatives=tuple(bounded(each, "an alternative", MAX_TEXT) for each in fields.words("alternatives")),
        status=fields.choice("status", STATUSES),
        blocking=fields.flag("blocking"),
        decided_at=fields.time("decided_at"),
        supersedes=fields.optional_id("supersedes"),
        superseded_by=fields.optional_id("superseded_by"),
        superseded_at=fields.optional_time("superseded_at"),
        author=fields.text("author"),
        author_name=fields.text("author_name"),
        created_at=fields.time("created_at"),
        updated_at=fields.time("updated_at"),
    )
    return [KeptDecision(file, decision)]


def _milestone(file: str, fields: Fields, body: str) -> list[Item]:
    milestone = Milestone(
        id=fields.id(),
        workspace_id="",
        title=fields.text("title"),
        type=fields.text("type"),
        description=bounded(body, "the description", MAX_TEXT),
        occurred_at=fields.time("occurred_at"),
        decisions=(),
        author=fields.text("author"),
        author_name=fields.text("author_name"),
        created_at=fields.time("created_at"),
        updated_at=fields.time("updated_at"),
    )
    return [KeptMilestone(file, milestone)]


def _version(file: str, fields: Fields, body: str) -> list[Item]:
    size = len(body.encode())
    version = ArtifactVersion(
        version=fields.number("version", 1),
        title=fields.text("title"),
        size_bytes=size,
        sha256=fields.text("sha256"),
        author=fields.text("author"),
        created_at=fields.time("written_at"),
    )
    artifact = Artifact(
        id=fields.id(),
        workspace_id="",
        chat_id=fields.optional("chat_id"),
        identifier=fields.text("identifier"),
        title=fields.text("title"),
        type=fields.text("type"),
        language=fields.optional("language"),
        version=fields.number("versions", 1),
        size_bytes=size,
        created_by=fields.text("created_by"),
        created_at=fields.time("created_at"),
        updated_at=fields.time("updated_at"),
    )
    return [KeptVersion(file, artifact, version, body)]


def _relations(file: str, fields: Fields, body: str) -> list[Item]:
    found: list[Item] = []
    for each in fields.records("relations"):
        start, end = each.record("from"), each.record("to")
        relation = Relation(
            id=each.id(),
            workspace_id="",
            start=Ref(start.text("type"), start.id()),
            end=Ref(end.text("type"), end.id()),
            relation=each.text("relation"),
            note=each.text("note", most=MAX_NOTE),
            author=each.text("author"),
            created_at=each.time("created_at"),
        )
        found.append(KeptRelation(file, relation))
    return found


def _filled(front: Mapping[str, Any]) -> dict[str, Any]:
    """Without the fields that say nothing; readers know what an absent one means."""
    return {name: value for name, value in front.items() if value is not None and value != "" and value != []}


def _time(millis: int | None) -> str | None:
    return None if millis is None else moment(millis)


def _name(title: str, id: str) -> str:
    return f"{slug_of(title, fallback='untitled', max_length=50)}-{id[-12:]}"
