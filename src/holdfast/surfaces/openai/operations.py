"""Owns serving operations of the management API that OpenAI's clients know too, in the workspace of the request."""

from collections.abc import Sequence

from pydantic import BaseModel
from starlette.types import Scope

from holdfast.core.errors import Unauthenticated
from holdfast.core.operations import Operation
from holdfast.core.principal import Principal
from holdfast.surfaces.http.asgi import send_bytes
from holdfast.surfaces.http.operations import HttpCall, body_of, query_of, render
from holdfast.surfaces.openai.files import WorkspaceOf
from holdfast.surfaces.openai.request import OpenAiRequest
from holdfast.surfaces.openai.surface import Handler, Route


def in_workspace(operations: Sequence[Operation], workspace_of: WorkspaceOf) -> list[Route]:
    """A path of this endpoint for each operation below a workspace."""
    return [
        Route(
            operation.method,
            operation.path.removeprefix("/api/workspaces/{workspace_id}"),
            _carried(operation, workspace_of),
            operation.access,
        )
        for operation in operations
    ]


def _carried(operation: Operation, workspace_of: WorkspaceOf) -> Handler:
    async def carry_out(request: OpenAiRequest) -> None:
        raw = await request.read()
        path = {**request.path, "workspace_id": await workspace_of(request)}
        body, query = body_of(operation, raw), query_of(operation, request.scope)
        call = HttpCall(request.principal, path, query, body, "", request.scope, request.receive, _not_again)
        answer = await operation.handler(call)
        assert isinstance(answer, BaseModel)
        await send_bytes(request.send, operation.status, render(answer), headers=request.headers)

    return carry_out


async def _not_again(scope: Scope) -> Principal:
    """These operations answer at once: nothing goes on for which somebody would have to prove themselves twice."""
    raise Unauthenticated
