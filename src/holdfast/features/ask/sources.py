"""Owns the sources of an answer: each commit, item and stretch of a file once, with its number, address and URL."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from holdfast.core.clock import iso
from holdfast.engines.git.model import BlameLine, Commit, FileChange, Tag
from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.cited.markdown import inert
from holdfast.features.ask.model import Citation
from holdfast.features.repositories.model import COMMIT, FILE, TAG, Item, Match, Repository

DIRECTORY = "directory"
MOST_SOURCES = 60
MOST_CHARACTERS = 24_000
"""Of one source."""

_NAMED = {"pull_request": "pull request", "issue": "issue", "discussion": "discussion", "release": "release"}
_WEB = re.compile(r"(?:https?://|ssh://|git://)(?:[^@/]+@)?([^/:]+)(?::\d+)?/(.+)|(?:[^@/]+@)?([^/:]+):(.+)")
_MOST_CHANGES = 60
_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\w*")
_OPENS_VERSION = re.compile(r"\W*(?:(?:version|release)\s+)?v?\d+\.\d+", re.I)
_LINKED = re.compile(r"\[([^\]]*)\](?:\([^)]*\)?)?")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something of a repository that can be cited, with what it says."""

    repository: Repository
    kind: str
    key: str
    """The commit's hash, the path, the item's number or the tag."""
    title: str
    text: str
    start_line: int = 0
    end_line: int = 0
    author: str = ""
    at: int | None = None
    url: str = ""
    similarity: float = 0.0
    exact: bool = False
    line: int = 0
    """The line of the definition that was asked for by name."""
    words: str = ""
    """What people wrote in it, where the text holds more than that."""
    is_read: bool = False
    """Whether the text was read where it is kept, for this question."""
    seen: str = ""
    """What git told besides: a patch, the lines that it was the last to change."""
    heading: str = ""
    """What stands above lines of a file: the section that they are in."""

    @property
    def prose(self) -> str:
        """What people wrote in it."""
        return self.words or self.text

    @property
    def version(self) -> str:
        """The version that it belongs to, as its heading or its own name tells; empty where it tells none."""
        if self.kind in (TAG, "release"):
            return self.key
        parts = [_LINKED.sub(r"\1", part).strip() for part in self.heading.split("›")]
        named = [part for part in parts if _VERSION.search(part)]
        # Notes of older versions may stand a level below: what is a version's own heading counts from there on.
        return next((part for part in reversed(named) if _OPENS_VERSION.match(part)), next(iter(named), ""))

    @property
    def address(self) -> str:
        """How it is called for good, across repositories."""
        slug = self.repository.slug
        if self.kind == COMMIT:
            return f"{slug}@{self.key[:7]}"
        if self.kind == FILE:
            return f"{slug}:{self.place}"
        if self.kind == DIRECTORY:
            return f"{slug}:{self.key}/" if self.key else f"{slug}:/"
        if self.kind in (TAG, "release"):
            return f"{slug}@{self.key}"
        # At GitLab a merge request and an issue may have the same number.
        mark = "!" if self.kind == "pull_request" and self.repository.host == "gitlab" else "#"
        return f"{slug}{mark}{self.key}"

    @property
    def place(self) -> str:
        """A path with its lines; a file that can't be read by lines is called by its path."""
        return f"{self.key}#L{self.start_line}-L{self.end_line}" if self.start_line else self.key

    @property
    def day(self) -> str:
        """When it came about, as a date; empty where that is not known."""
        return iso(self.at)[:10] if self.at else ""

    @property
    def told_day(self) -> str:
        """The same, or the day that the heading of its version tells."""
        named = _DAY.search(self.version)
        return self.day or (named[0] if named else "")

    def described(self) -> str:
        """What it is, in one line for people."""
        by = "".join(f", {part}" for part in (self.author, self.day) if part)
        if self.kind == COMMIT:
            return f"commit `{self.key[:7]}` {self.title}{by}"
        if self.kind == FILE:
            return f"`{self.place}`"
        if self.kind == DIRECTORY:
            return f"files below `{self.key or '/'}`"
        if self.kind == TAG:
            return f"tag `{self.key}`{by}"
        if self.kind == "release":
            return f"release {self.key} {self.title}{by}"
        return f"{_NAMED[self.kind]} {self.address.removeprefix(self.repository.slug)} {self.title}{by}"

    def citation(self, number: int) -> Citation:
        """It as a source of an answer."""
        return Citation(number, self.kind, self.repository.slug, self.address, self.title, self.url)


