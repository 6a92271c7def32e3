"""Owns subscriptions/listen: a stream of changes for a client of the stateless era, for as long as its key holds."""

import asyncio
from collections import Counter
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourceUpdated,
    ServerEvent,
    event_matches,
    event_to_notification,
)
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.surfaces.mcp.admission import Admitted, McpAdmission
from holdfast.surfaces.mcp.content.resources import ResourceHandlers
from holdfast.surfaces.mcp.content.tools import Context
from holdfast.surfaces.mcp.transport.live import LIST_CHANGES, Live, matches

MAX_STREAMS = 2_000
# A stream holds a connection; one credential must leave some to the others.
MAX_STREAMS_EACH = 200
MAX_WAITING = 500


class Listening:
    """Serves listen streams. The key is looked at again and again: revoked ends the stream, a new tier is told."""

    def __init__(
        self, live: Live, doorkeeper: McpAdmission, resources: ResourceHandlers, *, recheck_seconds: float
    ) -> None:
        self._live = live
        self._doorkeeper = doorkeeper
        self._resources = resources
        self._recheck_seconds = recheck_seconds
        self._open: Counter[str] = Counter()

    async def __call__(self, ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        if ctx.request is None or ctx.request_id is None:
            raise AssertionError("only an admitted request gets here")
        actor = ctx.request.principal.actor
        if self._open[actor] >= MAX_STREAMS_EACH:
            problem = f"This credential has {MAX_STREAMS_EACH} listen streams open, as many as one may; close some."
            raise MCPError(code=INVALID_REQUEST, message=problem)
        if self._open.total() >= MAX_STREAMS:
            raise MCPError(code=INTERNAL_ERROR, message="Too many listen streams are open; try again later.")
        honored = self._honored(ctx.request, params.notifications)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        waiting: asyncio.Queue[ServerEvent] = asyncio.Queue(MAX_WAITING)
        overflown = asyncio.Event()

        def hear(event: ServerEvent) -> None:
            for wanted in _wanted(honored, event):
                try:
                    waiting.put_nowait(wanted)
                except asyncio.QueueFull:
                    # There is no replay in this era: the client listens anew and reads afresh.
                    overflown.set()

        request = ctx.request
        stop = self._live.listen(lambda: request.reach, hear)
        self._open[actor] += 1
        try:
            acknowledged = SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=meta)
            await ctx.session.send_notification(
                SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=ctx.request_id
            )
            await self._forward(ctx, ctx.request, honored, waiting, overflown, meta)
        finally:
            self._open[actor] -= 1
            if not self._open[actor]:
                del self._open[actor]
            stop()
        return SubscriptionsListenResult(_meta=meta)

    async def _forward(
        self,
        ctx: Context,
        admitted: Admitted,
        honored: SubscriptionFilter,
        waiting: "asyncio.Queue[ServerEvent]",
        overflown: asyncio.Event,
        meta: dict[str, Any],
    ) -> None:
        principal: Principal = admitted.principal
        loop = asyncio.get_running_loop()
        check_at = loop.time() + self._recheck_seconds
        while not overflown.is_set() and not self._live.closing.is_set():
            try:
                async with asyncio.timeout(max(0.0, min(check_at - loop.time(), 1.0))):
                    event = await waiting.get()
            except TimeoutError:
                if loop.time() < check_at:
                    continue
                check_at = loop.time() + self._recheck_seconds
                try:
                    current = await self._doorkeeper.again(admitted)
                except HoldfastError:
                    return
                if (current.tier, current.catalog_search) != (principal.tier, principal.catalog_search):
                    for change in LIST_CHANGES.values():
                        for wanted in _wanted(honored, change):
                            waiting.put_nowait(wanted)
                principal = admitted.principal = current
                continue
            if isinstance(event, ResourceUpdated) and not self._resources.watchable(principal, event.uri):
                # The key's tier was narrowed since it asked.
                continue
            await ctx.session.send_notification(event_to_notification(event, meta), related_request_id=ctx.request_id)

    def _honored(self, admitted: Admitted, asked: SubscriptionFilter) -> SubscriptionFilter:
        uris = [uri for uri in asked.resource_subscriptions or () if self._resources.watchable(admitted.principal, uri)]
        return SubscriptionFilter(
            tools_list_changed=True if asked.tools_list_changed else None,
            prompts_list_changed=True if asked.prompts_list_changed else None,
            resources_list_changed=True if asked.resources_list_changed else None,
            resource_subscriptions=uris or None,
        )


def _wanted(honored: SubscriptionFilter, event: ServerEvent) -> list[ServerEvent]:
    if isinstance(event, ResourceUpdated):
        return [ResourceUpdated(uri) for uri in honored.resource_subscriptions or () if matches(uri, event.uri)]
    return [event] if event_matches(honored, frozenset(), event) else []
