"""Owns the values of import and export: files, what is read from them, and the report of what became of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.core.errors import HoldfastError
from holdfast.features.artifacts.model import Artifact, ArtifactVersion
from holdfast.features.cases.model import Case, Comment, HistoryEntry, NewLink
from holdfast.features.cases.proofs.model import Proof
from holdfast.features.collections.model import CollectionVector, EdgeFacts, GraphRecord
from holdfast.features.documents.model import Document
from holdfast.features.intelligence.model import Decision, Milestone, Relation
from holdfast.features.memory.model import Memory, Revision

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_DATA_BYTES = 128 * 1024 * 1024
"""For a JSON or JSON-lines file, which holds a whole store."""
MAX_PROBLEMS = 1_000
_LONGEST_SHOWN = 500
# What would move a terminal's cursor, or what no answer can hold.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def shown(text: str) -> str:
    """A name or a word from a file, safe to print."""
    return _UNSHOWN.sub("\ufffd", text[:_LONGEST_SHOWN])


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to import, by its path below what was named."""

    path: str
    data: bytes
    problem: str = ""
    """Why there are no data, where it could not be read."""


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """Something that was not imported, and why; never what a refused credential says."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """A text from elsewhere that is to become a memory."""

    file: str
    content: str
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    occurred_at: int | None = None
    learned_at: int | None = None
    source: str = ""
    said_by: str = ""
    """Who said it there."""
    said_by_agent: bool = False
    names: tuple[str, ...] = ()
    """What links of the same import call it."""


@dataclass(frozen=True, slots=True)
class NoteLink:
    """A tie from elsewhere between two named notes."""

    file: str
    start: str
    relation: str
    end: str


@dataclass(frozen=True, slots=True)
class KeptMemory:
    """A memory with its history, as exported: ids are those of its origin."""

    file: str
    memory: Memory
    history: tuple[Revision, ...]


@dataclass(frozen=True, slots=True)
class KeptDecision:
    file: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class KeptMilestone:
    file: str
    milestone: Milestone


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """One version of an artifact; its newest one makes the artifact."""

    file: str
    artifact: Artifact
    version: ArtifactVersion
    content: str


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """What is known of a document; its bytes follow."""

    file: str
    document: Document


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """Some bytes of the document that came before."""

    file: str
    data: bytes


@dataclass(frozen=True, slots=True)
class KeptRelation:
    file: str
    relation: Relation
    edge: EdgeFacts | None = None
    """What agents said of it, where they told it as an edge."""


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A record of a collection. What it is tied to are relations."""

    file: str
    record: GraphRecord


@dataclass(frozen=True, slots=True)
class KeptVector:
    """A text or a given vector of a collection."""

    file: str
    vector: CollectionVector


@dataclass(frozen=True, slots=True)
class KeptCase:
    """A case with all that was said of it. Runs of its proofs are not among it: a server believes only its own."""

    file: str
    case: Case
    links: tuple[NewLink, ...]
    proofs: tuple[Proof, ...]
    comments: tuple[Comment, ...]
    history: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True)
class KeptCaseTies:
    """What a case is part of, and what it is linked to: brought in once all cases are here."""

    file: str
    case_id: str
    parent: str | None
    links: tuple[NewLink, ...]


Item = (
    Note
    | NoteLink
    | KeptMemory
    | KeptDecision
    | KeptMilestone
    | KeptVersion
    | KeptDocument
    | KeptBytes
    | KeptRelation
    | KeptRecord
    | KeptVector
    | KeptCase
    | KeptCaseTies
    | ImportProblem
)


@dataclass(slots=True)
class Report:
    """What an import did."""

    created: dict[str, int] = field(default_factory=dict)
    """New things by type."""
    updated: int = 0
    """Memories whose exported text somebody edited."""
    unchanged: int = 0
    """Known from an earlier import, or said by another memory already."""
    ignored: int = 0
    """Files of kinds that hold nothing to import."""
    problems: list[ImportProblem] = field(default_factory=list)
    more_problems: int = 0

    def create(self, type: str) -> None:
        self.created[type] = self.created.get(type, 0) + 1

    def problem(self, problem: ImportProblem) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(ImportProblem(shown(problem.file), shown(problem.reason)))
        else:
            self.more_problems += 1


Exported = Mapping[str, int]
"""How many of each type an export wrote."""


class ImportTooLarge(HoldfastError):
    """More bytes than one import takes."""

    code = "body_too_large"
    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"An import has at most {limit // 1024**2} MB; import it in parts.")
