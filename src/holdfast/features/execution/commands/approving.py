"""Owns `holdfast approvals`: anybody on this machine may look; deciding takes a person who signs in."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Given, InWorkspace, Option, Session
from holdfast.core.errors import Unauthenticated
from holdfast.core.principal import Principal
from holdfast.features.execution.answers import ApprovalAnswer, DecidedAnswer, ExecutionSettingAnswer
from holdfast.features.execution.approvals.service import ApprovalDecision, Approvals
from holdfast.features.execution.model import APPROVAL_STATES
from holdfast.features.execution.settings import ExecutionSettings
from holdfast.features.identity.sessions.sign_in import SignIn, principal_of

approvals = Commands("approvals", help="Calls that wait for a person.")


class ListApprovals(InWorkspace):
    """What `list` is given."""

    state: Annotated[str, Option(choices=APPROVAL_STATES)] = "pending"


@approvals.command("list", help="List calls that wait for a person.")
async def list_approvals(session: Session, service: Approvals, given: ListApprovals) -> None:
    workspace_id = await session.workspace(given.workspace)
    state = next(each for each in APPROVAL_STATES if each == given.state)
    found = await service.list(session.principal, workspace_id, state=state, limit=200)
    rows = [ApprovalAnswer.shown(each, service.url_of(each.approval)) for each in found.items]
    session.out.table(rows, ["id", "tool_name", "requested_name", "expires_at", "approval_url"], "Nothing waits.")


class Decide(Given):
    """What `approve` and `deny` are given."""

    approval: Annotated[str, Argument(metavar="APPROVAL")]
    email: Annotated[str, Option(metavar="EMAIL")] = Field(description="Who decides; the password is asked for.")
    note: Annotated[str, Option(metavar="TEXT")] = Field("", description="Why; the asker reads it.")


class Approve(Decide):
    """What `approve` is given."""

    session: bool = Field(False, description="Let them for the rest of the session or chat that the call comes from.")
    always: bool = Field(False, description="Let the same asker call the same tool without asking from now on.")


@approvals.command("approve", help="Approve a call, as a person who signs in with a password.")
async def approve(session: Session, service: Approvals, sign_in: SignIn, given: Approve) -> None:
    person = await _signed_in(session, sign_in, given.email)
    decided = await service.decide(
        person, given.approval, ApprovalDecision(True, given.note, given.always, given.session), "cli"
    )
    session.out.record(DecidedAnswer.shown(decided), [f"{decided.id}: {decided.state}"])


@approvals.command("deny", help="Deny a call, as a person who signs in with a password.")
async def deny(session: Session, service: Approvals, sign_in: SignIn, given: Decide) -> None:
    person = await _signed_in(session, sign_in, given.email)
    decided = await service.decide(person, given.approval, ApprovalDecision(False, given.note), "cli")
    session.out.record(DecidedAnswer.shown(decided), [f"{decided.id}: {decided.state}"])


class Switches(InWorkspace):
    """What `settings` is given: what is left out stays as it is."""

    log_arguments: Annotated[bool | None, Option("--log-arguments/--no-log-arguments")] = Field(
        None, description="Put arguments and results of calls into the audit log."
    )
    sampling_approvals: Annotated[bool | None, Option("--sampling-approvals/--no-sampling-approvals")] = Field(
        None, description="Let a client's own model approve calls that destroy nothing."
    )
    webhook_url: Annotated[str | None, Option(metavar="URL")] = Field(
        None, description="Where calls that wait are announced; '' for nowhere."
    )
    webhook_secret: Annotated[str | None, Option(metavar="SECRET")] = Field(
        None, description="The secret that announcements are signed with; '' for none."
    )


@approvals.command("settings", help="Show a workspace's switches for calls of tools, or change those that are given.")
async def settings(session: Session, service: ExecutionSettings, given: Switches) -> None:
    workspace_id = await session.workspace(given.workspace)
    setting = await service.get(session.principal, workspace_id)
    said: dict[str, Any] = given.model_dump(include={*ExecutionSettingAnswer.model_fields}, exclude_none=True)
    if said:
        # An empty address or name takes it away.
        wanted: dict[str, Any] = {name: value if value != "" else None for name, value in said.items()}
        changed = replace(setting, **wanted)
        setting = await service.set(session.principal, workspace_id, changed)
    session.out.record(ExecutionSettingAnswer.of(setting))


async def _signed_in(session: Session, sign_in: SignIn, email: str) -> Principal:
    """The person, by their password: whoever can run commands here is not by that a person who may approve."""
    password = session.out.ask_unseen(f"Password of {email}").removesuffix("\n").removesuffix("\r")
    try:
        signed_in = await sign_in.by_password(email, password)
    except Unauthenticated:
        await sign_in.recorded()
        raise
    principal = principal_of(signed_in.session)
    await sign_in.sign_out(signed_in.cookie)
    return principal
