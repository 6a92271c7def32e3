"""Owns `/sign-in` and `/sign-out`: links, passwords and OIDC from a browser, ending in a session cookie."""

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote

from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError, Unauthenticated
from holdfast.features.identity.sessions.sign_in import ATTEMPT_MILLIS, SESSION_MILLIS, LinkRefused, SignedIn, SignIn
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.model import Limit
from holdfast.surfaces.dashboard.shell.words import catalogue, language_for
from holdfast.surfaces.dashboard.signing.pages import CSP, sign_in_page
from holdfast.surfaces.http.asgi import read_body, send_bytes
from holdfast.surfaces.http.authentication import COOKIE, cookie_of, session_cookie
from holdfast.surfaces.http.site import MethodNotAllowed

if TYPE_CHECKING:
    from holdfast.engines.oidc import OidcClient

MAX_FORM_BYTES = 16 * 1024
WANTED = "holdfast_wanted"
"""The cookie with the page that somebody wanted before they were asked to sign in."""
_WANTED_SECONDS = 900
_MOST_WANTED = 1_000


class SignInPages:
    """The browser's side of signing in."""

    def __init__(
        self,
        sign_in: SignIn,
        limiter: Limiter,
        *,
        public_url: str,
        secure_cookies: bool,
        attempts_per_minute: int,
        oidc: "OidcClient | None",
    ) -> None:
        self._sign_in = sign_in
        self._limiter = limiter
        self._redirect_uri = f"{public_url}/sign-in/oidc/callback"
        self._secure = secure_cookies
        self._attempt = "__Host-holdfast_oidc" if secure_cookies else "holdfast_oidc"
        self._limit = Limit(attempts_per_minute, 60)
        self._oidc = oidc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        if path == "/sign-in" and method == "GET":
            await self._show(scope, send, first(query, "link"))
        elif path == "/sign-in" and method == "POST":
            await self._post(scope, receive, send)
        elif path == "/sign-out" and method == "POST":
            await self._leave(scope, send)
        elif path == "/sign-in/oidc" and method == "GET" and self._oidc is not None:
            await self._depart(self._oidc, scope, send)
        elif path == "/sign-in/oidc/callback" and method == "GET" and self._oidc is not None:
            await self._arrive(self._oidc, scope, query, send)
        else:
            raise MethodNotAllowed(f"{path} does not take {method}.")

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = parse_qs((await read_body(scope, receive, MAX_FORM_BYTES)).decode("utf-8", "replace"))
        link, email, password = (first(form, name) for name in ("link", "email", "password"))
        try:
            await count_attempt(self._limiter, self._limit, scope, email)
            if link is not None:
                signed_in = await self._sign_in.by_link(link)
            else:
                signed_in = await self._sign_in.by_password(email or "", password or "")
        except LinkRefused as refused:
            await self._refuse(scope, send, 401, refused.message)
            return
        except Unauthenticated:
            text = catalogue(language_for(scope)).gettext
            wrong = text("That did not work. Check the address and the password, or ask for a new link.")
            await self._refuse(scope, send, 401, wrong)
            return
        except HoldfastError as error:
            await self._refuse(scope, send, error.status, error.message, error.headers)
            return
        await self._enter(scope, send, signed_in)

    async def _show(self, scope: Scope, send: Send, link: str | None) -> None:
        """The form; a link is looked at, not used, so that whoever previews it leaves it as it was."""
        if link is not None:
            try:
                await self._sign_in.look_at_link(link)
            except LinkRefused as refused:
                await self._refuse(scope, send, 401, refused.message)
                return
        body = sign_in_page(language_for(scope), link=link, oidc=self._oidc is not None)
        await send_page(send, 200, body)

    async def _refuse(
        self, scope: Scope, send: Send, status: int, error: str, headers: dict[str, str] | None = None
    ) -> None:
        body = sign_in_page(language_for(scope), oidc=self._oidc is not None, error=error)
        await send_page(send, status, body, headers)

    async def _depart(self, oidc: "OidcClient", scope: Scope, send: Send) -> None:
        try:
            departure = await oidc.depart(self._redirect_uri)
        except HoldfastError as error:
            await self._refuse(scope, send, error.status, error.message)
            return
        browser = secrets.token_urlsafe(32)
        await self._sign_in.begin_attempt(departure.state, browser, departure.verifier, departure.nonce)
        await redirect(send, departure.url, self._attempt_cookie(browser))

    async def _arrive(self, oidc: "OidcClient", scope: Scope, query: dict[str, list[str]], send: Send) -> None:
        state, code = first(query, "state"), first(query, "code")
        try:
            await count_attempt(self._limiter, self._limit, scope, None)
            browser = cookie_of(scope, self._attempt)
            if state is None or code is None or browser is None:
                raise Unauthenticated
            verifier, nonce = await self._sign_in.take_attempt(state, browser)
            vouched = await oidc.arrive(code, self._redirect_uri, verifier, nonce)
            signed_in = await self._sign_in.by_subject(vouched.subject, vouched.email)
        except HoldfastError as error:
            text = catalogue(language_for(scope)).gettext
            told = text("Your organization's sign-in did not vouch for a member here.")
            await self._refuse(scope, send, error.status, told)
            return
        await self._enter(scope, send, signed_in, self._attempt_cookie(""))

    def _attempt_cookie(self, value: str) -> str:
        """Ties an attempt to the browser that began it: a link with somebody else's state signs nobody in.

        Its prefix keeps other hosts of the domain from setting it, and asks for the path `/`; plain http has none.
        """
        where = "Path=/; Secure" if self._secure else "Path=/sign-in/oidc"
        age = ATTEMPT_MILLIS // 1000 if value else 0
        return f"{self._attempt}={value}; {where}; HttpOnly; SameSite=Lax; Max-Age={age}"

    async def _leave(self, scope: Scope, send: Send) -> None:
        cookie = session_cookie(scope)
        if cookie is not None:
            await self._sign_in.sign_out(cookie)
        await redirect(send, "/sign-in", session_cookie_header("", secure=self._secure))

    async def _enter(self, scope: Scope, send: Send, signed_in: SignedIn, *cookies: str) -> None:
        """To the page that was wanted, or home."""
        session = session_cookie_header(signed_in.cookie, secure=self._secure)
        await redirect(send, wanted_page(scope), session, wanted_cookie(""), *cookies)