class Ledger:
    """What was found and read for one question, each source once, numbered in the order in which it came."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._evidence: dict[int, Evidence] = {}

    def __iter__(self) -> Iterator[tuple[int, Evidence]]:
        return iter(self._evidence.items())

    def __len__(self) -> int:
        return len(self._evidence)

    def add(self, evidence: Evidence) -> int:
        """Its number; 0 when there are too many sources already."""
        key = (evidence.kind, evidence.address)
        number = self._numbers.get(key)
        if number is None:
            if len(self._evidence) >= MOST_SOURCES:
                return 0
            number = self._numbers[key] = len(self._evidence) + 1
            self._evidence[number] = evidence
            return number
        known = self._evidence[number]
        better = evidence if evidence.is_read and not known.is_read else known
        seen = "\n".join(dict.fromkeys(part for part in (known.seen, evidence.seen) if part))
        self._evidence[number] = replace(better, seen=seen[:MOST_CHARACTERS])
        return number

    def get(self, number: int) -> Evidence | None:
        """The source of that number."""
        return self._evidence.get(number)

    def numbers(self) -> dict[str, int]:
        """Address → number."""
        return {evidence.address: number for number, evidence in self._evidence.items()}


def source_of(number: int, evidence: Evidence) -> ReadSource:
    """A source as citations are checked against: with who, when and where it is, which sentences say as well."""
    known = (evidence.author, evidence.day, evidence.key, evidence.repository.slug, evidence.heading)
    by = " ".join(part for part in known if part)
    text = "\n\n".join(part for part in (evidence.text[:MOST_CHARACTERS], evidence.seen) if part)
    lines = (evidence.start_line, evidence.end_line) if evidence.kind == FILE else (0, 0)
    return ReadSource(
        number, evidence.title, evidence.address, text, about=f"{by}\n{evidence.described()}", lines=lines
    )


def commit_evidence(repository: Repository, commit: Commit, seen: str = "") -> Evidence:
    """A commit: its message, who and when, and the files that it changed."""
    changed = [_changed(each) for each in commit.changes[:_MOST_CHANGES]]
    parts = [commit.message, "\n".join(changed)]
    return Evidence(
        repository,
        COMMIT,
        commit.sha,
        commit.subject,
        "\n\n".join(part for part in parts if part)[:MOST_CHARACTERS],
        author=commit.author,
        at=commit.authored_at,
        url=_commit_url(repository, commit.sha),
        words=commit.message,
        is_read=True,
        seen=seen,
    )


def blame_evidence(repository: Repository, path: str, run: BlameLine) -> Evidence:
    """The commit that was the last to change some lines; what else it says is for the store to tell."""
    return Evidence(
        repository,
        COMMIT,
        run.sha,
        run.subject,
        run.subject,
        author=run.author,
        at=run.authored_at,
        url=_commit_url(repository, run.sha),
        seen=f"Last changed {path} lines {run.start_line}-{run.end_line}",
    )


def item_evidence(repository: Repository, item: Item) -> Evidence:
    """A pull request, issue, release or discussion with what was said below it."""
    said = "\n\n".join(f"{remark.author}: {remark.body}" for remark in item.remarks)
    labels = f"Labels: {', '.join(item.labels)}" if item.labels else ""
    files = f"Files: {', '.join(item.files[:_MOST_CHANGES])}" if item.files else ""
    parts = (item.title, f"State: {item.state}" if item.state else "", labels, files, item.body, said)
    text = "\n\n".join(part for part in parts if part)
    words = "\n\n".join(part for part in (item.title, item.body, said) if part)
    return Evidence(
        repository,
        item.kind,
        item.number,
        item.title,
        text[:MOST_CHARACTERS],
        author=item.author,
        at=item.merged_at or item.created_at,
        url=item.url,
        words=words[:MOST_CHARACTERS],
        is_read=True,
    )


def tag_evidence(repository: Repository, tag: Tag) -> Evidence:
    """A tag and what it was given for."""
    text = f"{tag.name} {tag.sha}\n\n{tag.message}"
    return Evidence(
        repository, TAG, tag.name, tag.name, text, at=tag.tagged_at, words=tag.message or tag.name, is_read=True
    )


def file_evidence(
    repository: Repository, path: str, text: str, start_line: int, end_line: int, *, is_read: bool = False
) -> Evidence:
    """Lines of a file as it is at the head."""
    return Evidence(
        repository,
        FILE,
        path,
        path,
        text[:MOST_CHARACTERS],
        start_line,
        end_line,
        url=_file_url(repository, path, start_line, end_line),
        is_read=is_read,
    )


def evidence_of(match: Match) -> Evidence:
    """What a search found, as a source."""
    repository = match.repository
    if match.type == FILE:
        start = match.start_line or 0
        found = file_evidence(repository, match.path, match.content, start, max(start, match.end_line or start))
    else:
        key = match.commit if match.type == COMMIT else match.number or match.source_id.partition(":")[2]
        url = match.url or (_commit_url(repository, match.commit) if match.type == COMMIT else "")
        found = Evidence(repository, match.type, key, match.title, match.content[:MOST_CHARACTERS], url=url)
    line = match.facts.get("line")
    heading = match.title.removeprefix(match.path).removeprefix(": ") if match.type == FILE else ""
    return replace(
        found,
        author=match.author,
        at=match.occurred_at,
        similarity=match.similarity,
        exact=match.exact,
        line=line if isinstance(line, int) else 0,
        heading=heading,
    )


def source_list(cited: Sequence[tuple[int, Evidence]], several: bool) -> str:
    """What the numbers of an answer mean."""
    lines = []
    for number, evidence in cited:
        place = f"{evidence.repository.slug}: " if several else ""
        link = f" – <{evidence.url}>" if evidence.url else f" – `{evidence.address}`"
        lines.append(f"- [{number}] {place}{inert(' '.join(evidence.described().split()))}{link}")
    return "## Sources\n\n" + "\n".join(lines)


def _changed(change: FileChange) -> str:
    before = f"{change.old_path} → " if change.old_path else ""
    return f"{change.status} {before}{change.path} +{change.insertions} -{change.deletions}"


def _web(repository: Repository) -> str:
    """Where people read the repository; empty where no host is known."""
    if not repository.host or not (found := _WEB.fullmatch(repository.location)):
        return ""
    host, path = found[1] or found[3], found[2] or found[4]
    return f"https://{host}/{path.strip('/').removesuffix('.git')}"


def _commit_url(repository: Repository, sha: str) -> str:
    base = _web(repository)
    return f"{base}{'/-' if repository.host == 'gitlab' else ''}/commit/{sha}" if base else ""


def _file_url(repository: Repository, path: str, start_line: int, end_line: int) -> str:
    base = _web(repository)
    if not base or not repository.head:
        return ""
    place = f"{repository.head}/{quote(path)}"
    if repository.host == "gitlab":
        return f"{base}/-/blob/{place}" + (f"#L{start_line}-{end_line}" if start_line else "")
    return f"{base}/blob/{place}" + (f"#L{start_line}-L{end_line}" if start_line else "")
