"""Owns how a passage of a repository is shown and cited."""

from dataclasses import dataclass

from holdfast.engines.search import Entry, Hit
from holdfast.features.repositories.model import COMMIT, FILE, TAG, Match, Repository


@dataclass(frozen=True, slots=True)
class FileMatch:
    """A file that a piece of work is likely to touch. `score` is 0–1 and compares files of one answer."""

    repository: Repository
    path: str
    score: float
    reasons: tuple[str, ...]
    """What spoke for it, strongest first: named, passages, past, activity."""
    past: tuple[str, ...] = ()
    """The commits (and pull requests, as `pr:12`) like the query that changed it, the most alike first."""


LONGEST_SNIPPET = 400
_CITED_AS = {"pull_request": "pr"}


def match_of(repository: Repository, found: Hit | Entry, similarity: float, *, exact: bool = False) -> Match:
    """What the index has, or would have, as a passage of its repository."""
    name = found.id.removeprefix(f"{repository.id}/")
    start, end = found.meta.get("start_line"), found.meta.get("end_line")
    is_file = found.type == FILE
    return Match(
        repository=repository,
        type=found.type,
        source_id=file_source(name, start, end) if is_file else f"{_CITED_AS.get(found.type, found.type)}:{name}",
        title=found.title,
        content=found.text if is_file or found.text.startswith(found.title) else f"{found.title}\n\n{found.text}",
        similarity=similarity,
        occurred_at=found.occurred_at,
        author=found.author,
        path=name if is_file else "",
        start_line=start,
        end_line=end,
        commit=str(found.meta.get("sha", "")),
        number="" if found.type in (FILE, COMMIT, TAG) else str(found.meta.get("number", name)),
        url=str(found.meta.get("url", "")),
        exact=exact,
        facts={"files": found.meta["files"]} if found.meta.get("files") else {},
    )


def hit_of(match: Match) -> Hit:
    """A passage of a repository as search across everything shows it."""
    repository = match.repository
    name = match.path or match.commit or match.source_id.partition(":")[2]
    known = {
        "repository": repository.slug,
        "path": match.path,
        "start_line": match.start_line,
        "end_line": match.end_line,
        "sha": match.commit,
        "number": match.number,
        "url": match.url,
    }
    return Hit(
        type=match.type,
        id=f"{repository.id}/{name}",
        part=0,
        title=match.title,
        snippet=match.content[:LONGEST_SNIPPET],
        score=match.similarity,
        learned_at=repository.last_synced_at or repository.created_at,
        occurred_at=match.occurred_at,
        meta={key: value for key, value in known.items() if value},
        author=match.author,
        text=match.content,
        collection=repository.id,
    )


def file_source(path: str, start: int | None, end: int | None) -> str:
    """How a passage of a file is cited; a file without passages by its path alone."""
    return f"file:{path}#L{start}-L{end}" if start is not None and end is not None else f"file:{path}"
