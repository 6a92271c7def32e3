"""Owns waiting for a repository on the command line: its sync, its synthesis, and what is found by meaning."""

import asyncio
import time
from contextlib import suppress

from holdfast.core.errors import UpstreamFailed
from holdfast.engines.jobs import Job, JobFailed
from holdfast.features.repositories.model import SYNC_KIND, Repository
from holdfast.surfaces.cli.frame import Session
from holdfast.surfaces.cli.server import is_serving
from holdfast.surfaces.cli.working import LOOK_SECONDS, Shown, working

EMBED_SECONDS = 30.0
"""So long `--wait` gives entries their vectors: a small repository gets them all, a large one keeps nobody waiting."""
_WHAT = {SYNC_KIND: "Reading the repository"}


async def settled(session: Session, slug: str) -> Repository:
    """The repository once nothing waits or runs for it any more; JobFailed says why it did not work out."""
    repositories, principal = session.services.repositories, session.principal
    try:
        with Shown() as shown:
            async with working(session):
                while work := await repositories.work(principal, slug):
                    _show(shown, work[0])
                    await asyncio.sleep(LOOK_SECONDS)
    except asyncio.CancelledError:
        session.out.note(
            f"Stopped waiting. {slug} stays queued: a running server goes on with it, and so does "
            f"holdfast repos sync {slug} --wait."
        )
        raise
    found = await repositories.get(principal, slug)
    last = (await repositories.syncs(principal, slug, limit=1)).items
    if found.state == "failed" or (last and last[0].status != "COMPLETED"):
        raise JobFailed(f"{slug} could not be synced: {found.reason or (last[0].error if last else None) or 'stopped'}")
    if found.synthesis_status == "failed":
        raise JobFailed(
            f"{slug} is synced and can be searched, but could not be summed up: {found.reason or 'see logs'}"
        )
    return found


async def embedded(session: Session, *, whole: bool) -> int:
    """Give what waits its vectors, all of it or for a while; how many entries still wait."""
    search = session.services.search
    if not (await search.progress()).pending:
        return 0
    # A running server is at it already; a second process would only do the same work again.
    elsewhere = await is_serving()
    tending = asyncio.create_task(_nothing() if elsewhere else search.tend())
    until = None if whole else time.monotonic() + EMBED_SECONDS
    at_first = (await search.progress()).pending
    try:
        with Shown() as shown:
            while left := (await search.progress()).pending:
                at_first = max(at_first, left)
                shown.show("Embedding", at_first - left, at_first)
                if (until is not None and time.monotonic() > until) or (tending.done() and not elsewhere):
                    break
                await asyncio.sleep(LOOK_SECONDS)
        if tending.done():
            tending.result()
    except UpstreamFailed as problem:
        session.out.note(
            f"The embedder did not answer ({problem.message}); everything is found by its words meanwhile."
        )
    finally:
        tending.cancel()
        with suppress(asyncio.CancelledError, UpstreamFailed):
            await tending
    left = (await search.progress()).pending
    if left:
        session.out.note(
            f"Everything is found by its words; {left:,} passages are still to be found by meaning: a running server "
            "embeds them in the background, --embed does it now."
        )
    return left


async def _nothing() -> int:
    return 0


def _show(shown: Shown, job: Job) -> None:
    what = _WHAT.get(job.kind, "Summing up")
    if job.state == "queued":
        shown.show(f"Waiting to try again: {job.error}" if job.error else f"Waiting: {what.lower()}")
        return
    shown.show(job.message or what, job.done, job.total)
