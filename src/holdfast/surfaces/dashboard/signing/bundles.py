"""Owns `/client-bundle`: where the connect page makes the files of a client, with the token of the session."""

import hmac
from html import escape
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from holdfast.core.errors import Forbidden, HoldfastError, Invalid, Unauthenticated
from holdfast.core.principal import TIERS, Tier
from holdfast.features.client_bundles.model import WantedClient
from holdfast.features.client_bundles.service import ClientBundles, archive
from holdfast.features.identity.sessions.sign_in import SignIn, principal_of
from holdfast.surfaces.dashboard.shell.words import catalogue, language_for
from holdfast.surfaces.dashboard.signing.pages import page
from holdfast.surfaces.dashboard.signing.sign_in import MAX_FORM_BYTES, first, redirect, send_page
from holdfast.surfaces.http.asgi import read_body, send_bytes
from holdfast.surfaces.http.authentication import session_cookie
from holdfast.surfaces.http.site import MethodNotAllowed

PATH = "/client-bundle"


class BundleForm:
    """Where the form goes; the answer is the archive."""

    def __init__(self, sign_in: SignIn, bundles: ClientBundles, *, public_url: str) -> None:
        self._sign_in = sign_in
        self._bundles = bundles
        self._public_url = public_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            refused = MethodNotAllowed(f"{PATH} takes POST, not {scope['method'][:20]}.")
            refused.headers = {"Allow": "POST"}
            raise refused
        form = parse_qs((await read_body(scope, receive, MAX_FORM_BYTES)).decode("utf-8", "replace"))
        try:
            session = await self._sign_in.session(session_cookie(scope) or "")
            if not hmac.compare_digest((first(form, "csrf") or "").encode(), session.csrf.encode()):
                raise Forbidden("The form is not from your session's page; reload it.", code="csrf")
            wanted = WantedClient(
                client=first(form, "client") or "",
                workspace_id=first(form, "workspace") or "",
                tier=_tier(first(form, "tier")),
                url=self._public_url,
            )
            bundle = await self._bundles.issue(principal_of(session), wanted)
        except Unauthenticated:
            await redirect(send, "/sign-in")
            return
        except HoldfastError as error:
            title = catalogue(language_for(scope)).gettext("Connect a client")
            body = f'<h1>{title}</h1><p class="error" role="alert">{escape(error.message)}</p>'
            await send_page(send, error.status, page(title, body, language_for(scope)), error.headers)
            return
        headers = {
            "Content-Disposition": f'attachment; filename="{bundle.surface.name}-{bundle.client.id}.zip"',
            "Cache-Control": "no-store",
        }
        await send_bytes(send, 200, archive(bundle), content_type=b"application/zip", headers=headers)


def _tier(given: str | None) -> Tier:
    for tier in TIERS:
        if tier == given:
            return tier
    raise Invalid(f"Choose a tier from {', '.join(TIERS)}.")
