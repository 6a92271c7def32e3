"""Owns what a socket of the gate serves: tools by their names, and results as MCP has them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from holdfast.core.errors import HoldfastError
from holdfast.engines.mcp_client.base import TellProgress

Json = Mapping[str, Any]


class Toolset(Protocol):
    """The tools behind one socket of one session."""

    @property
    def name(self) -> str:
        """The key in `mcpServers`."""
        ...

    @property
    def instructions(self) -> str:
        """What a client tells its model of them; empty where there is nothing to say."""
        ...

    async def tools(self) -> Sequence[Json]:
        """Those that the session may see, as `tools/list` has them."""
        ...

    async def call(self, tool: str, arguments: Json, progress: TellProgress) -> Json:
        """The result of a call; what went wrong is a result that says so. ToolUnknown where there is no such tool."""
        ...


def error_result(error: HoldfastError, **more: Any) -> dict[str, Any]:
    """A call that came to nothing, in words that let a model mend it."""
    found = (f"{field.field}: {field.message}" for field in error.fields)
    lines = [error.message, *(f"- {line}" for line in found if line not in error.message)]
    meta = {"holdfast/code": error.code, **more}
    return {"content": [{"type": "text", "text": "\n".join(lines)}], "isError": True, "_meta": meta}
