"""Owns the brief: where a project stands, in few words, with the most useful first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.core.clock import iso
from holdfast.core.text.counting import many
from holdfast.features.intelligence.briefing.budget import clip, fill, json_tokens, tokens_of
from holdfast.features.intelligence.model import (
    SECTIONS,
    Brief,
    Decision,
    Item,
    Milestone,
    Ref,
    Relation,
)
from holdfast.registry.entities import Blocker, Source

DETAIL = 240
HALF_LIFE_DAYS = 30.0
_DAY = 86_400_000
_SHARES = {
    "blockers": 0.28,
    "decisions": 0.24,
    "milestones": 0.13,
    "connections": 0.08,
    "memories": 0.18,
    "repositories": 0.09,
}
_ONE = dict(zip(SECTIONS, ("blocker", "decision", "milestone", "connection", "memory", "repository"), strict=True))
_HEADING = 8
_FRAME = 100
"""Tokens for the title, the line about what was left out, and the JSON around the sections."""


@dataclass(frozen=True, slots=True)
class Material:
    """All that a brief is chosen from."""

    blockers: Sequence[Blocker]
    decisions: Sequence[Decision]
    milestones: Sequence[Milestone]
    relations: Sequence[Relation]
    titles: Mapping[Ref, str]
    """Titles of the relations' ends."""
    degrees: Mapping[str, int]
    """Entity id → how many relations it has."""
    memories: Sequence[Source]
    relevance: Mapping[str, float]
    """Entity id → how well it fits what the reader is about to do; empty when they did not say."""
    repositories: Sequence[Source] = ()


def write_brief(workspace_id: str, name: str, material: Material, budget_tokens: int, now: int) -> Brief:
    """Choose and render within the budget; both the Markdown and the items as JSON keep to it."""
    ranked = _ranked(material, now)
    priced = {section: [(item, _cost(item)) for item in ranked[section]] for section in SECTIONS}
    chosen = fill(priced, _SHARES, budget_tokens - _FRAME, _HEADING)
    omitted = {section: len(ranked[section]) - len(chosen[section]) for section in SECTIONS}
    markdown = render(name, chosen, omitted)
    items = {section: tuple(chosen[section]) for section in SECTIONS}
    return Brief(workspace_id, name, items, omitted, markdown, tokens_of(markdown), budget_tokens)


def render(name: str, sections: Mapping[str, Sequence[Item]], omitted: Mapping[str, int]) -> str:
    """The brief as Markdown."""
    lines = [f"# Brief: {clip(name, 60)}"]
    for section in SECTIONS:
        if sections[section]:
            lines += ["", f"## {section.capitalize()}", *(_line(item) for item in sections[section])]
    if not any(sections.values()):
        lines += ["", "Nothing is on record here yet."]
    left = [many(count, _ONE[section]) for section, count in omitted.items() if count]
    if left:
        lines += ["", f"Left out for room: {', '.join(left)}."]
    return "\n".join(lines) + "\n"


def item_json(item: Item) -> dict[str, object]:
    """An item as it goes over the wire."""
    return {
        "id": item.id,
        "type": item.type,
        "title": item.title,
        "detail": item.detail,
        "status": item.status,
        "at": iso(item.at),
    }


def _ranked(material: Material, now: int) -> dict[str, list[Item]]:
    held = {blocker.id for blocker in material.blockers}

    def worth(id: str, at: int) -> float:
        recency: float = 0.5 ** (max(0, now - at) / _DAY / HALF_LIFE_DAYS)
        return 2 * material.relevance.get(id, 0.0) + recency + 0.15 * min(material.degrees.get(id, 0), 4)

    def decision_worth(decision: Decision) -> float:
        return worth(decision.id, decision.decided_at) - (0.5 if decision.status in ("rejected", "deferred") else 0)

    def tie_worth(tie: Relation) -> float:
        ends = (tie.start.id, tie.end.id)
        relevance = max(material.relevance.get(end, 0.0) for end in ends)
        return worth(tie.id, tie.created_at) + 2 * relevance + (1.0 if held & set(ends) else 0.0)

    decisions = [decision for decision in material.decisions if decision.id not in held]
    known = [tie for tie in material.relations if tie.start in material.titles and tie.end in material.titles]
    blockers = sorted(material.blockers, key=lambda it: (-material.relevance.get(it.id, 0.0), it.since, it.id))
    return {
        "blockers": [_blocker_item(blocker) for blocker in blockers],
        "decisions": [_decision_item(it) for it in sorted(decisions, key=lambda it: (-decision_worth(it), it.id))],
        "milestones": [
            Item(it.id, "milestone", it.title, clip(it.description, DETAIL), it.type, it.occurred_at)
            for it in sorted(material.milestones, key=lambda it: (-worth(it.id, it.occurred_at), it.id))
        ],
        "connections": [
            _connection_item(tie, material.titles) for tie in sorted(known, key=lambda it: (-tie_worth(it), it.id))
        ],
        "memories": [
            Item(it.id, "memory", clip(it.title, 120), clip(it.text, DETAIL), it.status, it.at)
            for it in sorted(material.memories, key=lambda it: (-worth(it.id, it.at), it.id))
        ],
        "repositories": [
            Item(it.id, "repository", clip(it.title, 120), clip(it.text, DETAIL), it.status, it.at)
            for it in sorted(material.repositories, key=lambda it: (-it.at, it.id))
        ],
    }


def _blocker_item(blocker: Blocker) -> Item:
    return Item(
        blocker.id, blocker.type, clip(blocker.title, 160), clip(blocker.reason, DETAIL), "blocked", blocker.since
    )


def _decision_item(decision: Decision) -> Item:
    detail = clip(decision.rationale, DETAIL)
    return Item(decision.id, "decision", clip(decision.title, 160), detail, decision.status, decision.decided_at)


def _connection_item(tie: Relation, titles: Mapping[Ref, str]) -> Item:
    start, end = (clip(titles[each], 70) for each in (tie.start, tie.end))
    if start == end:
        # A case that is done and its milestone have one title.
        start, end = f"{tie.start.type} {start}", f"{tie.end.type} {end}"
    said = f"{start} — {tie.relation} → {end}"
    return Item(tie.id, "relation", said, clip(tie.note, 120), tie.relation, tie.created_at)


def _line(item: Item) -> str:
    day = datetime.fromtimestamp(item.at / 1000, UTC).date().isoformat()
    detail = "" if not item.detail or item.detail == item.title else f": {item.detail}"
    status = "" if item.type in ("relation", "memory") or not item.status else f", {item.status}"
    return f"- **{item.title}** ({day}{status}, `{item.id}`){detail}"


def _cost(item: Item) -> int:
    return max(tokens_of(_line(item) + "\n"), json_tokens(item_json(item)) + 1)
