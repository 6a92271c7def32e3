"""Owns `/w/{ws}/settings/grants`: who may call tools unasked, giving such a right, and ending it."""

from typing import get_args

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Forbidden, HoldfastError, Invalid
from holdfast.features.execution.model import NewGrant, SubjectType
from holdfast.features.execution.policies.grants import Grants
from holdfast.features.execution.service import Execution
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.lists import ROWS, next_of
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors

_PATH = "/w/{ws}/settings/grants"
_GIVE = Access("workspace", "management", role="admin", tier="exec", people_only=True, signed_in=True)
_TAKE = Access("workspace", "management", role="admin", tier="exec")
_LOOKED_AT = 200
_DAY_MILLIS = 86_400_000
_DAYS = ("1", "7", "30")
_FIELDS = ("subject_type", "subject_id", "what", "name", "scope", "days")
SUBJECTS: tuple[SubjectType, ...] = get_args(SubjectType)
pages = Pages(NavRow("Grants", _PATH, "check", "workspace", 75, READ_EXEC))


@pages.get(_PATH, READ_EXEC)
async def grants_page(view: PageView, grants: Grants, execution: Execution) -> Reply:
    return await _shown(view, grants, execution)


@pages.post(_PATH, _GIVE)
async def give(view: PageView, grants: Grants, execution: Execution, clock: Clock) -> Reply:
    if not view.administers:
        raise Forbidden("Only an admin of this workspace or of the organization gives grants.")
    try:
        await grants.give(view.principal, view.ws.id, _read(view, clock.now()))
    except Invalid as error:
        return await _shown(view, grants, execution, error)
    return view.go(_url(view), "Given.")


@pages.post(_PATH + "/{id}/end", _TAKE)
async def end(view: PageView, grants: Grants) -> Reply:
    await grants.take(view.principal, view.ws.id, view.path["id"])
    return view.go(_url(view), "It has ended.")


async def _shown(view: PageView, grants: Grants, execution: Execution, error: HoldfastError | None = None) -> Reply:
    may_change = view.administers and view.may(_GIVE)
    found = await grants.page(view.principal, view.ws.id, limit=ROWS, cursor=view.query.get("cursor"))
    return view.page(
        "execution/grants.html",
        "Grants",
        status=error.status if error else 200,
        grants=found.items,
        next_url=next_of(found, _url(view)),
        # Those whom somebody may want to let.
        callers=await execution.callers(view.principal, view.ws.id, limit=_LOOKED_AT) if may_change else {},
        may_change=may_change,
        subjects=SUBJECTS,
        days=_DAYS,
        form={name: view.given(name) for name in _FIELDS},
        errors=field_errors(error) if error else None,
        url=_url(view),
    )


def _read(view: PageView, now: int) -> NewGrant:
    subject_type: SubjectType = next((each for each in SUBJECTS if each == view.given("subject_type")), "key")
    what, name = view.given("what"), view.given("name")
    wrong = [FieldError(field, "say which") for field in ("subject_id", "name") if not view.given(field)]
    if wrong:
        raise Invalid("The grant cannot be given like this.", fields=wrong)
    days = view.given("days")
    return NewGrant(
        subject_type=subject_type,
        subject_id=view.given("subject_id"),
        grant_type="spawn" if what == "agent" else "tool_scope",
        details={what if what in ("tool", "scope", "agent") else "tool": name},
        scope="persistent" if view.given("scope") == "persistent" else "once",
        expires_at=now + int(days) * _DAY_MILLIS if days in _DAYS else None,
    )


def _url(view: PageView) -> str:
    return f"/w/{view.ws.slug}/settings/grants"
