"""Owns what is known of each server's tools: probed, pinned, compared, kept apart until a person accepts them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.mcp_client.base import ServedTool, ServerDescription, ServerFailed
from holdfast.features.audit.service import Audit
from holdfast.features.catalog import store
from holdfast.features.catalog.guessing import guessed, names_in_complaints
from holdfast.features.catalog.model import (
    MAX_TOOLS,
    CatalogEntry,
    NotReady,
    PinnedTool,
    PinnedToolNotFound,
    Probed,
    ToolChange,
)
from holdfast.features.catalog.pins import can_be_called, description_of, digest_of, flags_of, is_suspect
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStarts
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

TOPIC = "catalog"
_FROM_COMPLAINTS = "asked for when it was started"


class ToolPins:
    """The pinned tools of every entry."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        events: EventBus,
        clock: Clock,
        catalog: ServerCatalog,
        starts: ServerStarts,
        connections: ServerConnections,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._events = events
        self._clock = clock
        self._catalog = catalog
        self._starts = starts
        self._connections = connections

    async def probe(self, principal: Principal, workspace_id: str, name: str) -> Probed:
        """Start the server, list its tools, and pin them. What changed or is new waits for a person."""
        began = time.perf_counter()

        def ready(tx: Tx) -> CatalogEntry:
            found = self._catalog.administered(tx, principal, workspace_id, name)
            if not found.spec.enabled:
                raise NotReady(f"The server {name} is switched off; switch it on first.")
            return found

        entry = await self._database.read(ready)
        start = await self._starts.of(principal, entry.id)
        try:
            described = await self._connections.describe(start)
        except ServerFailed as problem:
            wanted = await self._note_wanted(entry, problem.message)
            if not wanted:
                raise
            raise ServerFailed(f"{problem.message} It seems to want {', '.join(wanted)}: give that in env.") from None
        await self._note_wanted(entry)
        seconds = time.perf_counter() - began
        return await self._database.write(lambda tx: self._pin(tx, principal, entry, described, seconds))

    async def _note_wanted(self, entry: CatalogEntry, problem: str = "") -> list[str]:
        """The variables that a server complained about at a run; those that nobody spoke of become guesses."""
        if entry.spec.shape == "remote":
            return []
        wanted = names_in_complaints(f"{self._connections.logs(entry.id)}\n{problem}")
        missing = [name for name in wanted if not entry.spec.env.get(name)]

        def work(tx: Tx) -> None:
            current = store.by_id(tx, entry.id)
            if current is None or current.revision != entry.revision:
                return
            spec = current.spec
            manifest = guessed(spec.manifest, spec.env, missing, label=_FROM_COMPLAINTS)
            if manifest is not spec.manifest:
                store.update(tx, replace(current, spec=replace(spec, manifest=manifest)))

        if missing:
            await self._database.write(work)
        return missing

    async def of(self, principal: Principal, workspace_id: str, name: str) -> Sequence[PinnedTool]:
        """The server's tools, in its order."""

        def work(tx: Tx) -> Sequence[PinnedTool]:
            return store.tools_of(tx, self._catalog.find(tx, principal, workspace_id, name).id)

        return await self._database.read(work)

    async def waiting(self, principal: Principal, workspace_id: str, *, limit: int) -> Sequence[PinnedTool]:
        """The tools of a workspace that a person has to look at before anybody can call them."""

        def work(tx: Tx) -> Sequence[PinnedTool]:
            return store.waiting_in(tx, self._workspaces.check(tx, principal, workspace_id).id, limit)

        return await self._database.read(work)

    async def set(
        self, principal: Principal, workspace_id: str, name: str, tool: str, change: ToolChange
    ) -> PinnedTool:
        """Say how calls of a tool are decided and what it does."""

        def work(tx: Tx) -> PinnedTool:
            entry = self._catalog.administered(tx, principal, workspace_id, name)
            found = self._tool(tx, entry, tool)
            changed = _changed(found, change)
            loosened = found.destructive and (not changed.destructive or changed.policy() == "auto")
            if loosened and not principal.allow_destructive:
                raise Forbidden("This tool is destructive, and the credential may not use such tools; sign in.")
            self._put(tx, principal, entry, changed, "policy", change_of=change)
            return changed

        return await self._database.write(work)

    async def accept(
        self, principal: Principal, workspace_id: str, name: str, tool: str, *, seen: str | None = None
    ) -> PinnedTool:
        """Take a tool out of quarantine as its server describes it now: a person saw the difference.

        `seen` is the digest of what they were shown; what was changed again since is not accepted.
        """
        if not principal.is_person:
            raise Forbidden("This needs a signed-in person; keys cannot do it.")

        def work(tx: Tx) -> PinnedTool:
            entry = self._catalog.administered(tx, principal, workspace_id, name)
            found = self._tool(tx, entry, tool)
            if found.state == "gone":
                raise Conflict(f"The server no longer has the tool {tool}; probe it again.")
            pinned = found.waiting or found.pinned
            if seen is not None and seen != digest_of(pinned):
                raise Conflict(f"The server changed {tool} again since you looked; read what it says now.")
            accepted = replace(
                found,
                pinned=pinned,
                digest=digest_of(pinned),
                waiting=None,
                state="active",
                is_new=False,
                flags=flags_of(pinned),
            )
            self._put(tx, principal, entry, accepted, "accepted")
            return accepted

        return await self._database.write(work)

    async def notice(self, principal: Principal, entry: CatalogEntry, described: ServerDescription) -> None:
        """Compare what a server says while it runs with the pins; what differs is kept apart from now on."""
        pins = await self._database.read(lambda tx: {each.name: each for each in store.tools_of(tx, entry.id)})
        if _matches(pins, described):
            return
        await self._database.write(lambda tx: self._pin(tx, principal, entry, described, 0.0))

    def usable(self, tx: Tx, workspace_id: str) -> Sequence[PinnedTool]:
        """The tools that can be called in a workspace."""
        return store.usable_in(tx, workspace_id)

    def named(self, tx: Tx, workspace_id: str, xem_name: str) -> tuple[CatalogEntry, PinnedTool] | None:
        """The tool that `<server>.<tool>` names in a workspace, in whatever state; None where there is none."""
        server, _, tool = xem_name.partition(".")
        entry = store.find(tx, workspace_id, server)
        found = store.tool_of(tx, entry.id, tool) if entry is not None else None
        return None if entry is None or found is None else (entry, found)

    def why_unknown(self, tx: Tx, workspace_id: str, xem_name: str) -> str | None:
        """What to do about a tool that is not pinned, where its server's tools were never looked at."""
        entry = store.find(tx, workspace_id, xem_name.partition(".")[0])
        if entry is None or entry.probed_at is not None or store.tools_of(tx, entry.id):
            return None
        if entry.install == "installing":
            return f"The package of {entry.name} is still being installed; its tools are known after that."
        if entry.install == "failed":
            return f"The package of {entry.name} could not be installed; its page says why."
        if entry.problem:
            return f"{entry.problem} When that is mended, an admin runs `holdfast catalog probe {entry.name}`."
        return (
            f"{entry.name} was not probed yet, so its tools are not known: an admin runs "
            f"`holdfast catalog probe {entry.name}`, or probes it on its page."
        )

    def _pin(
        self, tx: Tx, principal: Principal, entry: CatalogEntry, described: ServerDescription, seconds: float
    ) -> Probed:
        now = self._clock.now()
        current = store.by_id(tx, entry.id)
        if current is None or current.revision != entry.revision:
            raise Conflict(f"The server {entry.name} was changed meanwhile; probe it again.")
        before = {each.name: each for each in store.tools_of(tx, entry.id)}
        offered = _offered(described.tools)
        first = current.probed_at is None
        for position, tool in enumerate(offered.values()):
            pin = _compared(current, before.get(tool.name), tool, first=first)
            if pin != before.get(tool.name):
                store.put_tool(tx, pin, position=position, now=now)
                self._tell(tx, current, pin)
        for pin in before.values():
            if pin.name not in offered and pin.state != "gone":
                gone = replace(pin, state="gone", waiting=None)
                store.put_tool(tx, gone, position=0, now=now)
                self._tell(tx, current, gone)
        info, protocol = dict(described.server_info), described.protocol
        known = replace(current, server_info=info, protocol=protocol, probed_at=now, problem=None)
        store.update(tx, known)
        self._audit.record(
            tx,
            principal,
            "workspace.mcp.probed",
            resource="mcp_server",
            resource_id=entry.id,
            workspace_id=entry.workspace_id,
            detail={"name": entry.name, "tools": len(offered)},
        )
        return Probed(
            tuple(store.tools_of(tx, entry.id)), dict(described.server_info), described.protocol, round(seconds, 3)
        )

    def _tool(self, tx: Tx, entry: CatalogEntry, tool: str) -> PinnedTool:
        found = store.tool_of(tx, entry.id, tool)
        if found is None:
            raise PinnedToolNotFound(tool)
        return found

    def _put(
        self,
        tx: Tx,
        principal: Principal,
        entry: CatalogEntry,
        pin: PinnedTool,
        action: str,
        *,
        change_of: ToolChange | None = None,
    ) -> None:
        store.put_tool(tx, pin, position=0, now=self._clock.now())
        detail: dict[str, object] = {"name": entry.name, "tool": pin.name, "digest": pin.digest}
        if change_of is not None:
            detail |= {"policy": pin.set_policy, "destructive": pin.set_destructive, "idempotent": pin.set_idempotent}
            detail["scope"] = pin.set_scope
        self._audit.record(
            tx,
            principal,
            f"workspace.mcp.tool_{action}",
            resource="mcp_tool",
            resource_id=pin.xem_name,
            workspace_id=entry.workspace_id,
            detail=detail,
        )
        self._tell(tx, entry, pin)

    def _tell(self, tx: Tx, entry: CatalogEntry, pin: PinnedTool) -> None:
        payload = {"name": pin.xem_name[:300], "state": pin.state}
        self._events.publish(tx, f"{TOPIC}.tool", payload, workspace_id=entry.workspace_id)


