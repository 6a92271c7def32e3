"""Owns how the server's own tools are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.alias import AnyAlias
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.web import WebAccess
from holdfast.features.server_tools.budget import ResearchBudget
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def research_budget(parts: Parts) -> ResearchBudget:
    calls = parts[Settings].research_calls_per_minute
    return ResearchBudget(parts[Database], parts[Clock], calls_per_minute=calls)


def tools(parts: Parts) -> list[AnyTool]:
    """What models call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.server_tools import calc, code, research

    web = parts[WebAccess]
    return [
        *calc.tools(),
        *research.tools(web.search, web.fetcher, web.inspector),
        *code.tools(web.github, web.gitlab),
    ]


def aliases(parts: Parts) -> list[AnyAlias]:
    """The names that chats know them by."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.server_tools.aliases import aliases as named

    return named(parts[ResearchBudget])
