"""Owns `/sign-in` and `/sign-out`: links, passwords and OIDC from a browser, ending in a session cookie."""

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError, Unauthenticated
from holdfast.features.identity.sign_in import SESSION_MILLIS, SignedIn, SignIn
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.model import Limit
from holdfast.surfaces.dashboard.pages import CSP, sign_in_page
from holdfast.surfaces.http.asgi import read_body, send_bytes
from holdfast.surfaces.http.authentication import COOKIE, session_cookie
from holdfast.surfaces.http.site import MethodNotAllowed

if TYPE_CHECKING:
    from holdfast.engines.oidc import OidcClient

MAX_FORM_BYTES = 16 * 1024
_WRONG = "That did not work. Check the address and the password, or ask for a new link."


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
        self._limit = Limit(attempts_per_minute, 60)
        self._oidc = oidc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        if path == "/sign-in" and method == "GET":
            await self._page(send, 200, sign_in_page(link=_first(query, "link"), oidc=self._oidc is not None))
        elif path == "/sign-in" and method == "POST":
            await self._post(scope, receive, send)
        elif path == "/sign-out" and method == "POST":
            await self._leave(scope, send)
        elif path == "/sign-in/oidc" and method == "GET" and self._oidc is not None:
            await self._depart(self._oidc, send)
        elif path == "/sign-in/oidc/callback" and method == "GET" and self._oidc is not None:
            await self._arrive(self._oidc, scope, query, send)
        else:
            raise MethodNotAllowed(f"{path} does not take {method}.")

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = parse_qs((await read_body(scope, receive, MAX_FORM_BYTES)).decode("utf-8", "replace"))
        link, email, password = (_first(form, name) for name in ("link", "email", "password"))
        try:
            await self._count(scope, email)
            if link is not None:
                signed_in = await self._sign_in.by_link(link)
            else:
                signed_in = await self._sign_in.by_password(email or "", password or "")
        except Unauthenticated:
            await self._page(send, 401, sign_in_page(oidc=self._oidc is not None, error=_WRONG))
            return
        except HoldfastError as error:
            body = sign_in_page(oidc=self._oidc is not None, error=error.message)
            await self._page(send, error.status, body, error.headers)
            return
        await self._enter(send, signed_in)

    async def _count(self, scope: Scope, email: str | None) -> None:
        """Both per address and per client, so that neither many guesses nor many addresses get through."""
        client = scope.get("client") or ("unknown", 0)
        (await self._limiter.take(f"sign-in from {client[0]}", self._limit)).check("sign-in attempts")
        if email:
            (await self._limiter.take(f"sign-in as {email.strip().lower()[:300]}", self._limit)).check(
                "sign-in attempts"
            )

    async def _depart(self, oidc: "OidcClient", send: Send) -> None:
        departure = await oidc.depart(self._redirect_uri)
        await self._sign_in.begin_attempt(departure.state, departure.verifier, departure.nonce)
        await _redirect(send, departure.url)

    async def _arrive(self, oidc: "OidcClient", scope: Scope, query: dict[str, list[str]], send: Send) -> None:
        state, code = _first(query, "state"), _first(query, "code")
        try:
            await self._count(scope, None)
            if state is None or code is None:
                raise Unauthenticated
            verifier, nonce = await self._sign_in.take_attempt(state)
            vouched = await oidc.arrive(code, self._redirect_uri, verifier, nonce)
            signed_in = await self._sign_in.by_subject(vouched.subject, vouched.email)
        except HoldfastError as error:
            text = "Your organization's sign-in did not vouch for a member here."
            await self._page(send, error.status, sign_in_page(oidc=True, error=text))
            return
        await self._enter(send, signed_in)

    async def _leave(self, scope: Scope, send: Send) -> None:
        cookie = session_cookie(scope)
        if cookie is not None:
            await self._sign_in.sign_out(cookie)
        await _redirect(send, "/sign-in", self._cookie("", 0))

    async def _enter(self, send: Send, signed_in: SignedIn) -> None:
        await _redirect(send, "/", self._cookie(signed_in.cookie, SESSION_MILLIS // 1000))

    def _cookie(self, value: str, max_age_seconds: int) -> str:
        secure = "; Secure" if self._secure else ""
        return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age_seconds}{secure}"

    @staticmethod
    async def _page(send: Send, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        safe = {"Content-Security-Policy": CSP, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
        await send_bytes(
            send, status, body, content_type=b"text/html; charset=utf-8", headers={**safe, **(headers or {})}
        )


async def _redirect(send: Send, url: str, cookie: str | None = None) -> None:
    headers = {"Location": url, "Cache-Control": "no-store"}
    if cookie is not None:
        headers["Set-Cookie"] = cookie
    await send_bytes(send, 303, b"", content_type=b"text/plain", headers=headers)


def _first(values: dict[str, list[str]], name: str) -> str | None:
    found = values.get(name)
    return found[0] if found else None
