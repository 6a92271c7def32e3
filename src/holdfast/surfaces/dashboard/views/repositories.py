"""Owns `/w/{ws}/repos`: adding repositories, how good their memory is, asking them, and the lines that answers cite."""

import re
from collections.abc import Mapping
from urllib.parse import quote

from holdfast.core.access import READ, WRITE
from holdfast.core.errors import Conflict, Forbidden, Invalid
from holdfast.features.ask.model import Citation, CitedAnswer
from holdfast.features.ask.service import Ask
from holdfast.features.repositories.history.reading import LiveFiles, NotReadYet
from holdfast.features.repositories.model import NewRepository
from holdfast.features.repositories.operations.named import check_within
from holdfast.features.repositories.service import Repositories
from holdfast.features.synthesis.service import Synthesis
from holdfast.features.workspaces.service import Workspaces
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.places import lines_of
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors

_LIST = "/w/{ws}/repos"
_ONE = _LIST + "/{slug}"
_SYNCS = 10
FULL_SCORE = {"ingestion": 25, "synthesis": 25, "coverage": 25, "freshness": 15, "keystone_folder": 10}
_BEFORE = 40
_LINES = re.compile(r"(?P<path>.+)#L(?P<start>\d+)(?:-L(?P<end>\d+))?")
pages = Pages(NavRow("Repositories", _LIST, "repository", "workspace", 60, READ))


@pages.get(_LIST, READ)
async def repositories_page(view: PageView, repositories: Repositories) -> Reply:
    return await _listed(view, repositories)


@pages.post(_LIST, WRITE)
async def add_repository(view: PageView, repositories: Repositories) -> Reply:
    new = NewRepository(
        location=view.given("location"), branch=view.given("branch"), key_from=view.given("key_from") or None
    )
    try:
        added = await repositories.add(view.principal, view.ws.id, new)
    except (Conflict, Forbidden, Invalid) as error:
        return await _listed(view, repositories, errors=field_errors(error), status=error.status)
    return view.go(_url(view, added.slug), "It is being read.")


@pages.get(_ONE, READ)
async def repository_page(
    view: PageView, repositories: Repositories, workspaces: Workspaces, synthesis: Synthesis
) -> Reply:
    return await _shown(view, repositories, workspaces, synthesis)


@pages.post(_ONE + "/ask", WRITE)
async def ask_repository(
    view: PageView, repositories: Repositories, workspaces: Workspaces, synthesis: Synthesis, ask: Ask
) -> Reply:
    slug = view.path["slug"]
    await check_within(repositories, workspaces, view.principal, view.ws.id, [slug])
    try:
        answer = await ask.ask(view.principal, [slug], view.given("question"), source="dashboard")
    except (Conflict, Invalid) as error:
        return await _shown(view, repositories, workspaces, synthesis, errors=field_errors(error), status=error.status)
    return await _shown(view, repositories, workspaces, synthesis, answer=answer)


@pages.post(_ONE + "/sync", WRITE)
async def sync_repository(view: PageView, repositories: Repositories, workspaces: Workspaces) -> Reply:
    await check_within(repositories, workspaces, view.principal, view.ws.id, [view.path["slug"]])
    await repositories.sync(view.principal, view.path["slug"])
    return view.go(_url(view, view.path["slug"]), "It will be read anew in a moment.")


@pages.get(_ONE + "/files", READ)
async def file_page(view: PageView, repositories: Repositories, workspaces: Workspaces, files: LiveFiles) -> Reply:
    slug, path = view.path["slug"], view.query.get("path", "")
    await check_within(repositories, workspaces, view.principal, view.ws.id, [slug])
    start, end = _number(view, "start"), _number(view, "end")
    try:
        shown = await files.read(view.principal, slug, path, max(1, start - _BEFORE))
    except NotReadYet as waiting:
        return view.go(_url(view, slug), waiting.message)
    return view.page(
        "repositories/file.html",
        path,
        slug=slug,
        excerpt=shown,
        lines=list(enumerate(shown.text.split("\n"), shown.start_line)),
        start=start,
        end=end or start,
        url=_url(view, slug),
    )


async def _listed(
    view: PageView, repositories: Repositories, *, errors: Mapping[str, str] | None = None, status: int = 200
) -> Reply:
    found = await repositories.list(
        view.principal, workspace_id=view.ws.id, limit=50, cursor=view.query.get("cursor") or None
    )
    scored = [await repositories.status(view.principal, each.slug) for each in found.items]
    return view.page(
        "repositories/list.html",
        "Repositories",
        status=status,
        rows=scored,
        next_url=f"{_url(view)}?cursor={found.next_cursor}" if found.next_cursor else "",
        errors=errors,
        location=view.given("location"),
        may_write=view.may(WRITE),
        may_name_secrets=view.administers,
        url=_url(view),
    )


async def _shown(
    view: PageView,
    repositories: Repositories,
    workspaces: Workspaces,
    synthesis: Synthesis,
    *,
    answer: CitedAnswer | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Reply:
    slug = view.path["slug"]
    await check_within(repositories, workspaces, view.principal, view.ws.id, [slug])
    work = await repositories.work(view.principal, slug)
    found, score, vectors = await repositories.status(view.principal, slug)
    syncs = await repositories.syncs(view.principal, slug, limit=_SYNCS, cursor=view.query.get("syncs") or None)
    return view.page(
        "repositories/one.html",
        found.name,
        status=status,
        repository=found,
        score=score,
        parts=[(name, getattr(score, name), most) for name, most in FULL_SCORE.items()],
        vectors=vectors,
        work=work,
        syncs=syncs.items,
        more_syncs=f"{_url(view, slug)}?syncs={syncs.next_cursor}" if syncs.next_cursor else "",
        findings=await synthesis.findings(view.principal, slug),
        question=view.given("question"),
        answer=answer,
        sources=[(each, _source_url(view, each)) for each in answer.citations] if answer else [],
        errors=errors,
        may_write=view.may(WRITE),
        url=_url(view, slug),
    )


def _source_url(view: PageView, citation: Citation) -> str:
    """Lines of a file open here; what the host shows opens there."""
    lines = _LINES.fullmatch(citation.address.removeprefix(f"{citation.repository}:"))
    if citation.kind != "file" or lines is None:
        return citation.url if citation.url.startswith("https://") else ""
    start, end = int(lines["start"]), int(lines["end"] or lines["start"])
    return f"/w/{quote(view.ws.slug, safe='')}/{lines_of(citation.repository, lines['path'], start, end)}"


def _number(view: PageView, name: str) -> int:
    given = view.query.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 8 else 0


def _url(view: PageView, slug: str = "") -> str:
    return f"/w/{quote(view.ws.slug, safe='')}/repos" + (f"/{quote(slug, safe='')}" if slug else "")
