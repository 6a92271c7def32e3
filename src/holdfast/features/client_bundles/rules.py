"""Owns the standing instructions that make an agent use what the server knows instead of asking about it."""

from holdfast.core.principal import Tier
from holdfast.features.client_bundles.model import KEYSTONE, ZERO, McpEndpoint

_ALWAYS = """\
# Xerotier (Holdfast): this project's memory

The MCP server `xerotier` is Holdfast, the team's own server: it keeps what people and agents learned about the project
(memories, decisions, documents, repositories), shares it between everybody's agents, and runs tools for them. Use its
tools on your own initiative; do not ask a person for something that they can answer. Your client may spell the names
with other signs than dots.

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


_KEYSTONE = """\
# Keystone (Holdfast): what the repositories remember

The MCP server `keystone` is Holdfast, the team's own server; here it answers from the history of our repositories:
commits, pull requests, issues, docs and code.
Use its tools on your own initiative; do not ask a person for something that they can answer.

- Call `list_projects` once, at the start of a session: it gives the slugs that the other tools take.
- Before you touch code that you do not know, call `ask` with a plain question: why is it so, who did it, what broke it
  before. Name every project that the question concerns in `projectSlugs`; it reads across them.
- Keep the sources that an answer cites, and name them when you rely on them. Where an answer contradicts the code that
  you see, trust the code.
- To read sources yourself, or to find a symbol, a path, a commit or an issue by its name, call `search_memory`. It is
  quick and costs nothing; `ask` spends a weekly budget.
- When answers seem thin or old, `get_project_status` tells how far the project's memory is."""


_ZERO = """\
# Zero (Holdfast): work that closes only on proof

The MCP server `zero` is Holdfast, the team's own server; here it keeps the queue of work that people and agents share.

- Before you begin something, call `zero_list_cases`: somebody may have written it down, or be at it already.
- Take a case with `zero_claim_case` before you work on it. Keep the `fence` that comes back, and send it with every
  write; where a write is refused because another holds the case, stop and take another.
- Move it one step at a time with `zero_move_case`: a bug is reproduced before it is planned.
- Show each criterion with `zero_add_proof`: a command that the server runs itself in a clean checkout at the head
  commit, so commit and push first. Name the tests that have to pass. Mark a bug's failing test as the reproduction.
- Read `zero://proofs/{case_id}` for the verdicts. Never call work done that is not proven; `zero_move_case` to DONE
  says what is missing."""


def rules(surface: McpEndpoint, tier: Tier) -> str:
    """The instructions, naming only tools that the surface and the tier have."""
    if surface is KEYSTONE:
        return _KEYSTONE + "\n"
    if surface is ZERO:
        return _ZERO + "\n"
    return _ALWAYS + (_INTELLIGENCE if tier in ("intel", "all") else "") + "\n"
