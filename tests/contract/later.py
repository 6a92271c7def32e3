"""Owns the rows that need no proof yet, each with the work that will bring it; a row leaves when it is built."""

DASHBOARD = "a later issue: the dashboard"
CASES = "a later issue: work items"
AGENTS = "a later issue: agents"

LATER: dict[str, str] = {
    "XM-21": DASHBOARD,
    **{f"ZE-{number}": CASES for number in range(1, 6)},
    **{f"XA-{number}": AGENTS for number in (1, 5, 6, 10, 11)},
}
