"""Owns the rows that need no proof yet, each with the work that will bring it; a row leaves when it is built."""

EXECUTION = "a later issue: governed execution"
DASHBOARD = "a later issue: the dashboard"
AGENTS = "a later issue: agents"

LATER: dict[str, str] = {
    **{f"XM-{number}": EXECUTION for number in (9, 11, 12, 13, 14, 15)},
    "XM-21": DASHBOARD,
    # Its reading part and our own tools are served; `zero_run_session` needs agents to run.
    "ZE-3": AGENTS,
    **{f"XA-{number}": AGENTS for number in range(1, 12) if number != 3},
}
