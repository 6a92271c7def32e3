"""Owns the list of the product's tools and the toolbox that every surface runs them from."""

import time
from collections.abc import Sequence

from holdfast.core.errors import HoldfastError
from holdfast.core.tools.gateway import Ending, Gateway, Spilled
from holdfast.core.tools.tool import AnyTool, ToolCall
from holdfast.features.artifacts import tools as artifact_tools
from holdfast.features.artifacts.model import WORKSPACE_BYTES, NewArtifact
from holdfast.features.intelligence import tools as intelligence_tools
from holdfast.features.memory import tools as memory_tools
from holdfast.features.server_tools import calc, code, research
from holdfast.features.workspaces import tools as workspace_tools
from holdfast.services import Services

WHOLE = frozenset({"xerotier.artifact.read"})
"""Tools whose large results are the point of calling them."""


def product_tools(services: Services) -> list[AnyTool]:
    """Every tool of the product, in the order that clients see."""
    return [
        *memory_tools.tools(services.memory),
        *workspace_tools.tools(services.workspaces),
        *artifact_tools.tools(services.artifacts),
        *intelligence_tools.tools(services.intelligence),
        *calc.tools(),
        *research.tools(services.web.search, services.web.fetcher, services.web.inspector),
        *code.tools(services.web.github),
    ]


def build_toolbox(services: Services, tools: Sequence[AnyTool]) -> Gateway:
    """The tools that agents call over MCP: calls counted, refusals audited, large results kept as artifacts."""

    async def denied(call: ToolCall, name: str, error: HoldfastError) -> None:
        await services.audit.record_denied(
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
        made = await services.artifacts.create(call.principal, call.workspace(), new)
        return Spilled(made.id, f"xerotier://artifact/{made.id}", size)

    def observe(call: ToolCall, name: str, ending: Ending, seconds: float) -> None:
        services.usage.count(call.principal, "tool_calls", source="mcp", workspace_id=call.workspace_id)

    return Gateway(tools, denied=denied, spill=spill, whole=WHOLE, observe=observe)
