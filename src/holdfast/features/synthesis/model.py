"""Owns what synthesis makes: findings with their citations, the drafts they are written from, and their states."""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import orjson

from holdfast.features.intelligence.model import Status

FindingKind = Literal["architecture", "components", "hot_spots", "owners", "glossary", "decision", "milestone"]
WrittenKind = Literal[FindingKind, "decisions", "milestones"]
"""As people ask for one: the kinds that are a page each are plural, so these two may be as well."""
KINDS: tuple[FindingKind, ...] = get_args(FindingKind)
PAGES: tuple[FindingKind, ...] = ("architecture", "components", "hot_spots", "owners", "glossary")
"""The kinds that are one page each, kept as an artifact."""
TargetType = Literal["artifact", "decision", "milestone"]
FindingState = Literal["derived", "edited", "dismissed"]
"""Still ours; changed by a person, who owns it now; taken away by a person, and not written again."""

AUTHOR = "Holdfast synthesis"
PAGE = "page"
"""The key of a kind that has one finding."""


def kind_of(written: WrittenKind | None) -> FindingKind | None:
    """The kind that somebody asks for."""
    match written:
        case "decisions":
            return "decision"
        case "milestones":
            return "milestone"
    return written


@dataclass(frozen=True, slots=True)
class FindingOrigin:
    """Where something is from: lines of a file, a commit, or an item of the host."""

    type: Literal["file", "commit", "pull_request", "issue", "release", "discussion", "tag"]
    id: str
    start_line: int | None = None
    end_line: int | None = None

    @property
    def label(self) -> str:
        """As it is written: `path#L1-L9`, the first seven digits of a commit, `#12`, the name of a tag."""
        match self.type:
            case "file":
                return self.id if self.start_line is None else f"{self.id}#L{self.start_line}-L{self.end_line}"
            case "commit":
                return self.id[:7]
            case "pull_request" | "issue" | "discussion":
                return f"#{self.id}"
        return f"{self.type} {self.id}"


def in_file(path: str, start_line: int | None = None, end_line: int | None = None) -> FindingOrigin:
    """A citation of a file's lines, or of the file as a whole."""
    return FindingOrigin("file", path, start_line, start_line if end_line is None else end_line)


def in_commit(sha: str) -> FindingOrigin:
    """A citation of a commit."""
    return FindingOrigin("commit", sha)


@dataclass(frozen=True, slots=True)
class FindingDraft:
    """What would be written now. `at` is when it was decided or reached; a page has none."""

    kind: FindingKind
    key: str
    title: str
    body: str
    citations: tuple[FindingOrigin, ...]
    status: Status = "accepted"
    alternatives: tuple[str, ...] = ()
    at: int | None = None
    superseded_by: str | None = None
    """The key of the decision that took its place."""
    sources: tuple[tuple[str, str], ...] = ()
    """Of a page: each numbered source's label and its words, for a model to write from."""
    made_of: str = ""
    """The digest of what a model wrote it from; its words differ from one time to the next."""

    @property
    def target_type(self) -> TargetType:
        if self.kind == "decision" or self.kind == "milestone":
            return self.kind
        return "artifact"

    @property
    def digest(self) -> str:
        """What it is made of; another draft of the same digest would change nothing."""
        if self.made_of:
            return self.made_of
        labels = [citation.label for citation in self.citations]
        return digest_of(
            self.title, self.body, labels, self.status, self.alternatives, self.at, self.superseded_by, self.sources
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding on record."""

    repository_id: str
    kind: FindingKind
    key: str
    title: str
    body: str
    citations: tuple[FindingOrigin, ...]
    target_type: TargetType
    target_id: str
    digest: str
    written: str
    state: FindingState
    updated_at: int


def digest_of(*values: object) -> str:
    """A short name for exactly these values."""
    return hashlib.sha256(orjson.dumps(values)).hexdigest()[:32]
