"""Owns `/join`: where the link of an invitation leads. Opening it changes nothing; the button joins."""

import hmac
from html import escape
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError, Unauthenticated
from holdfast.features.identity.model import Invitation
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.sessions.sign_in import SignIn, principal_of
from holdfast.features.identity.sessions.store import WebSession
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.model import Limit
from holdfast.surfaces.dashboard.shell.words import catalogue, language_for
from holdfast.surfaces.dashboard.signing.pages import page
from holdfast.surfaces.dashboard.signing.sign_in import (
    MAX_FORM_BYTES,
    count_attempt,
    first,
    redirect,
    send_page,
    session_cookie_header,
)
from holdfast.surfaces.http.asgi import read_body
from holdfast.surfaces.http.authentication import session_cookie
from holdfast.surfaces.http.site import MethodNotAllowed


class JoinPages:
    """The browser's side of an invitation."""

    def __init__(
        self,
        invitations: Invitations,
        sign_in: SignIn,
        limiter: Limiter,
        *,
        secure_cookies: bool,
        attempts_per_minute: int,
    ) -> None:
        self._invitations = invitations
        self._sign_in = sign_in
        self._limiter = limiter
        self._secure = secure_cookies
        self._limit = Limit(attempts_per_minute, 60)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            await self._show(scope, send, first(query, "invitation") or "")
        elif scope["method"] == "POST":
            form = parse_qs((await read_body(scope, receive, MAX_FORM_BYTES)).decode("utf-8", "replace"))
            await self._post(scope, send, form)
        else:
            raise MethodNotAllowed(f"/join does not take {scope['method'][:20]}.")

    async def _show(self, scope: Scope, send: Send, secret: str, error: HoldfastError | None = None) -> None:
        try:
            invitation = await self._invitations.look(secret)
        except HoldfastError as refused:
            shown = error or refused
            refusal = _page(language_for(scope), None, "", None, shown.message)
            await send_page(send, shown.status, refusal, shown.headers)
            return
        session = await self._session(scope)
        body = _page(language_for(scope), invitation, secret, session, error.message if error else None)
        await send_page(send, error.status if error else 200, body, error.headers if error else None)

    async def _post(self, scope: Scope, send: Send, form: dict[str, list[str]]) -> None:
        secret, name, password = first(form, "invitation") or "", first(form, "name") or "", first(form, "password")
        try:
            invitation = await self._invitations.look(secret)
            await count_attempt(self._limiter, self._limit, scope, invitation.email)
            session = await self._session(scope)
            if session is not None and session.email == invitation.email:
                # The form of somebody who is signed in carries their token, as every change by cookie does.
                if not hmac.compare_digest((first(form, "csrf") or "").encode(), session.csrf.encode()):
                    raise Unauthenticated
                cookie = session_cookie(scope) or ""
                principal = principal_of(session)
                await self._invitations.accept(principal, secret, password=password, cookie=cookie)
                await self._sign_in.switch(principal, cookie, invitation.organization_id)
                await redirect(send, "/")
                return
            signed_in = await self._invitations.join(secret, name=name, password=password)
        except HoldfastError as error:
            await self._show(scope, send, secret, error)
            return
        await redirect(send, "/", session_cookie_header(signed_in.cookie, secure=self._secure))

    async def _session(self, scope: Scope) -> WebSession | None:
        cookie = session_cookie(scope)
        try:
            return await self._sign_in.session(cookie) if cookie is not None else None
        except Unauthenticated:
            return None


def _page(
    language: str, invitation: Invitation | None, secret: str, session: WebSession | None, error: str | None
) -> bytes:
    text = catalogue(language).gettext
    parts = [f"<h1>{text('Join an organization')}</h1>"]
    if error:
        parts.append(f'<p class="error" role="alert">{escape(error)}</p>')
    if invitation is None:
        return page(text("Join"), "".join(parts), language)
    who = {
        "organization": f"<strong>{escape(invitation.organization_name)}</strong>",
        "email": f"<strong>{escape(invitation.email)}</strong>",
        "role": text(invitation.role),
    }
    invited = text("%(organization)s invites %(email)s. Your role: %(role)s.")
    parts.append(f"<p>{invited % who}</p>")
    hidden = f'<input type="hidden" name="invitation" value="{escape(secret)}">'
    if session is not None and session.email == invitation.email:
        parts.append(
            f'<form method="post" action="/join">{hidden}'
            f'<input type="hidden" name="csrf" value="{escape(session.csrf)}">'
            f'<label>{text("Your password, if you have one")}<input name="password" type="password" '
            f'autocomplete="current-password"></label><button>{text("Accept")}</button></form>'
        )
    else:
        told = text("The password is that of your account here if you have one; otherwise it becomes yours.")
        other = text("An account without one joins while it is signed in:")
        parts.append(
            f'<form method="post" action="/join">{hidden}'
            f"<label>{text('Your name')}"
            f'<input name="name" autocomplete="name" value="{escape(invitation.name)}"></label>'
            f'<label>{text("Password")}<input name="password" type="password" autocomplete="current-password"></label>'
            f"<button>{text('Join')}</button></form>"
            f'<p class="quiet">{told} {other} <a href="/sign-in">{text("Sign in")}</a></p>'
        )
    return page(text("Join"), "".join(parts), language)
