"""Owns the way of a request for a page: match → session → token of a form → access → page → markup."""

import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import parse_qs, quote, unquote

from starlette.types import Receive, Scope, Send

from holdfast.core.access import at_least
from holdfast.core.errors import Forbidden, HoldfastError, Invalid, NotFound, Unauthenticated
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn, principal_of
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.service import MOST_SEEN, Workspaces
from holdfast.surfaces.dashboard.shell.assets import PREFIX, send_asset
from holdfast.surfaces.dashboard.shell.declarations import NavRow, PageRow
from holdfast.surfaces.dashboard.shell.frame import HEADERS, markup
from holdfast.surfaces.dashboard.shell.view import PageView, Redirected, Rendered, Reply, Sent
from holdfast.surfaces.dashboard.shell.words import catalogue, language_for
from holdfast.surfaces.dashboard.signing.sign_in import redirect, wanted_cookie
from holdfast.surfaces.http.asgi import header, read_body, send_bytes, send_problem
from holdfast.surfaces.http.authentication import Authenticator, cookie_of, session_cookie
from holdfast.surfaces.http.routes import Routes
from holdfast.surfaces.http.site import MethodNotAllowed

HTML = b"text/html; charset=utf-8"
MAX_FORM_BYTES = 4 * 1024 * 1024
NOTICE, WORKSPACE = "holdfast_notice", "holdfast_workspace"
_REFUSED = "holdfast_refused=1; Path=/; SameSite=Lax; Max-Age=3600"
"""Tells the next page that a form was not taken, so that it gives back what was written (`unsent.js`)."""
THEME, SINGLE_KEYS = "holdfast_theme", "holdfast_single_keys"
_THEMES = ("light", "dark")


