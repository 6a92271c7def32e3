"""Owns the tools about where one is: which workspaces there are, which one is bound, and binding a session to one."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.access import READ, RUN
from holdfast.core.clock import iso
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.service import Workspaces

MAX_CHOICES = 50
HEADER = "X-Xerotier-Workspace"
READY = "Ready: every tool works in this workspace."


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ListInput(_Input):
    limit: int = Field(default=50, ge=1, le=200, description="How many at most")
    cursor: str | None = Field(default=None, description="next_cursor of the page before")


class GetInput(_Input):
    pass


class InitInput(_Input):
    workspace_id: str | None = Field(
        default=None, max_length=200, description="Its id or slug; leave out to be asked or told"
    )


class WorkspaceOut(BaseModel):
    workspace_id: str
    uuid: str
    slug: str
    name: str
    project_id: str
    created_at: str


class ListOutput(BaseModel):
    workspaces: list[WorkspaceOut]
    bound: str | None
    next_cursor: str | None


class InitOutput(BaseModel):
    session_id: str | None
    workspace: WorkspaceOut | None
    bound: bool
    tier: str
    choices: list[WorkspaceOut]
    next_step: str


def tools(workspaces: Workspaces) -> list[AnyTool]:
    """workspace.list, workspace.get and session.init."""

    async def list_all(call: ToolCall, given: ListInput) -> ListOutput:
        page = await workspaces.list(call.principal, limit=given.limit, cursor=given.cursor)
        return ListOutput(
            workspaces=[_out(found) for found in page.items], bound=call.workspace_id, next_cursor=page.next_cursor
        )

    async def get(call: ToolCall, given: GetInput) -> WorkspaceOut:
        return _out(await workspaces.get(call.principal, call.workspace()))

    async def init(call: ToolCall, given: InitInput) -> InitOutput:
        if given.workspace_id is not None:
            chosen: Workspace | None = await workspaces.get(
                call.principal, given.workspace_id, project_id=call.project_id
            )
            choices: Sequence[Workspace] = ()
        elif call.workspace_id is not None:
            chosen, choices = await workspaces.get(call.principal, call.workspace_id), ()
        else:
            project = call.project_id or call.principal.project_id
            choices = (await workspaces.list(call.principal, project_id=project, limit=MAX_CHOICES)).items
            chosen = choices[0] if len(choices) == 1 else await _asked(call, choices)
        if chosen is None:
            return _output(call, None, False, choices, "Call again with one of the choices as workspace_id.")
        if call.workspace_id == chosen.id:
            return _output(call, chosen, True, (), READY)
        if call.bind is None:
            step = (
                f"This connection keeps no session: give every tool the argument workspace: {chosen.slug}, or have the "
                f"header {HEADER}: {chosen.id} sent with every request."
            )
            return _output(call, chosen, False, (), step)
        await call.bind(chosen.id)
        return _output(call, chosen, True, (), READY)

    return [
        Tool(
            name="xerotier.workspace.list",
            title="List workspaces",
            description=(
                "List the workspaces that this key can see. Use it to find where something is kept, or before "
                "session.init. Gives id, name and slug of each, and which one is bound. Example: {}"
            ),
            input=ListInput,
            output=ListOutput,
            handler=list_all,
            annotations=Annotations(read_only=True, idempotent=True),
            access=READ,
            text=_list_text,
        ),
        Tool(
            name="xerotier.workspace.get",
            title="Get the bound workspace",
            description=(
                "Tell which workspace this connection works in. Use it when you are not sure where a save would go. "
                "Gives its id, name and slug. Example: {}"
            ),
            input=GetInput,
            output=WorkspaceOut,
            handler=get,
            annotations=Annotations(read_only=True, idempotent=True),
            access=READ,
            in_workspace=True,
            text=_named,
        ),
        Tool(
            name="xerotier.session.init",
            title="Start a session",
            description=(
                "Bind this session to a workspace. Use it once, when a tool says that no workspace is bound. Without "
                "workspace_id it takes the only one, asks the user, or lists the choices. "
                'Example: {"workspace_id": "ws_…"}'
            ),
            input=InitInput,
            output=InitOutput,
            handler=init,
            annotations=Annotations(read_only=False, idempotent=True),
            access=RUN,
            text=_init_text,
        ),
    ]


async def _asked(call: ToolCall, choices: Sequence[Workspace]) -> Workspace | None:
    """The choice of the person behind the client; None when there is nobody to ask, or they chose none."""
    if not choices:
        return None
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "workspace_id": {
                "type": "string",
                "title": "Workspace",
                "enum": [choice.id for choice in choices],
                "enumNames": [choice.name for choice in choices],
            }
        },
        "required": ["workspace_id"],
    }
    answer = await call.ask("Which workspace should this session work in?", schema)
    if answer is None:
        return None
    chosen = next((choice for choice in choices if choice.id == answer.get("workspace_id")), None)
    if chosen is None:
        raise Invalid("The answer was none of the choices.", fields=[FieldError("workspace_id", "choose a listed one")])
    return chosen


def _out(workspace: Workspace) -> WorkspaceOut:
    return WorkspaceOut(
        workspace_id=workspace.id,
        uuid=workspace.uuid,
        slug=workspace.slug,
        name=workspace.name,
        project_id=workspace.project_id,
        created_at=iso(workspace.created_at),
    )


def _output(
    call: ToolCall, chosen: Workspace | None, bound: bool, choices: Sequence[Workspace], next_step: str
) -> InitOutput:
    return InitOutput(
        session_id=call.session_id,
        workspace=None if chosen is None else _out(chosen),
        bound=bound,
        tier=call.principal.tier,
        choices=[_out(choice) for choice in choices],
        next_step=next_step,
    )


def _list_text(found: ListOutput) -> str:
    lines = [f"- {_named(item)}{' — bound' if item.workspace_id == found.bound else ''}" for item in found.workspaces]
    if found.next_cursor is not None:
        lines.append(f"There are more; go on with cursor {found.next_cursor}.")
    return "\n".join(lines) or "This key sees no workspace."


def _named(workspace: WorkspaceOut) -> str:
    return f"{workspace.name} ({workspace.workspace_id}, slug {workspace.slug})"


def _init_text(found: InitOutput) -> str:
    where = _named(found.workspace) if found.workspace else "no workspace"
    choices = "".join(f"\n- {_named(item)}" for item in found.choices)
    return f"Session in {where}, tier {found.tier}. {found.next_step}{choices}"
