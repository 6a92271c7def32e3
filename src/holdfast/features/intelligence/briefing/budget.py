"""Owns token budgets: what a text costs, how it is shortened, and which items fit, the most useful first."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

from holdfast.core.errors import FieldError, Invalid

T = TypeVar("T")

MIN_BUDGET = 200
MAX_BUDGET = 16_000
DEFAULT_BUDGET = 1_500


def tokens_of(text: str) -> int:
    """About how many tokens a model reads: four bytes each, which also fits scripts other than Latin."""
    return -(-len(text.encode()) // 4)


def checked_budget(budget_tokens: int) -> int:
    """The budget, when it is one we can answer within."""
    if not MIN_BUDGET <= budget_tokens <= MAX_BUDGET:
        problem = f"choose {MIN_BUDGET} to {MAX_BUDGET}"
        raise Invalid("The token budget is out of range.", fields=[FieldError("budget_tokens", problem)])
    return budget_tokens


def clip(text: str, length: int) -> str:
    """The text on one line, cut at a word with an ellipsis when it is longer."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    at_word = cut.rsplit(" ", 1)[0]
    return (at_word if len(at_word) > length // 2 else cut).rstrip(" ,;:") + "…"


def json_tokens(value: Mapping[str, object]) -> int:
    """What a JSON object costs."""
    return tokens_of(json.dumps(value, ensure_ascii=False))


def fill(
    candidates: Mapping[str, Sequence[tuple[T, int]]], shares: Mapping[str, float], room: int, heading: int
) -> dict[str, list[T]]:
    """Fill a room of tokens from sections of (item, cost), best first.

    Each section first gets its share; what the others did not need is then given out in the order of the sections,
    so that a large section cannot starve a small one and no room is wasted.
    """
    taken: dict[str, list[T]] = {name: [] for name in candidates}
    used = 0

    def take(name: str, ceiling: float, spent: int) -> int:
        nonlocal used
        rest = candidates[name][len(taken[name]) :]
        for item, cost in rest:
            price = cost + (0 if taken[name] else heading)
            if used + price > room or spent + price > ceiling:
                break
            taken[name].append(item)
            used += price
            spent += price
        return spent

    spent = {name: take(name, room * shares[name], 0) for name in candidates}
    for name in candidates:
        take(name, room, spent[name])
    return taken