class Dashboard:
    """The ASGI application that serves every page behind a session."""

    def __init__(
        self,
        rows: Sequence[PageRow],
        places: Sequence[NavRow],
        sign_in: SignIn,
        identity: Identity,
        workspaces: Workspaces,
        authenticator: Authenticator,
        events: EventBus,
        *,
        public_url: str,
    ) -> None:
        self.rows = tuple(rows)
        self._routes: Routes[PageRow] = Routes()
        for row in rows:
            self._routes.add(row.method, row.path, row)
        self._places = tuple(places)
        self._sign_in = sign_in
        self._identity = identity
        self._workspaces = workspaces
        self._authenticator = authenticator
        self._events = events
        self._public_url = public_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith(PREFIX):
            try:
                await send_asset(scope, receive, send)
            except NotFound as missing:
                await send_problem(scope, send, missing)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        found = self._routes.match(method, path, scope.get("raw_path") or b"")
        cookie = session_cookie(scope)
        try:
            view = await self._view(scope, receive, cookie or "", found[1] if found else {})
        except Unauthenticated:
            await redirect(send, "/sign-in", *([_REFUSED] if scope["method"] == "POST" else _wanted(scope)))
            return
        except HoldfastError as error:
            await send_problem(scope, send, error)
            return
        await self._answer(scope, send, view, found[0] if found else None)

    async def stop(self) -> None:
        """Nothing here outlives its requests; those may finish."""

    async def _answer(self, scope: Scope, send: Send, view: PageView, row: PageRow | None) -> None:
        path = scope["path"]
        try:
            if row is None:
                methods = self._routes.methods(path)
                raise MethodNotAllowed(f"{path} takes {methods[0]}.") if methods else NotFound("page", path[:200])
            if scope["method"] == "POST":
                _check_token(scope, view)
            row.access.check(view.principal)
            if "ws" in row.path and "ws" in view.path and view.workspace is None:
                raise NotFound("workspace", view.path["ws"][:100])
            reply = await row.handler(view)
        except HoldfastError as error:
            if error.status == 403:
                await self._authenticator.denied(
                    view.principal, f"{scope['method']} {row.path if row else path}", error
                )
            if view.is_part:
                reply = Rendered("frame/alert.html", {"error": error}, whole=False, status=error.status)
                await self._send(scope, send, view, reply, error.headers)
                return
            reply = Rendered("frame/problem.html", {"title": "", "error": error}, status=error.status)
            kept = {"Set-Cookie": _REFUSED} if scope["method"] == "POST" else {}
            await self._send(scope, send, view, reply, {**error.headers, **kept})
            return
        await self._send(scope, send, view, reply, {})

    async def _send(self, scope: Scope, send: Send, view: PageView, reply: Reply, extra: Mapping[str, str]) -> None:
        if isinstance(reply, Sent):
            headers = {**HEADERS, **reply.headers}
            await send_bytes(send, 200, reply.body, content_type=reply.media_type.encode(), headers=headers)
        elif isinstance(reply, Redirected):
            told = catalogue(view.language).gettext(reply.notice) if reply.notice else ""
            cookies = [*reply.cookies, *([_notice(told)] if told else [])]
            if view.is_part:
                raw = [(b"hx-redirect", reply.url.encode("latin-1")), (b"cache-control", b"no-store")]
                raw += [(b"set-cookie", cookie.encode("latin-1")) for cookie in cookies]
                await send({"type": "http.response.start", "status": 200, "headers": raw})
                await send({"type": "http.response.body", "body": b""})
            else:
                await redirect(send, reply.url, *cookies)
        else:
            told = unquote(cookie_of(scope, NOTICE) or "") if reply.whole else ""
            body = markup(view, self._places, reply, told, scope["path"])
            headers = {**HEADERS, **extra}
            if told and "Set-Cookie" not in headers:
                headers["Set-Cookie"] = _notice("")
            elif "Set-Cookie" not in headers and reply.whole and "ws" in view.path and view.workspace is not None:
                headers["Set-Cookie"] = setting_cookie(WORKSPACE, view.workspace.slug)
            await send_bytes(send, reply.status, body, content_type=HTML, headers=headers)

    async def _view(self, scope: Scope, receive: Receive, cookie: str, path: Mapping[str, str]) -> PageView:
        session = await self._sign_in.session(cookie)
        principal = principal_of(session)
        scope.setdefault("state", {})["actor"] = principal.actor
        await self._authenticator.limit(principal)
        form: Mapping[str, Sequence[str]] = {}
        if scope["method"] == "POST":
            raw = await read_body(scope, receive, MAX_FORM_BYTES)
            form = parse_qs(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1_000)
        workspaces = (await self._workspaces.list(principal, limit=MOST_SEEN)).items
        workspace = await self._workspace(scope, principal, path, workspaces)
        theme = cookie_of(scope, THEME) or ""
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True, max_num_fields=100)
        return PageView(
            session=session,
            cookie=cookie,
            principal=principal,
            path=path,
            query={name: values[0] for name, values in query.items()},
            form=form,
            organization=(await self._identity.organization(principal, principal.organization_id)).name,
            workspaces=workspaces,
            workspace=workspace,
            language=language_for(scope),
            theme=theme if theme in _THEMES else "",
            public_url=self._public_url,
            is_part=header(scope, b"hx-request") == "true" and header(scope, b"hx-request-type") != "full",
            administers=await self._administers(principal, workspace),
            since=await self._events.newest(),
            single_keys=cookie_of(scope, SINGLE_KEYS) != "off",
        )

    async def _administers(self, principal: Principal, workspace: Workspace | None) -> bool:
        if at_least(principal.role, "admin"):
            return True
        return workspace is not None and principal.actor in await self._workspaces.admins(principal, workspace.id)

    async def _workspace(
        self, scope: Scope, principal: Principal, path: Mapping[str, str], workspaces: Sequence[Workspace]
    ) -> Workspace | None:
        """The one that the path names by id, UUID or slug, else the one looked at last; a foreign one is none."""
        named = path.get("ws")
        wanted = cookie_of(scope, WORKSPACE) if named is None else named
        found = next((each for each in workspaces if wanted in (each.slug, each.id, each.uuid)), None)
        if found is None and wanted and len(workspaces) == MOST_SEEN:
            with suppress(NotFound, Invalid):
                found = await self._workspaces.get(principal, wanted)
        if found is None and named is None and workspaces:
            return workspaces[0]
        return found


def _wanted(scope: Scope) -> list[str]:
    """What brings somebody who has to sign in first back to the page they opened; parts and forms are none."""
    if scope["method"] != "GET" or scope["path"] == "/" or header(scope, b"hx-request") == "true":
        return []
    query = scope.get("query_string", b"").decode("latin-1")
    return [wanted_cookie(quote(scope["path"]) + (f"?{query}" if query else ""))]


def _check_token(scope: Scope, view: PageView) -> None:
    given = header(scope, b"x-csrf-token") or view.given("csrf")
    if not hmac.compare_digest(given.encode(), view.session.csrf.encode()):
        raise Forbidden("The form is not from your session's page; send it again.", code="csrf")


def setting_cookie(name: str, value: str) -> str:
    """A choice of the person's that holds on this browser for a year; without a value it is forgotten."""
    return f"{name}={quote(value, safe='')}; Path=/; HttpOnly; SameSite=Lax; Max-Age={31_536_000 if value else 0}"


def _notice(text: str) -> str:
    return f"{NOTICE}={quote(text[:500], safe='')}; Path=/; HttpOnly; SameSite=Lax; Max-Age={60 if text else 0}"