async def count_attempt(limiter: Limiter, limit: Limit, scope: Scope, email: str | None) -> None:
    """Both per address and per client, so that neither many guesses nor many addresses get through."""
    client = scope.get("client") or ("unknown", 0)
    (await limiter.take(f"sign-in from {client[0]}", limit)).check("sign-in attempts")
    if email:
        (await limiter.take(f"sign-in as {email.strip().lower()[:300]}", limit)).check("sign-in attempts")


def session_cookie_header(value: str, *, secure: bool) -> str:
    """The header that sets our cookie, or with no value ends it."""
    age = SESSION_MILLIS // 1000 if value else 0
    return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age}{'; Secure' if secure else ''}"


def wanted_cookie(url: str) -> str:
    """The header that remembers a page of ours while somebody signs in, or with no page forgets it."""
    kept = quote(url, safe="") if len(url) <= _MOST_WANTED else ""
    return f"{WANTED}={kept}; Path=/; HttpOnly; SameSite=Lax; Max-Age={_WANTED_SECONDS if kept else 0}"


def wanted_page(scope: Scope) -> str:
    """The page to go to after signing in. Others may have set the cookie, so it leads nowhere but to a page here."""
    url = unquote(cookie_of(scope, WANTED) or "")
    is_ours = url.startswith("/") and url.isascii() and url.isprintable() and url[1:2] not in ("/", "\\")
    return url if is_ours else "/"


async def send_page(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """A page that nobody keeps and whose address is told to nobody: links are in it."""
    safe = {"Content-Security-Policy": CSP, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
    await send_bytes(send, status, body, content_type=b"text/html; charset=utf-8", headers={**safe, **(headers or {})})


async def redirect(send: Send, url: str, *cookies: str) -> None:
    """Send the browser on, with cookies."""
    headers = [(b"location", url.encode("latin-1")), (b"cache-control", b"no-store"), (b"content-length", b"0")]
    headers += [(b"set-cookie", cookie.encode("latin-1")) for cookie in cookies]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def first(values: Mapping[str, list[str]], name: str) -> str | None:
    """A form's or query's first value of that name."""
    found = values.get(name)
    return found[0] if found else None
