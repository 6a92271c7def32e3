"""Owns `/`: what a signed-in person sees first: their workspaces, keys, and how to connect a client."""

from collections.abc import Sequence
from html import escape

from starlette.types import Receive, Scope, Send

from holdfast.core.clock import iso_or_none
from holdfast.core.errors import Forbidden, Unauthenticated
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import ApiKey
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn, principal_of
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.service import Workspaces
from holdfast.surfaces.dashboard.bundles import bundle_form
from holdfast.surfaces.dashboard.pages import CSP, page
from holdfast.surfaces.http.asgi import send_bytes
from holdfast.surfaces.http.authentication import session_cookie


class Home:
    """The first page."""

    def __init__(
        self, sign_in: SignIn, identity: Identity, workspaces: Workspaces, keys: Keys, *, public_url: str
    ) -> None:
        self._sign_in = sign_in
        self._identity = identity
        self._workspaces = workspaces
        self._keys = keys
        self._public_url = public_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cookie = session_cookie(scope)
        try:
            if cookie is None:
                raise Unauthenticated
            session = await self._sign_in.session(cookie)
        except Unauthenticated:
            headers = {"Location": "/sign-in", "Cache-Control": "no-store"}
            await send_bytes(send, 303, b"", content_type=b"text/plain", headers=headers)
            return
        principal = principal_of(session)
        organization = await self._identity.organization(principal, principal.organization_id)
        workspaces = (await self._workspaces.list(principal, limit=200)).items
        form = ""
        try:
            keys = [key for key in (await self._keys.list(principal, limit=200)).items if key.revoked_at is None]
            form = bundle_form(session, workspaces) if workspaces else ""
        except Forbidden:
            keys = []
        body = (
            f"<header><h1>{escape(organization.name)}</h1>"
            '<form method="post" action="/sign-out"><button>Sign out</button></form></header>'
            f'<p class="quiet">Signed in as {escape(session.name)} ({escape(session.email)}), {session.role}.</p>'
            f"<h2>Workspaces</h2>{_workspace_table(workspaces)}<h2>Keys</h2>{_key_table(keys)}"
            f"<h2>Connect a client</h2>{_SETUP}{form}{self._by_hand(workspaces)}"
            '<p><a href="/api/docs">API documentation</a></p>'
        )
        headers = {"Content-Security-Policy": CSP, "Cache-Control": "no-store"}
        await send_bytes(send, 200, page("Home", body), content_type=b"text/html; charset=utf-8", headers=headers)

    def _by_hand(self, workspaces: Sequence[Workspace]) -> str:
        if not workspaces:
            return ""
        url = f"{self._public_url}/{workspaces[0].project_id}/v1/mcp"
        return f"<p>By hand: MCP over HTTP at <code>{escape(url)}</code> with a key as bearer.</p>"


_SETUP = "<p>On the server's machine, in your repository:</p><pre>holdfast mcp setup claude-code --write .</pre>"


def _workspace_table(workspaces: Sequence[Workspace]) -> str:
    rows = "".join(
        f"<tr><td>{escape(each.name)}</td><td><code>{each.id}</code></td><td><code>{escape(each.slug)}</code></td></tr>"
        for each in workspaces
    )
    return f"<table><tr><th>Name</th><th>Id</th><th>Slug</th></tr>{rows}</table>"


def _key_table(keys: list[ApiKey]) -> str:
    rows = "".join(
        f"<tr><td>{escape(key.name)}</td><td><code>{escape(key.prefix)}…</code></td><td>{key.tier}</td>"
        f"<td>{escape(', '.join(sorted(key.scopes)))}</td><td>{iso_or_none(key.last_used_at) or 'never'}</td></tr>"
        for key in keys
    )
    head = "<tr><th>Name</th><th>Prefix</th><th>Tier</th><th>Scopes</th><th>Last used</th></tr>"
    return f"<table>{head}{rows}</table>"