def _offered(tools: Sequence[ServedTool]) -> Mapping[str, ServedTool]:
    """The tools that can be called, each name once: of twins the first."""
    found: dict[str, ServedTool] = {}
    for tool in tools:
        if can_be_called(tool.name) and len(found) < MAX_TOOLS:
            found.setdefault(tool.name, tool)
    return found


def _matches(pins: Mapping[str, PinnedTool], described: ServerDescription) -> bool:
    offered = _offered(described.tools)
    live = {name: digest_of(description_of(tool)) for name, tool in offered.items()}
    known = {name: digest_of(pin.waiting or pin.pinned) for name, pin in pins.items() if pin.state != "gone"}
    return live == known


def _compared(entry: CatalogEntry, before: PinnedTool | None, tool: ServedTool, *, first: bool) -> PinnedTool:
    now = description_of(tool)
    digest, flags = digest_of(now), flags_of(now)
    if before is None:
        unseen = not first or is_suspect(flags)
        return PinnedTool(
            server_id=entry.id,
            server=entry.name,
            pinned=now,
            digest=digest,
            state="quarantined" if unseen else "active",
            flags=flags,
            is_new=unseen,
            manifest_scope=entry.spec.manifest.tool_scopes.get(tool.name),
        )
    if before.is_new:
        return replace(before, pinned=now, digest=digest, flags=flags, state="quarantined", waiting=None)
    if digest == before.digest:
        return replace(before, flags=flags, waiting=None, state="active")
    return replace(before, waiting=now, flags=flags, state="quarantined")


def _changed(found: PinnedTool, change: ToolChange) -> PinnedTool:
    scope = change.scope.strip() if change.scope is not None else None
    if scope is not None and (not scope or len(scope) > 64):
        raise Invalid(
            "The scope cannot be used.", fields=[FieldError("scope", "write 1 to 64 characters: linear.write")]
        )
    cleared = change.cleared
    return replace(
        found,
        set_policy=None if "policy" in cleared else change.policy or found.set_policy,
        set_destructive=None
        if "destructive" in cleared
        else (found.set_destructive if change.destructive is None else change.destructive),
        set_idempotent=found.set_idempotent if change.idempotent is None else change.idempotent,
        set_scope=None if "scope" in cleared else (scope if scope is not None else found.set_scope),
    )
