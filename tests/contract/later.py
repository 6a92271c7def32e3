"""Owns the rows that need no proof yet, each with the work that will bring it; a row leaves when it is built."""

AGENTS = "a later issue: agents"

LATER: dict[str, str] = {
    # Its reading part and our own tools are served; `zero_run_session` needs agents to run.
    "ZE-3": AGENTS,
    **{f"XA-{number}": AGENTS for number in (5, 6, 11)},
}
