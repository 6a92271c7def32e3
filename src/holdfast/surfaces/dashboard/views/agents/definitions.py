"""Owns `/w/{ws}/agents`: the agents of a workspace, and one with its definition, servers, secrets and sessions."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.access import READ_EXEC, RUN_EXEC, Access
from holdfast.core.errors import Conflict, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.features.agents.definitions.attachments import AgentAttachments
from holdfast.features.agents.definitions.model import RUNNERS, AgentDefinition, NewAgent, NewAttachment
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.sessions.model import NewSession, SessionFilter
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.catalog.model import CatalogEntry
from holdfast.features.catalog.service import ServerCatalog
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors
from holdfast.surfaces.dashboard.views.agents.agent_form import filled, read_agent, typed

_PATH = "/w/{ws}/agents"
_ONE = _PATH + "/{id}"
_AUTHOR = Access("workspace", "management", tier="exec")
_ADMIN = Access("workspace", "management", role="admin", tier="exec")
_SESSIONS = 10
pages = Pages(NavRow("Agents", _PATH, "agent", "workspace", 36, READ_EXEC))


@pages.get(_PATH, READ_EXEC)
async def agents_page(view: PageView, agents: AgentDefinitions) -> Reply:
    return await _all(view, agents)


@pages.post(_PATH, _AUTHOR)
async def create(view: PageView, agents: AgentDefinitions) -> Reply:
    try:
        made = await agents.create(view.principal, view.ws.id, read_agent(view))
    except (Conflict, Invalid) as error:
        return await _all(view, agents, error=error)
    return view.go(f"{_url(view)}/{made.id}", "Defined. Attach what it needs, then let it run.")


@pages.get(_ONE, READ_EXEC)
async def agent_page(
    view: PageView, agents: AgentDefinitions, sessions: AgentSessions, catalog: ServerCatalog
) -> Reply:
    return await _one(view, agents, sessions, catalog)


@pages.post(_ONE, _AUTHOR)
async def change(view: PageView, agents: AgentDefinitions, sessions: AgentSessions, catalog: ServerCatalog) -> Reply:
    try:
        await agents.change(view.principal, view.ws.id, view.path["id"], read_agent(view))
    except (Conflict, Invalid) as error:
        return await _one(view, agents, sessions, catalog, error=error, form=typed(view))
    return view.go(_this(view), "Changed, from its next session on.")


@pages.post(_ONE + "/run", RUN_EXEC)
async def run(view: PageView, agents: AgentDefinitions, sessions: AgentSessions, catalog: ServerCatalog) -> Reply:
    new = NewSession(view.given("prompt"), view.given("case_id") or None)
    try:
        made = await sessions.start(view.principal, view.ws.id, view.path["id"], new)
    except (Conflict, Invalid, NotFound) as error:
        return await _one(view, agents, sessions, catalog, error=error, prompt=new.prompt)
    return view.go(f"/w/{view.ws.slug}/sessions/{made.id}")


@pages.post(_ONE + "/attach", _AUTHOR)
async def attach(
    view: PageView,
    agents: AgentDefinitions,
    attachments: AgentAttachments,
    sessions: AgentSessions,
    catalog: ServerCatalog,
) -> Reply:
    env = {name[4:]: view.given(name) for name in view.form if name.startswith("env.") and view.given(name)}
    agent = await agents.get(view.principal, view.ws.id, view.path["id"])
    new = NewAttachment(view.given("name"), env)
    try:
        await attachments.put(view.principal, agent.id, [new], whole=False)
    except (Conflict, Forbidden, Invalid) as error:
        return await _one(view, agents, sessions, catalog, error=error, attaching=new)
    return view.go(_this(view), "Attached, from its next session on.")


@pages.post(_ONE + "/detach", _AUTHOR)
async def detach(view: PageView, agents: AgentDefinitions, attachments: AgentAttachments) -> Reply:
    agent = await agents.get(view.principal, view.ws.id, view.path["id"])
    await attachments.detach(view.principal, agent.id, view.given("name"))
    return view.go(_this(view), "Detached, from its next session on.")


@pages.post(_ONE + "/secrets", _ADMIN)
async def grant_secret(
    view: PageView, agents: AgentDefinitions, sessions: AgentSessions, catalog: ServerCatalog
) -> Reply:
    """Let the agent's own process have a secret, or end that."""
    if not view.administers:
        raise Forbidden("Only an admin of this workspace or of the organization gives secrets to agents.")
    agent = await agents.get(view.principal, view.ws.id, view.path["id"])
    give = agents.take_secret if view.given("end") else agents.grant_secret
    try:
        await give(view.principal, agent.id, view.given("secret"))
    except (Invalid, NotFound) as error:
        return await _one(view, agents, sessions, catalog, error=error)
    return view.go(_this(view), "From its next session on." if view.given("end") else "Given.")


@pages.post(_ONE + "/remove", _AUTHOR)
async def remove(view: PageView, agents: AgentDefinitions) -> Reply:
    await agents.remove(view.principal, view.ws.id, view.path["id"])
    return view.go(_url(view), "The agent is gone; what its sessions did is kept.")


async def _all(view: PageView, agents: AgentDefinitions, *, error: HoldfastError | None = None) -> Reply:
    return view.page(
        "agents/index.html",
        "Agents",
        status=error.status if error else 200,
        agents=await agents.list(view.principal, view.ws.id),
        runners=RUNNERS,
        may_write=view.may(_AUTHOR),
        form=typed(view) if error else filled(NewAgent(name="")),
        errors=field_errors(error) if error else None,
        url=_url(view),
    )


async def _one(
    view: PageView,
    agents: AgentDefinitions,
    sessions: AgentSessions,
    catalog: ServerCatalog,
    *,
    error: HoldfastError | None = None,
    form: Mapping[str, str] | None = None,
    attaching: NewAttachment | None = None,
    prompt: str = "",
) -> Reply:
    agent = await agents.get(view.principal, view.ws.id, view.path["id"])
    servers = {each.name: each for each in await catalog.list(view.principal, view.ws.id)}
    last = await sessions.list(view.principal, view.ws.id, SessionFilter(agent=agent.id), limit=_SESSIONS, cursor=None)
    context: dict[str, Any] = {
        "agent": agent,
        "servers": servers,
        "attaching": _attaching(view, agent, servers, attaching),
        "rows": last.items,
        "next_url": "",
        "sessions_url": f"/w/{view.ws.slug}/sessions",
        "runners": RUNNERS,
        "may_write": view.may(_AUTHOR),
        "may_run": view.may(RUN_EXEC),
        "may_give": view.administers and view.may(_ADMIN),
        "form": form or filled(agent.spec),
        "is_changing": form is not None,
        "prompt": prompt,
        "errors": field_errors(error) if error else None,
        "url": _this(view),
    }
    return view.page("agents/show.html", agent.name, status=error.status if error else 200, **context)


def _attaching(
    view: PageView, agent: AgentDefinition, servers: Mapping[str, CatalogEntry], given: NewAttachment | None
) -> dict[str, Any] | None:
    """The server whose fields are filled in now: what its manifest asks for, and what stands there already."""
    name = given.name if given is not None else view.query.get("attach", "")
    entry = servers.get(name)
    if entry is None or not view.may(_AUTHOR):
        return None
    before = next((each.env for each in agent.attachments if each.name == name), entry.spec.env)
    return {"entry": entry, "rules": entry.spec.manifest.env, "env": given.env if given is not None else before}


def _url(view: PageView) -> str:
    return f"/w/{view.ws.slug}/agents"


def _this(view: PageView) -> str:
    return f"{_url(view)}/{view.path['id']}"
