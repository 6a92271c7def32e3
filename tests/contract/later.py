"""Owns the rows that need no proof yet, each with the work that will bring it; a row leaves when it is built."""

EXECUTION = "a later issue: governed execution"
CASES = "a later issue: work items"
AGENTS = "a later issue: agents"

LATER: dict[str, str] = {
    **{f"XM-{number}": EXECUTION for number in (9, 11, 12, 13, 14, 15)},
    **{f"ZE-{number}": CASES for number in range(1, 6)},
    **{f"XA-{number}": AGENTS for number in range(1, 12) if number != 3},
}
