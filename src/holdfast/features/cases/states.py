"""Owns the states of a case and the moves between them."""

from typing import Literal, get_args

from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid

Kind = Literal["bug", "task"]
State = Literal["OPEN", "REPRODUCING", "PLANNING", "IMPLEMENTING", "VERIFYING", "DONE", "BLOCKED", "CANCELLED"]
STATES: tuple[State, ...] = get_args(State)
ACTIVE: tuple[State, ...] = ("OPEN", "REPRODUCING", "PLANNING", "IMPLEMENTING", "VERIFYING")
"""Somebody could work on it."""
OVER: tuple[State, ...] = ("DONE", "CANCELLED")
"""It holds nothing up any more."""
_REASONED: tuple[State, ...] = ("BLOCKED", "CANCELLED")

_ONWARD: dict[State, tuple[State, ...]] = {
    "REPRODUCING": ("PLANNING",),
    "PLANNING": ("IMPLEMENTING",),
    "IMPLEMENTING": ("VERIFYING",),
    "VERIFYING": ("DONE", "IMPLEMENTING", "PLANNING"),
    "DONE": ("OPEN",),
    "CANCELLED": (),
}


class IllegalMove(Conflict):
    """The state does not lead there; the message names those that it leads to."""

    code = "illegal_move"

    def __init__(self, kind: Kind, state: State, to: State, legal: tuple[State, ...]) -> None:
        others = ", ".join(legal) or "nowhere: it is over"
        super().__init__(
            f"A {kind} does not go from {state} to {to}; from there it goes to {others}.",
            fields=[FieldError("state", f"one of: {others}")],
        )


def moves(kind: Kind, state: State, blocked_from: State | None = None) -> tuple[State, ...]:
    """Where a case can go next."""
    if state == "BLOCKED":
        return (blocked_from or "OPEN", "CANCELLED")
    first: State = "REPRODUCING" if kind == "bug" else "PLANNING"
    onward = (first,) if state == "OPEN" else _ONWARD[state]
    return (*onward, "BLOCKED", "CANCELLED") if state in ACTIVE else onward


def check_move(
    kind: Kind, state: State, to: State, *, blocked_from: State | None, reason: str, is_person: bool
) -> None:
    """IllegalMove, Invalid without the reason that a move needs, or Forbidden where only a person may."""
    legal = moves(kind, state, blocked_from)
    if to not in legal:
        raise IllegalMove(kind, state, to, legal)
    if to in _REASONED and not reason:
        raise Invalid(f"A case that becomes {to} needs a reason.", fields=[FieldError("reason", "say why")])
    if state == "DONE" and not is_person:
        raise Forbidden("Only a person reopens a case that is done; add a new one, linked discovered_from.")
