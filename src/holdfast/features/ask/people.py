"""Owns who stands behind code: the last to change the lines that were found, and the owners a repository names."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence

from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.engines.git.model import BlameLine
from holdfast.features.ask.ranking import is_document
from holdfast.features.ask.sources import Evidence, blame_evidence, commit_evidence, file_evidence
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.model import FILE

OWNERS = "CODEOWNERS"
_PLACES = (".github/CODEOWNERS", OWNERS, "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
MOST_BLAMED = 200
MOST_PEOPLE = 2
LOOK_SECONDS = 10.0


async def people_behind(principal: Principal, found: Sequence[Evidence], files: LiveFiles) -> list[Evidence]:
    """The people behind the best file among the sources; nobody where there is no code or it can't be read."""
    code = [each for each in found if each.kind == FILE and each.start_line and not is_document(each.key)]
    if not code:
        return []
    best = code[0]
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            owners, writers = await _owners(principal, best, files), await _writers(principal, best, files)
            return [*owners, *await _latest(principal, best, files), *writers]
    except TimeoutError:
        # Commits that were found tell who worked on it as well.
        return []


async def _latest(principal: Principal, best: Evidence, files: LiveFiles) -> list[Evidence]:
    """The last commit that changed a file that is named as a whole."""
    if not best.exact or best.line:
        return []
    try:
        commits = await files.log(principal, best.repository.slug, best.key, limit=1)
    except HoldfastError:
        # As with lines that can't be blamed: commits that were found tell enough.
        return []
    return [commit_evidence(best.repository, commit, f"Last changed {best.key}") for commit in commits]


async def _writers(principal: Principal, best: Evidence, files: LiveFiles) -> list[Evidence]:
    try:
        # A file that is named is meant as a whole.
        is_whole = best.exact and not best.line
        start = 1 if is_whole else max(best.start_line, best.line)
        end = start + MOST_BLAMED if is_whole else min(best.end_line, start + MOST_BLAMED)
        runs = await files.blame(principal, best.repository.slug, best.key, start, end)
    except HoldfastError:
        # What can't be blamed (gone, unreadable) still has commits that tell who worked on it.
        return []
    return [blame_evidence(best.repository, best.key, run) for run in _chief(runs)]


def _chief(runs: Sequence[BlameLine]) -> list[BlameLine]:
    """The longest run of each of those who wrote most of the lines."""
    written: Counter[str] = Counter()
    for run in runs:
        written[run.author] += run.end_line - run.start_line + 1
    longest = sorted(runs, key=lambda run: run.start_line - run.end_line)
    return [next(run for run in longest if run.author == author) for author, _ in written.most_common(MOST_PEOPLE)]


async def _owners(principal: Principal, best: Evidence, files: LiveFiles) -> list[Evidence]:
    for place in _PLACES:
        try:
            excerpt = await files.read(principal, best.repository.slug, place)
        except HoldfastError:
            continue
        owned = [
            (number, line)
            for number, line in enumerate(excerpt.text.splitlines(), 1)
            if (parts := line.split("#")[0].split()) and len(parts) > 1 and owns(parts[0], best.key)
        ]
        if owned:
            # As in git itself, the last rule that fits decides.
            number, line = owned[-1]
            return [file_evidence(best.repository, place, line, number, number, is_read=True)]
        return []
    return []


def owns(pattern: str, path: str) -> bool:
    """Whether a rule of a CODEOWNERS file is about a path."""
    rooted = pattern.startswith("/") or "/" in pattern.strip("/")
    bare = pattern.strip("/")
    made = "".join(
        "(?:.*/)?" if part == "**/" else ".*" if part == "**" else "[^/]*" if part == "*" else re.escape(part)
        for part in re.split(r"(\*\*/|\*\*|\*)", bare)
        if part
    )
    below = "/.*" if pattern.endswith("/") else "(?:/.*)?"
    if pattern.endswith("/*"):
        below = ""
    return re.fullmatch(("" if rooted else "(?:.*/)?") + made + below, path) is not None
