"""Owns the channels that agents post to: the dashboard's inbox, and webhooks whose addresses are secrets.

The channel `alerts` goes to the webhook whose address is the workspace's secret `CHANNEL_ALERTS`, bound to its host
like every secret: whoever may set secrets configures channels.
"""

import re

from holdfast.core.errors import FieldError, HoldfastError, Invalid, UpstreamFailed
from holdfast.core.text import jsontext
from holdfast.engines.fetch.network.guard import FetchLimits, Guard, Request
from holdfast.engines.fetch.network.url import BadUrl, Url, parse_url
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database, Tx

INBOX = "dashboard"
"""The channel that every workspace has: an event of the session, which the inbox shows."""
PREFIX = "CHANNEL_"
_NAME = re.compile(r"#?([a-z][a-z0-9_-]{0,47})")
_LIMITS = FetchLimits(bytes=10_000, redirects=0)


class Channels:
    """Posts messages to a workspace's channels."""

    def __init__(self, database: Database, secrets: Secrets, guard: Guard) -> None:
        self._database = database
        self._secrets = secrets
        self._guard = guard

    async def post(self, workspace_id: str, channel: str, text: str, *, thread_id: str | None, username: str) -> str:
        """Post a message where Slack's webhooks and those that are like them take it; the channel's plain name."""
        found = _NAME.fullmatch(channel.strip().lower())
        if found is None:
            raise _wrong(f"write a name such as {INBOX} or alerts")
        name = found[1]
        if name == INBOX:
            return name
        url = await self._database.read(lambda tx: self._address(tx, workspace_id, name))
        message = {"text": text, "username": username, **({} if thread_id is None else {"thread_ts": thread_id})}
        request = Request(url, "POST", {"content-type": "application/json"}, jsontext.dumps(message))
        try:
            reply = await self._guard.send(request, limits=_LIMITS)
        except HoldfastError as problem:
            # Its text may name the address, which is a secret.
            raise UpstreamFailed(
                f"The webhook of the channel {name} could not be reached.", code=problem.code
            ) from None
        if not 200 <= reply.status < 300:
            raise UpstreamFailed(f"The webhook of the channel {name} answered {reply.status}.")
        return name

    def _address(self, tx: Tx, workspace_id: str, name: str) -> Url:
        secret = PREFIX + name.upper().replace("-", "_")
        if not self._secrets.is_set(tx, workspace_id, secret):
            raise _wrong(
                f"there is no channel {name}; an admin makes one by setting the secret {secret} to the address "
                f"of a webhook. {INBOX} is always there"
            )
        try:
            url = parse_url(self._secrets.value_to_compare(tx, workspace_id, secret))
        except BadUrl:
            raise _wrong(f"the secret {secret} is no address of a webhook") from None
        # Only where the secret may go.
        self._secrets.reveal(tx, workspace_id, secret, url.place)
        return url


def _wrong(problem: str) -> Invalid:
    return Invalid(f"The message was not posted: {problem}.", fields=[FieldError("channel", problem)])
