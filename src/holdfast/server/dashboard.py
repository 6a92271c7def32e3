"""Owns how the pages for people are put together: every module of pages, bound to its services."""

from importlib import import_module

from holdfast.core.parts import Parts
from holdfast.engines.events.bus import EventBus
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.features.workspaces.service import Workspaces
from holdfast.surfaces.dashboard.shell.app import Dashboard
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.http.authentication import Authenticator

MODULES = (
    "home",
    "find",
    "chat.pages",
    "chat.manager",
    "chat.beside",
    "approvals",
    "connections",
    "memory",
    "documents",
    "artifacts",
    "decisions",
    "cases",
    "environments",
    "agents.definitions",
    "agents.sessions",
    "collections",
    "connect",
    "repositories",
    "exchange",
    "settings.keys",
    "settings.people",
    "settings.members",
    "settings.endpoints",
    "settings.clients",
    "settings.secrets",
    "catalog.servers",
    "catalog.one",
    "execution.invocations",
    "execution.grants",
    "execution.switches",
    "settings.audit",
    "settings.usage",
    "settings.profile",
)
"""Modules of `surfaces/dashboard/views`, each with its `pages`."""


def build_dashboard(parts: Parts, authenticator: Authenticator, public_url: str) -> Dashboard:
    """The pages behind a session."""
    modules: list[Pages] = [import_module(f"holdfast.surfaces.dashboard.views.{name}").pages for name in MODULES]
    return Dashboard(
        [row for each in modules for row in each.bind(parts)],
        [place for each in modules for place in each.places],
        parts[SignIn],
        parts[Identity],
        parts[Workspaces],
        authenticator,
        parts[EventBus],
        public_url=public_url,
    )
