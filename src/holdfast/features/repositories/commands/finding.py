"""Owns `holdfast repos search` and `files`: passages of repositories, and the files that work is likely to touch."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from holdfast.core.clock import iso_or_none
from holdfast.core.commands import Argument, InWorkspace, Option, Session, command
from holdfast.core.errors import Invalid
from holdfast.core.text.printable import printable
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.model import ENTRY_TYPES, Match, RepositoryNotFound
from holdfast.features.repositories.operations.finding import match_answer
from holdfast.features.repositories.service import MAX_REPOSITORIES_ASKED, Repositories

_LINES = 6
"""Of a passage, for people."""


class Among(InWorkspace):
    """Which repositories."""

    repos: Annotated[list[str], Option("--repo", metavar="SLUG")] = Field(
        [], description="A repository; may be repeated (default: all)."
    )


class Search(Among):
    """What `search` is given."""

    query: Annotated[str, Argument()]
    limit: int = Field(12, ge=1, le=50)
    types: Annotated[list[str], Option("--type", choices=ENTRY_TYPES)] = Field(
        [], description="Only these; may be repeated."
    )


@command("search", help="Find passages: by words, or a symbol, path, commit hash or #number exactly.")
async def search(session: Session, repositories: Repositories, finding: RepositoryFinding, given: Search) -> None:
    slugs = await slugs_of(session, repositories, given)
    found = await finding.search(
        session.principal, slugs, given.query, limit=given.limit, types=frozenset(given.types) or None
    )
    if session.out.as_json:
        session.out.table(map(match_answer, found), [])
        return
    session.out.write("\n".join("".join(f"{line}\n" for line in _match_lines(each)) for each in found))
    if not found:
        session.out.note("Nothing there has to do with it.")


class Files(Among):
    """What `files` is given."""

    work: Annotated[str, Argument()]
    limit: int = Field(10, ge=1, le=50)


@command(
    "files",
    help="Find the files that a piece of work is likely to touch: by what they say and by what similar work changed.",
)
async def files(session: Session, repositories: Repositories, finding: RepositoryFinding, given: Files) -> None:
    slugs = await slugs_of(session, repositories, given)
    found = await finding.files(session.principal, slugs, given.work, limit=given.limit)
    whole = session.out.as_json
    rows = [
        {
            "repository": each.repository.slug,
            "path": each.path if whole else printable(each.path),
            "score": round(each.score, 4),
            "reasons": list(each.reasons),
            "past": list(each.past) if whole else [name[:12] for name in each.past],
        }
        for each in found
    ]
    session.out.table(rows, ["repository", "path", "score", "reasons", "past"], "No file there has to do with it.")


async def check_within(
    session: Session, repositories: Repositories, slugs: Sequence[str], workspace: str | None
) -> None:
    """Where a workspace is named, its repositories are the only ones that can be found."""
    if workspace is None:
        return
    id = await session.workspace(workspace)
    for slug in slugs:
        if (await repositories.get(session.principal, slug)).workspace_id != id:
            raise RepositoryNotFound(slug)


async def slugs_of(session: Session, repositories: Repositories, given: Among) -> Sequence[str]:
    """The repositories that were named, or every one there is: in all workspaces, or in the one that was named."""
    if given.repos:
        await check_within(session, repositories, given.repos, given.workspace)
        return given.repos
    within = None if given.workspace is None else await session.workspace(given.workspace)
    page = await repositories.list(session.principal, workspace_id=within, limit=MAX_REPOSITORIES_ASKED)
    if not page.items:
        raise Invalid("There is no repository yet; add one with `holdfast repos add PATH_OR_URL`.")
    if page.next_cursor is not None:
        raise Invalid(f"There are more than {MAX_REPOSITORIES_ASKED} repositories; name some with --repo.")
    return [each.slug for each in page.items]


def _match_lines(match: Match) -> list[str]:
    how = "exactly" if match.exact else f"{match.similarity:.2f}"
    by = "".join(f", {part}" for part in (match.author, (iso_or_none(match.occurred_at) or "")[:10]) if part)
    lines = [line for line in match.content.splitlines() if line.strip()]
    shown = [f"    {line}" for line in lines[:_LINES]] + (["    …"] if len(lines) > _LINES else [])
    return [printable(line) for line in (f"{match.repository.slug} {match.source_id} ({how}{by})", *shown)]
