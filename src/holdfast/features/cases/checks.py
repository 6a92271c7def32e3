"""Owns what the fields of a case may hold."""

import re
from collections.abc import Iterable, Sequence

from holdfast.core.errors import FieldError, Invalid
from holdfast.features.cases.model import (
    HIGHEST,
    LOWEST,
    MAX_CRITERIA,
    MAX_CRITERION,
    MAX_LABEL,
    MAX_LABELS,
    Criterion,
)
from holdfast.features.intelligence.base import checked_text

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_MENTION = re.compile(r"(?<![\w@])@([A-Za-z0-9](?:[\w.+-]{0,62}\w)?(?:@[\w.-]+\w)?)")
_MAX_WORD = 200


def checked_priority(priority: int) -> int:
    """0 to 4."""
    if not HIGHEST <= priority <= LOWEST:
        problem = f"from {HIGHEST}, the most urgent, to {LOWEST}"
        raise Invalid("The priority is out of range.", fields=[FieldError("priority", problem)])
    return priority


def checked_criteria(texts: Sequence[str], known: Sequence[Criterion] = (), used: int = 0) -> tuple[Criterion, ...]:
    """Criteria with ids; one whose text is known keeps its id, a new one gets an id above every id `used` so far."""
    if len(texts) > MAX_CRITERIA:
        problem = f"at most {MAX_CRITERIA}; this has {len(texts)}"
        raise Invalid("There are too many criteria.", fields=[FieldError("criteria", problem)])
    ids = {each.text: each.id for each in known}
    highest = max([used, *map(number_of, ids.values())])
    found: dict[str, Criterion] = {}
    for place, text in enumerate(texts):
        bare = " ".join(checked_text(text, f"criteria[{place}]", MAX_CRITERION, required=True).split())
        if bare in found:
            problem = "it is there twice; write each once"
            raise Invalid("A criterion is repeated.", fields=[FieldError(f"criteria[{place}]", problem)])
        if bare not in ids:
            highest += 1
        found[bare] = Criterion(ids.get(bare) or f"c{highest}", bare)
    return tuple(found.values())


def number_of(criterion_id: str) -> int:
    """The number in a criterion's id."""
    return int(criterion_id[1:]) if criterion_id[1:].isdigit() else 0


def checked_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Each once, in order."""
    found = tuple(dict.fromkeys(" ".join(label.split()) for label in labels))
    if len(found) > MAX_LABELS or any(not each or len(each) > MAX_LABEL or '"' in each for each in found):
        problem = f"at most {MAX_LABELS}, each of 1 to {MAX_LABEL} characters without quotes"
        raise Invalid("The labels cannot be used.", fields=[FieldError("labels", problem)])
    return tuple(checked_text(each, "labels", MAX_LABEL) for each in found)


def checked_word(text: str | None, field: str) -> str | None:
    """A short name of something, or none."""
    return None if text is None else checked_text(text, field, _MAX_WORD) or None


def checked_commit(text: str | None, field: str) -> str | None:
    """A commit's hash, or the beginning of one, as it can be looked for."""
    if text is None or not text.strip():
        return None
    found = text.strip().lower()
    if _COMMIT.fullmatch(found) is None:
        problem = "give 7 to 40 hexadecimal digits of a commit's hash, no branch"
        raise Invalid("This is no commit.", fields=[FieldError(field, problem)])
    return found


def mentions(text: str) -> tuple[str, ...]:
    """The names after an @, each once."""
    return tuple(dict.fromkeys(_MENTION.findall(text)))
