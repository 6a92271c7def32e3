"""Owns the list of the product's tools and the gateway that every consumer runs them through."""

import time
from collections.abc import Callable

from holdfast.core.errors import HoldfastError
from holdfast.core.parts import Parts
from holdfast.core.resources import artifact_uri
from holdfast.core.tools.gateway import Catalog, Ending, Gateway
from holdfast.core.tools.outcome import Spilled
from holdfast.core.tools.tool import ToolCall
from holdfast.features.artifacts.model import WORKSPACE_BYTES, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.execution.enrolled import EnrolledCatalog
from holdfast.features.usage.service import Usage
from holdfast.server.features import Features, brought

_FIRST = ("zero_list_cases", "zero_get_case", "zero_run_session")
"""Documented in this order, although two features bring them."""


def catalog(parts: Parts) -> Catalog:
    """Everything that models can call: what is documented to come first, then the rest in the features' order."""
    features = parts[Features]
    tools = brought(parts, features, "tools")
    tools.sort(key=lambda tool: _FIRST.index(tool.name) if tool.name in _FIRST else len(_FIRST))
    return Catalog(tools=tools, aliases=brought(parts, features, "aliases"))


def build_gateway(parts: Parts, load: Callable[[], Catalog]) -> Gateway:
    """The way to run tools: refusals audited, large results kept as artifacts, calls counted."""
    audit, usage = parts[Audit], parts[Usage]

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
        made = await parts[ArtifactService].create(call.principal, call.workspace(), new)
        return Spilled(made.id, artifact_uri(made.id), size)

    def observe(call: ToolCall, name: str, ending: Ending, seconds: float) -> None:
        usage.count(
            call.principal,
            "tool_calls",
            source=call.source,
            workspace_id=call.workspace_id,
            project_id=call.project_id,
        )

    return Gateway(load, denied=denied, spill=spill, observe=observe, enrolled=lambda: parts[EnrolledCatalog])
