"""Owns the list of the product's tools and the gateway that every consumer runs them through."""

import time
from collections.abc import Callable

from holdfast.core.errors import HoldfastError
from holdfast.core.tools.gateway import Catalog, Ending, Gateway
from holdfast.core.tools.outcome import Spilled
from holdfast.core.tools.tool import ToolCall
from holdfast.features.artifacts.model import WORKSPACE_BYTES, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.usage.service import Usage
from holdfast.services import Services


def product_catalog(services: Services) -> Catalog:
    """Everything that models can call, in the order that clients see."""
    # Imported when a tool is first listed or called: their models cost start-up time.
    from holdfast.features.artifacts import aliases as artifact_aliases
    from holdfast.features.artifacts import tools as artifact_tools
    from holdfast.features.ask import live_tools
    from holdfast.features.chat import questions
    from holdfast.features.documents import tools as document_tools
    from holdfast.features.intelligence import tools as intelligence_tools
    from holdfast.features.memory import aliases as memory_aliases
    from holdfast.features.memory import tools as memory_tools
    from holdfast.features.repositories import tools as repository_tools
    from holdfast.features.server_tools import aliases as research_aliases
    from holdfast.features.server_tools import calc, code, research
    from holdfast.features.workspaces import tools as workspace_tools

    web = services.web
    return Catalog(
        tools=[
            *memory_tools.tools(services.memory),
            *workspace_tools.tools(services.workspaces),
            *artifact_tools.tools(services.artifacts),
            *intelligence_tools.tools(services.intelligence),
            *calc.tools(),
            *research.tools(web.search, web.fetcher, web.inspector),
            *code.tools(web.github, web.gitlab),
            *repository_tools.tools(services.repositories, services.repository_finding, services.ask),
            *document_tools.tools(services.documents, services.vector_stores),
            *live_tools.tools(services.live_files),
            *questions.tools(),
        ],
        aliases=[
            *research_aliases.aliases(services.research_budget),
            *artifact_aliases.aliases(),
            *memory_aliases.aliases(),
            *questions.aliases(),
            *document_tools.aliases(),
            *live_tools.aliases(),
        ],
    )


def build_gateway(catalog: Callable[[], Catalog], audit: Audit, artifacts: ArtifactService, usage: Usage) -> Gateway:
    """The way to run tools: refusals audited, large results kept as artifacts, calls counted."""

    async def denied(call: ToolCall, name: str, error: HoldfastError) -> None:
        await audit.record_denied(
            call.principal,
            "tool.call",
            resource="tool",
            resource_id=name[:200],
            workspace_id=call.workspace_id,
            reason=error.message,
        )

    async def spill(call: ToolCall, name: str, text: str) -> Spilled:
        size = len(text.encode())
        fits = size <= WORKSPACE_BYTES
        kept = text if fits else text.encode()[:WORKSPACE_BYTES].decode(errors="ignore")
        new = NewArtifact(
            identifier=f"result-{time.time_ns():x}",
            title=f"Result of {name}",
            type="application/json" if fits else "text/plain",
            content=kept,
        )
        made = await artifacts.create(call.principal, call.workspace(), new)
        return Spilled(made.id, f"xerotier://artifact/{made.id}", size)

    def observe(call: ToolCall, name: str, ending: Ending, seconds: float) -> None:
        usage.count(
            call.principal,
            "tool_calls",
            source=call.source,
            workspace_id=call.workspace_id,
            project_id=call.project_id,
        )

    return Gateway(catalog, denied=denied, spill=spill, observe=observe)
