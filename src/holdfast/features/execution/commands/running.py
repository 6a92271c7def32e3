"""Owns `holdfast exec`: a tool of the catalog, run from the command line under the same rules."""

import json
from typing import Annotated

from pydantic import Field

from holdfast.core.commands import FAILED, Argument, InWorkspace, Option, Session, command
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.jobs.here import working
from holdfast.features.catalog.servers.connections import ServerConnections
from holdfast.features.execution.answers import InvocationAnswer
from holdfast.features.execution.calling import Calls
from holdfast.features.execution.model import Invocation, InvocationRequest
from holdfast.features.execution.service import Execution


class Exec(InWorkspace):
    """What `exec` is given."""

    tool: Annotated[str, Argument(metavar="TOOL")]
    arguments: Annotated[str, Argument(metavar="ARGS", reads="dash")] = "{}"
    follow: Annotated[bool, Option("--follow")] = Field(False, description="Show progress and wait for the end.")


@command("exec", help='Run a tool of the catalog: `holdfast exec deploy.staging \'{"ref": "main"}\'`.')
async def exec_tool(
    session: Session,
    execution: Execution,
    calls: Calls,
    jobs: JobEngine,
    connections: ServerConnections,
    given: Exec,
) -> None:
    request = InvocationRequest(
        principal=session.principal,
        workspace_id=await session.workspace(given.workspace),
        tool_name=given.tool,
        arguments=_object(given.arguments),
        source="cli",
        fresh=True,
    )
    made = (await execution.invoke(request)).invocation
    if given.follow or made.status == "queued":
        # There may be no server to run it: then it runs here.
        async with working(jobs):
            made = await _followed(session, execution, made)
        await connections.close()
    url = calls.url_of(made)
    lines = [f"{made.id}: {made.status}"]
    lines += [f"A person has to approve it: {url}"] if url else []
    lines += [str(made.error.get("message"))] if made.error else []
    for block in made.result.get("content", ()) if made.result else ():
        lines.append(str(block.get("text", f"[{block.get('type')}]")))
    session.out.record(InvocationAnswer.shown(made, url), lines)
    if made.status in ("failed", "denied", "expired"):
        raise SystemExit(FAILED)


async def _followed(session: Session, execution: Execution, made: Invocation) -> Invocation:
    with session.out.progress() as progress:

        async def watch(now: Invocation) -> None:
            told = now.progress
            message = told.message if told is not None and told.message else now.status
            progress.show(message, told.done if told else 0, told.total if told else None)

        return await execution.wait(
            session.principal,
            made.workspace_id,
            made.id,
            seconds=None,
            until=lambda now: now.finished or now.status == "awaiting_approval",
            watch=watch,
        )


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text or "{}")
    except ValueError as problem:
        raise Invalid("The arguments are no JSON.", fields=[FieldError("ARGS", str(problem)[:200])]) from None
    if not isinstance(value, dict):
        raise Invalid("The arguments are no JSON object.", fields=[FieldError("ARGS", 'write {"name": value}')])
    return value
