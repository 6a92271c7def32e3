"""Owns following what a note refers to: "Migrate to another runner (#41)" is the change that commit #41 made."""

import re
from collections.abc import Sequence
from dataclasses import replace

from holdfast.features.ask.question.aspects import Aspect
from holdfast.features.ask.ranking import covering
from holdfast.features.ask.sources import Evidence, commit_evidence
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.model import COMMIT, FILE
from holdfast.storage.database import Database, Tx

MOST_NOTES = 3
_CHANGE = re.compile(r"(?<![\w&/])#(\d{1,6})\b")
_COMMIT = re.compile(r"/commit/([0-9a-f]{7,40})\b|\b([0-9a-f]{40})\b")


async def with_referred(database: Database, aspect: Aspect, best: Sequence[Evidence]) -> list[Evidence]:
    """The same with the commits that its notes refer to, before them: a note tells neither who nor on which day."""
    if aspect.kind not in ("who", "when") or any(each.kind == COMMIT for each in best[:1]):
        return list(best)
    notes = [each for each in best if each.kind == FILE and each.version][:MOST_NOTES]
    if not notes:
        return list(best)
    referred = await database.read(lambda tx: [commit for note in notes for commit in _referred(tx, aspect, note)])
    known = {each.key for each in referred}
    return [*referred, *(each for each in best if each.key not in known)]


def _referred(tx: Tx, aspect: Aspect, note: Evidence) -> list[Evidence]:
    """The commits behind the point of a note that tells most."""
    told = next((point.text for _, point in covering(aspect, note)), "")
    id = note.repository.id
    shas = [whole or linked for linked, whole in _COMMIT.findall(told)]
    found = [commit for sha in shas[:1] for commit in history_store.commits_by_prefix(tx, id, sha, 1)]
    for number in _CHANGE.findall(told)[:1]:
        found += history_store.commits_of_change(tx, id, number)
    distinct = {commit.sha: commit for commit in found}
    said = f"The change that the notes of {note.version} name"
    return [
        replace(commit_evidence(note.repository, commit, said), similarity=note.similarity)
        for commit in distinct.values()
    ]
