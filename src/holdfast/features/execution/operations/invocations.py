"""Owns the REST operations of invocations, and a workspace's switches for governed execution."""

from typing import Any

from pydantic import Field

from holdfast.core.access import READ_EXEC, RUN_EXEC, Access
from holdfast.core.model import Model, PageQuery, Text
from holdfast.core.operations import Call, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.execution.answers import ExecutionSettingAnswer, InvocationAnswer
from holdfast.features.execution.calling import Calls
from holdfast.features.execution.model import ExecutionSetting, InvocationRequest, Status
from holdfast.features.execution.runs.immediate import ImmediateCalls
from holdfast.features.execution.service import MAX_WAIT_SECONDS, Execution
from holdfast.features.execution.settings import ExecutionSettings

api = Operations("execution")

_BASE = "/api/workspaces/{workspace_id}/invocations"
_ONE = _BASE + "/{invocation_id}"
_SETTINGS = "/api/workspaces/{workspace_id}/execution-settings"
_ADMINISTER = Access("workspace", "management", role="admin", tier="exec")


class InvocationQuery(PageQuery):
    status: Status | None = Field(default=None, description="Only those in this state")
    tool_name: str | None = Field(default=None, max_length=300, description="Only those of this tool")


class InvocationWaitQuery(Model):
    wait_seconds: float = Field(default=0, ge=0, le=MAX_WAIT_SECONDS, description="Wait so long for a change")


class InvocationBody(Model):
    tool_name: Text = Field(min_length=1, max_length=300, description="`<server>.<tool>`")
    arguments: dict[str, Any] = {}


class ExecutionSettingBody(Model):
    log_arguments: bool = Field(default=False, description="Put arguments and results of calls into the audit log")
    sampling_approvals: bool = Field(
        default=False, description="Let a client's own model approve calls that destroy nothing"
    )
    webhook_url: Text | None = Field(default=None, max_length=2000, description="Where pending approvals are announced")
    webhook_secret: Text | None = Field(default=None, max_length=64, description="The secret that signs announcements")


@api.get(_BASE, READ_EXEC, "Invocations of a workspace, the newest first")
async def page(
    execution: Execution, calls: Calls, principal: Principal, workspace_id: str, query: InvocationQuery
) -> Page[InvocationAnswer]:
    found = await execution.list(
        principal,
        workspace_id,
        status=query.status,
        tool_name=query.tool_name,
        cursor=query.cursor,
        limit=query.limit,
    )
    return found.map(lambda each: InvocationAnswer.shown(each, calls.url_of(each)))


@api.post(_BASE, RUN_EXEC, "Start a tool of the catalog", status=201)
async def invoke(
    immediate: ImmediateCalls, calls: Calls, principal: Principal, workspace_id: str, body: InvocationBody
) -> InvocationAnswer:
    request = InvocationRequest(
        principal=principal,
        workspace_id=workspace_id,
        tool_name=body.tool_name,
        arguments=body.arguments,
        source="rest",
    )
    made = (await immediate.ask(request)).invocation
    return InvocationAnswer.shown(made, calls.url_of(made))


@api.get(_ONE, READ_EXEC, "One invocation; may wait for a change")
async def get(
    execution: Execution,
    calls: Calls,
    principal: Principal,
    workspace_id: str,
    invocation_id: str,
    query: InvocationWaitQuery,
    call: Call,
) -> InvocationAnswer:
    found = await execution.get(principal, workspace_id, invocation_id)
    if query.wait_seconds:
        call.unhurried()
        first = found
        found = await execution.wait(
            principal,
            workspace_id,
            invocation_id,
            seconds=query.wait_seconds,
            until=lambda now: now.finished or (now.status, now.progress) != (first.status, first.progress),
        )
    return InvocationAnswer.shown(found, calls.url_of(found))


@api.post(_ONE + "/cancel", RUN_EXEC, "Cancel an invocation")
async def cancel(execution: Execution, principal: Principal, workspace_id: str, invocation_id: str) -> InvocationAnswer:
    return InvocationAnswer.shown(await execution.cancel(principal, workspace_id, invocation_id))


@api.get(_SETTINGS, READ_EXEC, "A workspace's switches for governed execution")
async def get_settings(settings: ExecutionSettings, principal: Principal, workspace_id: str) -> ExecutionSettingAnswer:
    return ExecutionSettingAnswer.of(await settings.get(principal, workspace_id))


@api.put(_SETTINGS, _ADMINISTER, "Set a workspace's switches for governed execution")
async def put_settings(
    settings: ExecutionSettings, principal: Principal, workspace_id: str, body: ExecutionSettingBody
) -> ExecutionSettingAnswer:
    return ExecutionSettingAnswer.of(await settings.set(principal, workspace_id, body.into(ExecutionSetting)))
