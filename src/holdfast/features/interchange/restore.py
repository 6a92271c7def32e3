"""Owns the way of imported things into a workspace: under their own ids where those are free, never twice."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.core.ids import is_id
from holdfast.core.principal import Principal
from holdfast.core.text.secrets_scan import first_secret_kind
from holdfast.engines.extract.formats import HEAD_BYTES, recognise
from holdfast.engines.search.model import Entry
from holdfast.features.artifacts import store as artifacts
from holdfast.features.artifacts.model import NewArtifact, checked
from holdfast.features.artifacts.passages import Passages, entries_of
from holdfast.features.documents import store as documents
from holdfast.features.documents.model import FileTooLarge, checked_filename, media_type_of
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.upload import PART_BYTES
from holdfast.features.intelligence import decisions, milestones
from holdfast.features.intelligence import store as intelligence
from holdfast.features.intelligence.graph import relation_store as relations
from holdfast.features.intelligence.graph.vocabulary import checked_relation
from holdfast.features.intelligence.model import Decision, Milestone, Ref, Relation
from holdfast.features.interchange import store
from holdfast.features.interchange.export import ORIGIN
from holdfast.features.interchange.model import (
    ImportProblem,
    KeptDecision,
    KeptDocument,
    KeptMemory,
    KeptMilestone,
    KeptRelation,
    KeptVersion,
    Report,
)
from holdfast.features.memory import store as memories
from holdfast.features.memory.model import Memory, MemoryChange, Trust
from holdfast.features.memory.writing import wording
from holdfast.features.memory.writing.draft import Refusal, changed, entry_of, revision_of, slugs_for, trust_of
from holdfast.storage.database import Tx

PREFIXES = {
    "memory": "mem",
    "decision": "dec",
    "milestone": "mil",
    "artifact": "art",
    "document": "doc",
    "relation": "rel",
    "case": "case",
    "proof": "prf",
    "comment": "cmt",
    "record": "rec",
}

_WHEN = 16
"""How many hexadecimal digits of an id are its time."""
_CLOCK_ERROR_MILLIS = 86_400_000

Told = TypeVar("Told", Decision, Milestone)
Meant = Callable[[Tx, str, Ref, str], Ref]
"""The entity of a workspace that a reference of a field means; NotFound or Invalid where it is none."""


class NotImported(Exception):
    """Why one thing was left out; the rest goes on."""


@dataclass(slots=True)
class Arriving:
    """A document whose bytes come in one after another, in several transactions."""

    kept: KeptDocument
    id: str | None = None
    """Where its bytes go; None while it has no place, or needs none."""


@dataclass(slots=True)
class Restore:
    """One batch of an import, in one transaction."""

    tx: Tx
    principal: Principal
    workspace_id: str
    now: int
    meant: Meant
    documents: DocumentService
    report: Report
    entries: list[Entry]

    def memory(self, item: KeptMemory) -> None:
        """A memory with its history and its place in time."""
        kept = self._owned_memory(item.memory)
        refuse_secrets(
            kept.content,
            kept.title,
            *kept.tags,
            kept.source,
            kept.status_note,
            *(each.content for each in item.history),
        )
        id, here = self.local("memory", kept.id)
        superseded_by = self.local("memory", kept.superseded_by)[0] if kept.superseded_by else None
        wanted = replace(kept, id=id, workspace_id=self.workspace_id, superseded_by=superseded_by)
        if here:
            self._meet(wanted)
            return
        same = memories.find_current(self.tx, self.workspace_id, wanted.digest)
        if wanted.status == "current" and same is not None:
            self.known("memory", item.memory.id, same.id)
            store.redirect(self.tx, self.workspace_id, id, same.id)
            self.report.unchanged += 1
            return
        made = self._with_free_slug(wanted)
        memories.insert_revisions(
            self.tx,
            [
                replace(each, memory_id=id, editor=self.whose(each.editor), written_at=self.past(each.written_at))
                for each in item.history
            ],
        )
        self.known("memory", item.memory.id, id)
        self.entries.append(entry_of(made))
        self.report.create("memory")

    def decision(self, item: KeptDecision) -> None:
        """A decision; its relations follow."""
        kept = item.decision
        refuse_secrets(kept.title, kept.rationale, *kept.alternatives)
        id, here = self.local("decision", kept.id)
        wanted: Decision = replace(
            self._credited(kept),
            id=id,
            workspace_id=self.workspace_id,
            supersedes=self.local("decision", kept.supersedes)[0] if kept.supersedes else None,
            superseded_by=self.local("decision", kept.superseded_by)[0] if kept.superseded_by else None,
        )
        if here:
            found = intelligence.get_decision(self.tx, self.workspace_id, id)
            self.compare(found == _as_credited(wanted, found))
            return
        intelligence.put_decision(self.tx, wanted)
        self.known("decision", kept.id, id)
        self.entries.append(decisions.entry_of(wanted))
        self.report.create("decision")

    def milestone(self, item: KeptMilestone) -> None:
        """A milestone; its ties to decisions are relations."""
        kept = item.milestone
        refuse_secrets(kept.title, kept.description)
        id, here = self.local("milestone", kept.id)
        wanted: Milestone = replace(self._credited(kept), id=id, workspace_id=self.workspace_id)
        if here:
            found = intelligence.get_milestone(self.tx, self.workspace_id, id)
            self.compare(found is not None and replace(found, decisions=()) == _as_credited(wanted, found))
            return
        intelligence.put_milestone(self.tx, wanted)
        self.known("milestone", kept.id, id)
        self.entries.append(milestones.entry_of(wanted))
        self.report.create("milestone")

    def artifact(self, versions: list[KeptVersion], passages: Passages) -> None:
        """An artifact with all its versions, which must all be there."""
        versions.sort(key=lambda each: each.version.version)
        newest = versions[-1]
        kept = newest.artifact
        if len(versions) != kept.version or any(each.version.version != n for n, each in enumerate(versions, 1)):
            raise NotImported(f"some of its {kept.version} versions are missing")
        for each in versions:
            checked(
                NewArtifact(kept.identifier, each.version.title, kept.type, each.content, kept.language, kept.chat_id)
            )
        id, here = self.local("artifact", kept.id)
        if here:
            found = artifacts.versions(self.tx, id, before=2**62, limit=kept.version + 1)
            self.compare([each.sha256 for each in found] == [_sha256(each.content) for each in reversed(versions)])
            return
        made = replace(
            kept,
            id=id,
            workspace_id=self.workspace_id,
            created_by=self.whose(kept.created_by),
            created_at=self.past(kept.created_at),
            updated_at=self.past(kept.updated_at),
        )
        if not artifacts.insert(self.tx, made):
            raise NotImported(f"another artifact has the identifier {kept.identifier!r}")
        for each in versions:
            written = replace(
                each.version,
                sha256=_sha256(each.content),
                author=self.whose(each.version.author),
                created_at=self.past(each.version.created_at),
            )
            artifacts.insert_version(self.tx, id, written, each.content)
        self.known("artifact", kept.id, id)
        self.entries += entries_of(made, "", passages)
        self.report.create("artifact")

    def document(self, arriving: Arriving) -> None:
        """Make room for a document's bytes, unless they are here."""
        kept = arriving.kept.document
        arriving.id = None
        if kept.size_bytes > self.documents.max_bytes:
            raise FileTooLarge(self.documents.max_bytes)
        id, here = self.local("document", kept.id)
        same = documents.find_by_hash(self.tx, self.workspace_id, kept.sha256)
        if here or same is not None:
            self.known("document", kept.id, same.id if same is not None else id)
            self.compare(same is not None and (not here or same.id == id))
            return
        holder = documents.blob_workspace(self.tx, id)
        if holder not in (None, self.workspace_id):
            raise NotImported("its id is taken by an upload elsewhere; import it again later")
        # What an import that was stopped left.
        documents.abandon_blob(self.tx, id)
        documents.begin_blob(self.tx, id, self.workspace_id, self.now)
        arriving.id = id

    def document_bytes(self, arriving: Arriving, first_part: int, data: bytes) -> None:
        """Keep some of its bytes."""
        if arriving.id is None:
            return
        for number, start in enumerate(range(0, len(data), PART_BYTES), first_part):
            documents.add_part(self.tx, arriving.id, number, data[start : start + PART_BYTES], self.now)

    def document_whole(self, arriving: Arriving) -> None:
        """The document, if its bytes are those that were exported; it is read as any upload is."""
        kept, id = arriving.kept.document, arriving.id
        if id is None:
            return
        digest, size, head, number = hashlib.sha256(), 0, b"", 0
        while (part := documents.part(self.tx, id, number)) is not None:
            digest.update(part)
            size, head, number = size + len(part), head or part[:HEAD_BYTES], number + 1
        try:
            if not size or (size, digest.hexdigest()) != (kept.size_bytes, kept.sha256):
                raise NotImported("its bytes are missing, or are not those that were exported")
            name, media_type = checked_filename(kept.filename), media_type_of(kept.media_type)
            kind = recognise(name, media_type, head)
        except (NotImported, Invalid):
            documents.abandon_blob(self.tx, id)
            raise
        believed = self.is_believed()
        made = replace(
            kept,
            id=id,
            workspace_id=self.workspace_id,
            filename=name,
            title=name,
            media_type=media_type,
            format=kind.format,
            language=kind.language,
            created_by=self.whose(kept.created_by),
            created_by_name=kept.created_by_name if believed else self.principal.name,
            created_at=self.past(kept.created_at),
            updated_at=self.now,
        )
        if not self.documents.adopt(self.tx, self.principal, made):
            documents.abandon_blob(self.tx, id)
            self.report.unchanged += 1
            return
        self.known("document", kept.id, id)
        self.report.create("document")

    def relation(self, item: KeptRelation) -> Relation:
        """A tie, when both its ends are here; as it stands here."""
        kept = item.relation
        refuse_secrets(kept.note)
        name = checked_relation(kept.relation)
        start, end = self._end(kept.start, "from"), self._end(kept.end, "to")
        id, here = self.local("relation", kept.id)
        wanted = replace(
            kept,
            id=id,
            workspace_id=self.workspace_id,
            start=start,
            end=end,
            relation=name,
            author=self.whose(kept.author),
            created_at=self.past(kept.created_at),
        )
        self.tie(wanted, here)
        if not here:
            self.known("relation", kept.id, id)
        return wanted

    def tie(self, wanted: Relation, here: bool = False) -> None:
        """Keep a tie between two things that are here, once."""
        if here or not relations.add(self.tx, wanted):
            self.report.unchanged += 1
        else:
            self.report.create("relation")

    def _end(self, ref: Ref, field: str) -> Ref:
        found = Ref(ref.type, self.local(ref.type, ref.id)[0]) if ref.type in PREFIXES else ref
        try:
            return self.meant(self.tx, self.workspace_id, found, field)
        except (NotFound, Invalid):
            raise NotImported(f"a relation names the {ref.type} {ref.id}, which is not here") from None

    def local(self, type: str, origin: str) -> tuple[str, bool]:
        """The id that something has or gets here, and whether it is here: its own id, unless another space has that."""
        known = store.recalled(self.tx, self.workspace_id, type, ORIGIN + origin)
        if known is not None:
            return known, True
        holder = store.owner(self.tx, type, origin)
        if holder == self.workspace_id:
            return origin, True
        if holder is None and is_id(PREFIXES[type], origin):
            return origin, False
        digest = _sha256(f"{self.workspace_id} {origin}")
        # The part that tells when it was made stays: what was said first sorts first here, too.
        made = origin.partition("_")[2][:_WHEN] if is_id(PREFIXES[type], origin) else ""
        derived = f"{PREFIXES[type]}_{made}{digest[: 32 - len(made)]}"
        return derived, store.owner(self.tx, type, derived) == self.workspace_id

    def known(self, type: str, origin: str, id: str) -> None:
        if origin != id:
            store.remember(self.tx, self.workspace_id, type, ORIGIN + origin, id)

    def compare(self, same: bool) -> None:
        if not same:
            raise NotImported("it is here already and differs; it was left as it is")
        self.report.unchanged += 1

    def _owned_memory(self, memory: Memory) -> Memory:
        """As told, for an admin; nobody else imports words as somebody else's."""
        content = wording.clean(memory.content)
        wording.check_length(content)
        told = replace(
            memory,
            content=content,
            digest=wording.digest_of(content, memory.chat_id or "" if memory.visibility == "chat" else ""),
            title=wording.checked_title(memory.title) or wording.title_of(content),
            category=wording.checked_category(memory.category),
            tags=wording.checked_tags(memory.tags),
            source=wording.checked_source(memory.source),
            trust=trust_of(self.principal, memory.trust, memory.source),
            learned_at=self.past(memory.learned_at),
            updated_at=self.past(memory.updated_at),
        )
        if self.is_believed():
            return told
        return replace(told, author=self.principal.actor, author_name=self.principal.name)

    def _credited(self, kept: Told) -> Told:
        kept = replace(kept, created_at=self.past(kept.created_at), updated_at=self.past(kept.updated_at))
        if self.is_believed():
            return kept
        return replace(kept, author=self.principal.actor, author_name=self.principal.name)

    def credited(self, memory: Memory, said_by: str, *, agent: bool) -> Memory:
        """A memory from elsewhere with the name of who said it there, where files may say so."""
        said_by = " ".join(wording.clean(said_by).split())
        if not said_by or not self.is_believed():
            return memory
        refuse_secrets(said_by)
        trust: Trust = "agent" if agent else memory.trust
        return replace(memory, author=f"imported:{said_by}", author_name=said_by, trust=trust)

    def is_believed(self) -> bool:
        """Whether files may say who wrote what: those of a person who is trusted with the whole workspace."""
        return self.principal.is_person and self.principal.role in ("owner", "admin")

    def whose(self, author: str) -> str:
        return author if self.is_believed() else self.principal.actor

    def past(self, moment: int) -> int:
        """A moment at which something was written; one that is still to come, beyond a clock's error, is now."""
        return moment if moment <= self.now + _CLOCK_ERROR_MILLIS else self.now

    def _meet(self, wanted: Memory) -> None:
        """It is here: unchanged, or edited in the file, or changed here since."""
        found = memories.lock(self.tx, self.workspace_id, wanted.id)
        assert found is not None
        wanted = replace(wanted, slug=found.slug, author=found.author, author_name=found.author_name, trust=found.trust)
        if wanted == found:
            self.report.unchanged += 1
            return
        told = replace(
            found,
            title=wanted.title,
            content=wanted.content,
            digest=wanted.digest,
            category=wanted.category,
            tags=wanted.tags,
            occurred_at=wanted.occurred_at,
        )
        if wanted != told or found.status != "current":
            raise NotImported("the memory is here already and has changed since; it was left as it is")
        change = MemoryChange(wanted.content, wanted.title, wanted.category, wanted.tags, wanted.occurred_at)
        edited = changed(found, change, self.now)
        if isinstance(edited, Refusal):
            raise NotImported(edited.reason)
        same = memories.find_current(self.tx, self.workspace_id, edited.digest)
        if same is not None and same.id != found.id:
            raise NotImported(f"the memory {same.slug} says this already")
        memories.insert_revisions(self.tx, [revision_of(found, self.principal.actor)])
        memories.replace(self.tx, edited)
        self.entries.append(entry_of(edited))
        self.report.updated += 1

    def _with_free_slug(self, wanted: Memory) -> Memory:
        for slug in (wanted.slug, *slugs_for(wanted.title, wanted.digest)):
            made = replace(wanted, slug=slug)
            if memories.insert(self.tx, made):
                return made
        raise NotImported("no slug is free for it")


def attempt(report: Report, file: str, work: Callable[[], None]) -> None:
    """Do one thing of a batch; what it is refused for becomes a problem of its file."""
    try:
        work()
    except NotImported as problem:
        report.problem(ImportProblem(file, str(problem)))
    except HoldfastError as problem:
        fields = "; ".join(f"{each.field}: {each.message}" for each in problem.fields)
        report.problem(ImportProblem(file, fields or problem.message))


def _as_credited(wanted: Told, found: Told | None) -> Told:
    """For comparing: who told it does not matter."""
    return wanted if found is None else replace(wanted, author=found.author, author_name=found.author_name)


def refuse_secrets(*texts: str) -> None:
    kind = first_secret_kind(texts)
    if kind is not None:
        raise NotImported(f"it holds a credential ({kind}), which is never stored")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
