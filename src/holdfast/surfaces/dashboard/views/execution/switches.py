"""Owns `/w/{ws}/settings/execution`: what a workspace's admins switch on for calls of tools."""

from collections.abc import Mapping

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.errors import Forbidden, HoldfastError, Invalid
from holdfast.features.execution.model import ExecutionSetting
from holdfast.features.execution.settings import ExecutionSettings
from holdfast.features.secrets.service import Secrets
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors

_PATH = "/w/{ws}/settings/execution"
_SET = Access("workspace", "management", role="admin", tier="exec")
pages = Pages(NavRow("Rules for calls", _PATH, "settings", "workspace", 77, READ_EXEC))


@pages.get(_PATH, READ_EXEC)
async def switches_page(view: PageView, settings: ExecutionSettings, secrets: Secrets) -> Reply:
    return await _shown(view, settings, secrets)


@pages.post(_PATH, _SET)
async def set_switches(view: PageView, settings: ExecutionSettings, secrets: Secrets) -> Reply:
    """What is not ticked or left empty is off."""
    if not view.administers:
        raise Forbidden("Only an admin of this workspace or of the organization changes how tools are called.")
    new = ExecutionSetting(
        log_arguments=view.given("log_arguments") == "on",
        sampling_approvals=view.given("sampling_approvals") == "on",
        webhook_url=view.given("webhook_url") or None,
        webhook_secret=view.given("webhook_secret") or None,
    )
    try:
        await settings.set(view.principal, view.ws.id, new)
    except Invalid as error:
        return await _shown(view, settings, secrets, new, error)
    return view.go(_url(view), "Changed.")


async def _shown(
    view: PageView,
    settings: ExecutionSettings,
    secrets: Secrets,
    typed: ExecutionSetting | None = None,
    error: HoldfastError | None = None,
) -> Reply:
    names = [each.name for each in await secrets.list(view.principal, view.ws.id) if each.is_set]
    context: Mapping[str, object] = {
        "setting": typed or await settings.get(view.principal, view.ws.id),
        "secrets": names,
        "may_change": view.administers and view.may(_SET),
        "errors": field_errors(error) if error else None,
        "url": _url(view),
    }
    return view.page("execution/switches.html", "Rules for calls", status=error.status if error else 200, **context)


def _url(view: PageView) -> str:
    return f"/w/{view.ws.slug}/settings/execution"
