"""Owns the standing instructions that make an agent use the workspace by itself instead of asking about it."""

from holdfast.core.principal import Tier

_ALWAYS = """\
# Xerotier: this project's memory

The MCP server `xerotier` holds what this team knows about the project. Use its tools on your own initiative; do not
ask a person for something that they can answer. Your client may spell the names with other signs than dots.

- Start a session with `xerotier.workspace.get` to learn which workspace you are in.
- Before you answer or plan anything that depends on history, conventions or earlier work, call
  `xerotier.memory.recall` (memories) or `xerotier.memory.search` (everything) with the words of the question.
- When you learn something that will still be true next week, such as a preference, a constraint, the cause of a bug or
  a way to run things, call `xerotier.memory.save` with one fact in plain words. Never save passwords, keys or tokens.
- When memory contradicts the code, trust the code, say so, and save what is true now.
- For arithmetic call `xerotier.calc.evaluate`; for pages and current facts call `xerotier.research.web_search` and
  `xerotier.research.fetch_url`."""

_INTELLIGENCE = """
- For where the project stands call `xerotier.intelligence.brief`; for why something is as it is call
  `xerotier.intelligence.decisions` first.
- When a choice is made that others will build on, record it with `xerotier.intelligence.track_decision`; when something
  is finished, with `xerotier.intelligence.track_milestone`; connect what belongs together with
  `xerotier.intelligence.relate`.
- Keep reports, specifications and other long results as artifacts (`xerotier.artifact.create`, then `.update`), not as
  memories.
- Read other repositories with `xerotier.code.search`, `xerotier.code.repo_overview` and `xerotier.code.repo_read`."""


def rules(tier: Tier) -> str:
    """The instructions, naming only tools that the tier has."""
    return _ALWAYS + (_INTELLIGENCE if tier in ("intel", "all") else "") + "\n"
