"""Owns the words of relations: an open vocabulary of snake_case names, each with a name for the way back."""

import re

from holdfast.core.errors import FieldError, Invalid

MAX_NAME = 64
GENERIC = "inverse_of_"

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PAIRS = (
    ("supersedes", "superseded_by"),
    ("blocks", "blocked_by"),
    ("depends_on", "required_by"),
    ("implements", "implemented_by"),
    ("causes", "caused_by"),
    ("led_to", "resulted_from"),
    ("motivates", "motivated_by"),
    ("resolves", "resolved_by"),
    ("fixes", "fixed_by"),
    ("affects", "affected_by"),
    ("supports", "supported_by"),
    ("references", "referenced_by"),
    ("mentions", "mentioned_in"),
    ("documents", "documented_by"),
    ("explains", "explained_by"),
    ("tests", "tested_by"),
    ("verifies", "verified_by"),
    ("produces", "produced_by"),
    ("uses", "used_by"),
    ("owns", "owned_by"),
    ("extends", "extended_by"),
    ("replaces", "replaced_by"),
    ("duplicates", "duplicated_by"),
    ("derived_from", "source_of"),
    ("part_of", "has_part"),
    ("parent_of", "child_of"),
    ("precedes", "follows"),
)
_SYMMETRIC = ("relates_to", "related_to", "contradicts", "conflicts_with", "similar_to", "same_as", "alternative_to")

INVERSES: dict[str, str] = dict(_PAIRS) | {back: forth for forth, back in _PAIRS} | {name: name for name in _SYMMETRIC}
"""Names with a way back of their own; every other name gets a generic one."""


def inverse(name: str) -> str:
    """What the relation is called when read from its other end. The inverse of the inverse is the name itself."""
    if name in INVERSES:
        return INVERSES[name]
    return name.removeprefix(GENERIC) if name.startswith(GENERIC) else GENERIC + name


def checked_word(text: str, field: str) -> str:
    """The text, when it is a short snake_case word; Invalid with the nearest spelling otherwise."""
    if len(text.removeprefix(GENERIC)) <= MAX_NAME and _NAME.fullmatch(text):
        return text
    near = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:MAX_NAME].strip("_")
    hint = f"; try {near!r}" if _NAME.fullmatch(near) else ""
    problem = f"write it in snake_case, at most {MAX_NAME} characters, like 'depends_on'{hint}"
    raise Invalid(f"{text[:80]!r} is not a name we can use.", fields=[FieldError(field, problem)])


def checked_relation(text: str, field: str = "relation") -> str:
    """A relation's name in the one spelling we keep: `inverse_of_blocks` is `blocked_by`."""
    name = checked_word(text, field)
    bare = name.removeprefix(GENERIC)
    if bare.startswith(GENERIC):
        raise Invalid(
            f"{name[:80]!r} turns a relation around twice.",
            fields=[FieldError(field, f"write {bare[:80]!r} less often")],
        )
    return inverse(bare) if name != bare and bare in INVERSES else name


def fact(start: str, end: str, name: str) -> str:
    """One key for a relation, whichever end it was told from."""
    back = inverse(name)
    first, last = (end, start) if back < name or (back == name and end < start) else (start, end)
    return f"{first}>{min(name, back)}>{last}"
