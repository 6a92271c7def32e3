"""Owns the address that code hosts send webhooks to; they bring no key, only the proof that they know a secret."""

import re

from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.features.repositories.hosts.webhooks import MAX_BODY, PATH, WebhookRefused, Webhooks
from holdfast.surfaces.http.asgi import read_body, send_json, send_problem
from holdfast.surfaces.http.site import MethodNotAllowed

_PATH = re.compile(re.escape(PATH) + r"([A-Za-z0-9_-]{1,80})")


class WebhookEndpoint:
    """`POST /api/webhooks/{repository_id}`: 202 when a sync was queued, 200 when there was nothing to do."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        except HoldfastError as error:
            await send_problem(scope, send, error)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = _PATH.fullmatch(scope["path"])
        if named is None:
            raise WebhookRefused
        if scope["method"] != "POST":
            raise MethodNotAllowed("Webhooks are sent here with POST.", headers={"Allow": "POST"})
        # Strangers may send as much at once as they like: what no repository expects is not kept while it comes. They
        # wait as long as others all the same, and learn nothing from the time.
        expected = await self._webhooks.expects(named.group(1))
        body = await read_body(scope, receive, MAX_BODY, keep=expected)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        receipt = await self._webhooks.receive(named.group(1), headers, body)
        await send_json(send, 202 if receipt.outcome == "queued" else 200, {"status": receipt.outcome})
