"""Owns waiting for a repository on the command line: its sync, its synthesis, and what is found by meaning."""

import asyncio
import time
from contextlib import suppress

from holdfast.core.commands import Progress, Session
from holdfast.core.errors import Unavailable, UpstreamFailed
from holdfast.core.settings import Settings
from holdfast.core.text.counting import many
from holdfast.core.text.printable import printable
from holdfast.engines.jobs import Job, JobEngine, JobFailed
from holdfast.engines.jobs.here import LOOK_SECONDS, working
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.repositories.model import SYNC_KIND, SYNTHESIS_KIND, Repository
from holdfast.features.repositories.operations.repositories import repository_answer
from holdfast.features.repositories.service import Repositories
from holdfast.storage.running import is_serving

EMBED_AT_MOST = 1_000
EMBED_SECONDS = 30.0
"""So many entries, and so long, `--wait` gives vectors: a small repository has them all when it returns, and a large
one, whose vectors take minutes, keeps nobody waiting."""
_WHAT = {SYNC_KIND: "Reading the repository", SYNTHESIS_KIND: "Summing up"}
_FAILED = {
    SYNC_KIND: "could not be synced",
    SYNTHESIS_KIND: "can be searched and asked, but could not be summed up",
}


async def settled(session: Session, slug: str, *job_ids: str) -> Repository:
    """The repository once nothing waits or runs for it any more; JobFailed says why it did not work out.

    `job_ids` are what is waited for above all: somebody else may have ended it before the first look.
    """
    repositories, jobs, principal = session.parts[Repositories], session.parts[JobEngine], session.principal
    awaited = list(job_ids)
    try:
        with session.out.progress() as shown:
            async with working(jobs):
                while work := await repositories.work(principal, slug):
                    _show(shown, work[0])
                    awaited += [job.id for job in work if job.id not in awaited]
                    await asyncio.sleep(LOOK_SECONDS)
    except asyncio.CancelledError:
        session.out.note(
            f"Stopped waiting. {slug} stays queued: a running server goes on with it, and so does "
            f"`holdfast repos sync {slug} --wait`."
        )
        raise
    for job_id in awaited:
        job = await jobs.get(job_id)
        if job.state != "succeeded":
            what = _FAILED[job.kind]
            raise JobFailed(printable(f"{slug} {what}: {job.error or 'it was stopped'}"))
    return await repositories.get(principal, slug)


async def embedded(session: Session, *, whole: bool) -> int:
    """Give what waits its vectors, all of it or for a while; how many entries still wait."""
    search = session.parts[SearchEngine]
    at_first = (await search.progress()).pending
    if whole or 0 < at_first <= EMBED_AT_MOST:
        await _embed(session, at_first, None if whole else time.monotonic() + EMBED_SECONDS)
    left = (await search.progress()).pending
    if left:
        session.out.note(
            f"Everything is found by its words; to find by meaning: {many(left, 'passage')}; a running server "
            "embeds them in the background, --embed does it now."
        )
    return left


async def _embed(session: Session, at_first: int, until: float | None) -> None:
    """Embed what waits, until a moment at most."""
    search = session.parts[SearchEngine]
    # A running server comes to it within a quarter of a minute: too late for a little, while for much of it a second
    # process would only do the same work again.
    elsewhere = until is None and await is_serving(session.parts[Settings])
    tending = asyncio.create_task(_nothing() if elsewhere else search.tend())
    try:
        with session.out.progress() as shown:
            while left := (await search.progress()).pending:
                at_first = max(at_first, left)
                shown.show("Embedding", at_first - left, at_first)
                if (until is not None and time.monotonic() > until) or (tending.done() and not elsewhere):
                    break
                await asyncio.sleep(LOOK_SECONDS)
        if tending.done():
            tending.result()
    except (UpstreamFailed, Unavailable) as problem:
        session.out.note(
            f"The embedder did not answer ({problem.message}); everything is found by its words meanwhile."
        )
    finally:
        tending.cancel()
        with suppress(asyncio.CancelledError, UpstreamFailed, Unavailable):
            await tending


async def _nothing() -> int:
    return 0


def _show(shown: Progress, job: Job) -> None:
    what = _WHAT[job.kind]
    if job.state == "queued":
        shown.show(f"Waiting to try again: {printable(job.error)}" if job.error else f"Waiting: {what.lower()}")
        return
    said = job.message if job.kind == SYNC_KIND else f"{what} ({job.message.lower()})" if job.message else what
    shown.show(said or what, job.done, job.total)


async def finish(session: Session, queued: Repository, *job_ids: str, wait: bool, embed: bool = False) -> None:
    """Wait where that is wanted, and answer with how it stands then."""
    if not wait and not embed:
        session.out.record(
            repository_answer(queued, session.principal), [f"{queued.slug} ({queued.location}) is queued."]
        )
        who = (
            "The server does it in the background"
            if await is_serving(session.parts[Settings])
            else "It begins when a server runs (`holdfast up`)"
        )
        session.out.note(f"{who}; add --wait to do it now.")
        return
    found = await settled(session, queued.slug, *job_ids)
    if found.reason:
        session.out.note(printable(found.reason))
    left = await embedded(session, whole=embed)
    value = repository_answer(found, session.principal).model_dump()
    session.out.record(
        {**value, "waiting_for_vectors": left},
        [
            f"{found.slug} is remembered: {many(found.commits, 'commit')}, {many(found.files, 'file')}, "
            f"{many(found.items, 'item')} of its host; {many(found.entries, 'passage')} to find.",
        ],
    )
    session.out.note(f'Ask it: `holdfast repos ask "why …" --repo {found.slug}`')
