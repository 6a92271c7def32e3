"""Owns how asking about repositories is built."""

from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.alias import AnyAlias
from holdfast.core.tools.gateway import Gateway
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.llm.loop import Loop
from holdfast.features.ask.service import Ask
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.service import Repositories
from holdfast.features.usage.service import Usage
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def ask(parts: Parts) -> Ask:
    return Ask(
        parts[Database],
        parts[Repositories],
        parts[RepositoryFinding],
        parts[LiveFiles],
        parts[EndpointModels],
        parts[Usage],
        parts[Loop],
        parts[Gateway],
        weekly_tokens=parts[Settings].weekly_token_limit,
    )


def tools(parts: Parts) -> list[AnyTool]:
    """What agents call about repositories, and what a model behind `ask` calls."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.ask import live_tools
    from holdfast.features.repositories.tools import tools as repository_tools

    asked = repository_tools(parts[Repositories], parts[RepositoryFinding], parts[Ask])
    return [*asked, *live_tools.tools(parts[LiveFiles])]


def aliases(parts: Parts) -> list[AnyAlias]:
    """The names that a model behind `ask` knows them by."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.ask.live_tools import aliases as named

    return named()
