"""Owns `holdfast repos search`, `ask` and `findings`: passages, answers and what was read out of repositories."""

import re
from collections.abc import Sequence
from typing import Any

import click

from holdfast.core.clock import iso, iso_or_none
from holdfast.core.errors import Invalid
from holdfast.features.repositories.model import ENTRY_TYPES, Match
from holdfast.features.repositories.service import MAX_REPOSITORIES_ASKED
from holdfast.features.synthesis.model import KINDS, Finding, FindingKind
from holdfast.surfaces.cli.frame import Session, command

_group = click.Group()
_repo = click.option(
    "--repo", "repos", multiple=True, metavar="SLUG", help="A repository; may be repeated (default: all)."
)
_SOURCE = "cli"
_LINES = 6
"""Of a passage, for people."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@command(
    _group,
    "search",
    click.argument("query"),
    _repo,
    click.option("--limit", type=click.IntRange(1, 50), default=12, show_default=True),
    click.option("--type", "types", multiple=True, type=click.Choice(ENTRY_TYPES), help="Only these; may be repeated."),
    help="Find passages: by words, or a symbol, path, commit hash or #number exactly.",
)
async def search(session: Session, query: str, repos: tuple[str, ...], limit: int, types: tuple[str, ...]) -> None:
    found = await session.services.repository_finding.search(
        session.principal, await _slugs(session, repos), query, limit=limit, types=frozenset(types) or None
    )
    if session.out.as_json:
        session.out.table([_match(each) for each in found], [])
        return
    for number, each in enumerate(found):
        for line in [*([""] if number else []), *_match_lines(each)]:
            click.echo(line)
    if not found:
        session.out.note("Nothing there has to do with it.")


@command(
    _group,
    "files",
    click.argument("work"),
    _repo,
    click.option("--limit", type=click.IntRange(1, 50), default=10, show_default=True),
    help="Find the files that a piece of work is likely to touch: by what they say and by what similar work changed.",
)
async def files(session: Session, work: str, repos: tuple[str, ...], limit: int) -> None:
    found = await session.services.repository_finding.files(
        session.principal, await _slugs(session, repos), work, limit=limit
    )
    rows = [
        {
            "repository": each.repository.slug,
            "path": each.path if session.out.as_json else tame(each.path),
            "score": round(each.score, 4),
            "reasons": list(each.reasons),
            "past": [name[:12] for name in each.past] if not session.out.as_json else list(each.past),
        }
        for each in found
    ]
    session.out.table(rows, ["repository", "path", "score", "reasons", "past"], "No file there has to do with it.")


@command(
    _group,
    "ask",
    click.argument("question"),
    _repo,
    help="Answer a question from the history and the files, with every source cited.",
)
async def ask(session: Session, question: str, repos: tuple[str, ...]) -> None:
    slugs = await _slugs(session, repos)
    answer = await session.services.ask.ask(session.principal, slugs, question, source=_SOURCE)
    session.out.record(
        {
            "question": question,
            "repositories": list(slugs),
            "markdown": answer.markdown,
            "citations": [
                {
                    "number": each.number,
                    "kind": each.kind,
                    "repository": each.repository,
                    "address": each.address,
                    "title": each.title,
                    "url": each.url,
                }
                for each in answer.citations
            ],
            "dropped": answer.dropped,
            "removed": answer.removed,
            "model": answer.model,
            "note": answer.note,
            "tokens_in": answer.tokens_in,
            "tokens_out": answer.tokens_out,
        },
        [tame(answer.markdown)],
    )


@command(
    _group,
    "findings",
    click.argument("slug"),
    click.option("--kind", type=click.Choice(KINDS), help="Only findings of this kind."),
    help="Print what was read out of a repository: architecture, decisions, hot spots, owners, glossary.",
)
async def findings(session: Session, slug: str, kind: FindingKind | None) -> None:
    found = await session.services.synthesis.findings(session.principal, slug, kind)
    if session.out.as_json:
        session.out.table([_finding(each) for each in found], [])
        return
    for each in found:
        mark = "" if each.state == "derived" else f" ({each.state})"
        for line in (f"# {each.title} [{each.kind}]{mark}", "", each.body.rstrip(), ""):
            click.echo(tame(line))
    if not found:
        session.out.note("Nothing has been read out of it yet.")


async def _slugs(session: Session, named: Sequence[str]) -> Sequence[str]:
    """The repositories that were named, or every one there is."""
    if named:
        return named
    page = await session.services.repositories.list(session.principal, limit=MAX_REPOSITORIES_ASKED)
    if not page.items:
        raise Invalid("There is no repository yet; add one with: holdfast repos add PATH_OR_URL")
    if page.next_cursor is not None:
        raise Invalid(f"There are more than {MAX_REPOSITORIES_ASKED} repositories; name some with --repo.")
    return [each.slug for each in page.items]


def tame(text: str) -> str:
    """Text of a repository without what would command a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _match_lines(match: Match) -> list[str]:
    how = "exactly" if match.exact else f"{match.similarity:.2f}"
    by = "".join(f", {part}" for part in (match.author, (iso_or_none(match.occurred_at) or "")[:10]) if part)
    lines = [line for line in match.content.splitlines() if line.strip()]
    shown = [f"    {line}" for line in lines[:_LINES]] + (["    …"] if len(lines) > _LINES else [])
    return [tame(line) for line in (f"{match.repository.slug} {match.source_id} ({how}{by})", *shown)]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "title": finding.title,
        "body": finding.body,
        "citations": [each.label for each in finding.citations],
        "target_type": finding.target_type,
        "target_id": finding.target_id,
        "state": finding.state,
        "updated_at": iso(finding.updated_at),
    }


def _match(match: Match) -> dict[str, Any]:
    return {
        "repository": match.repository.slug,
        "type": match.type,
        "source_id": match.source_id,
        "title": match.title,
        "content": match.content,
        "similarity": round(match.similarity, 4),
        "exact": match.exact,
        "occurred_at": iso_or_none(match.occurred_at),
        "author": match.author,
        "path": match.path,
        "start_line": match.start_line,
        "end_line": match.end_line,
        "commit": match.commit,
        "number": match.number,
        "url": match.url,
    }
