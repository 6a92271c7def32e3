"""Owns the rules of workspaces, above all who sees one."""

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.core.authority import check_hands_out, person_authority
from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Forbidden, Invalid, NotFound
from holdfast.core.ids import new_id, workspace_id_of
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.core.text.slugs import is_slug, slug_of
from holdfast.features.audit.service import Audit
from holdfast.features.identity.service import checked_name, require_management
from holdfast.features.identity.standing import as_it_stands
from holdfast.features.workspaces import store
from holdfast.features.workspaces.model import Workspace, WorkspaceNotFound
from holdfast.storage.database import Database, Tx
from holdfast.storage.remembered import Remembered

MOST_SEEN = 1_000
"""How many workspaces one search or one stream goes over."""


class ChatExists(Protocol):
    """Whether a workspace has a chat of that id."""

    def __call__(self, tx: Tx, workspace_id: str, chat_id: str, /) -> bool: ...


class Workspaces:
    """Makes, finds and removes workspaces. `check` is the one gate of everything that lives in one."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        clock: Clock,
        project_exists: Callable[[Tx, str, str], bool],
        is_member: Callable[[Tx, str, str], bool],
        chat_exists: ChatExists,
    ) -> None:
        """The callables answer for an organization's projects and people, and for a workspace's chats."""
        self._database = database
        self._audit = audit
        self._clock = clock
        self._project_exists = project_exists
        self._is_member = is_member
        self._chat_exists = chat_exists
        self._remembered: Remembered[tuple[str, str], Workspace | None] = Remembered(database)

    def check(self, tx: Tx, principal: Principal, workspace_id: str, *, project_id: str | None = None) -> Workspace:
        """The workspace by its id, UUID or slug; NotFound for whatever reason the principal may not see it.

        `project_id` is the project that the caller is in, where that is known: slugs are its own.
        """
        id = workspace_id_of(workspace_id)
        found = store.find(tx, principal.organization_id, id) if id else None
        if found is None and is_slug(workspace_id):
            return self._called(tx, principal, workspace_id, project_id)
        if found is None or not _sees(principal, found, project_id):
            raise WorkspaceNotFound(workspace_id)
        return found

    def _called(self, tx: Tx, principal: Principal, slug: str, project_id: str | None) -> Workspace:
        rows = store.called(tx, principal.organization_id, slug)
        found = [row for row in rows if _sees(principal, row, project_id)]
        if not found:
            raise WorkspaceNotFound(slug)
        if len(found) > 1:
            ids = ", ".join(each.id for each in found[:10])
            problem = f"several projects have one called {slug!r}; name one by its id: {ids}"
            raise Invalid(f"The workspace is not clear: {problem}.", fields=[FieldError("workspace", problem)])
        return found[0]

    def administered(self, tx: Tx, principal: Principal, workspace_id: str) -> Workspace:
        """The same, if the principal may also change how it is set up: a manager, or this workspace's own admin."""
        found = self.check(tx, principal, workspace_id)
        if not (principal.is_person and principal.actor in store.admins(tx, found.id)):
            require_management(principal)
        return found

    def check_chat(self, tx: Tx, workspace_id: str, chat_id: str | None) -> None:
        """NotFound unless the chat that something is to belong to is one of this workspace; None belongs to none."""
        if chat_id is not None and not self._chat_exists(tx, workspace_id, chat_id):
            raise NotFound("chat", chat_id[:200])

    async def id_of(self, principal: Principal, named: str | None) -> str:
        """The id of the workspace with this id, UUID or slug; the only one there is when none is named."""
        if named is not None:
            return (await self.get(principal, named)).id
        found = await self.list(principal, limit=11)
        if len(found.items) == 1:
            return found.items[0].id
        names = ", ".join(each.slug for each in found.items[:10]) or "none"
        raise Invalid(f"Say which workspace with --workspace (there are: {names}).")

    async def get(self, principal: Principal, workspace_id: str, *, project_id: str | None = None) -> Workspace:
        """One workspace that the principal may see, by its id, UUID or slug."""
        id = workspace_id_of(workspace_id)
        if id is not None:
            # The row is remembered, not who may see it: that is asked each time.
            organization_id = principal.organization_id
            found = await self._remembered.get((organization_id, id), lambda tx: store.find(tx, organization_id, id))
            if found is not None and _sees(principal, found, project_id):
                return found
        return await self._database.glance(lambda tx: self.check(tx, principal, workspace_id, project_id=project_id))

    async def seen(self, principal: Principal, project_id: str | None, limit: int = 10) -> Sequence[Workspace]:
        """The first workspaces that the principal sees, in a project or in all of them, where none is named."""
        return await self._database.glance(lambda tx: _seen(tx, principal, project_id, "", limit))

    async def list(
        self, principal: Principal, *, project_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Workspace]:
        """The workspaces the principal may see, oldest first."""
        principal.require_any("read", "inference", "management")
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""
        project = project_id or principal.project_id

        def work(tx: Tx) -> Page[Workspace]:
            if project_id is not None and not self._sees_project(tx, principal, project_id):
                raise NotFound("project", project_id)
            found = _seen(tx, principal, project, after, limit + 1)
            return page_of(found, limit, lambda row: [row.id])

        return await self._database.read(work)

    async def ids(self, principal: Principal, *, most: int = MOST_SEEN) -> Sequence[str]:
        """The ids of the workspaces that the principal may see, oldest first."""
        principal.require_any("read", "inference", "management")
        found = await self._database.read(lambda tx: _seen(tx, principal, principal.project_id, "", most))
        return [each.id for each in found]

    async def create(self, principal: Principal, project_id: str, name: str) -> Workspace:
        """A new workspace in a project of the principal's."""
        require_management(principal)
        if principal.workspace_ids is not None:
            raise Forbidden("A credential confined to certain workspaces cannot make another.")
        title = checked_name(name)

        def work(tx: Tx) -> Workspace:
            if not self._sees_project(tx, principal, project_id):
                raise NotFound("project", project_id)
            new = self.add(tx, principal.organization_id, project_id, title)
            self._record(tx, principal, "workspace.create", new)
            return new

        return await self._database.write(work)

    def add(self, tx: Tx, organization_id: str, project_id: str, name: str) -> Workspace:
        """Insert a workspace with a slug that is free in its project."""
        base = slug_of(name, fallback="workspace", max_length=50)
        taken = store.slugs(tx, project_id)
        slug = next(s for n in range(1, len(taken) + 2) if (s := base if n == 1 else f"{base}-{n}") not in taken)
        new = Workspace(new_id("ws"), project_id, organization_id, slug, name, self._clock.now())
        store.insert(tx, new)
        return new

    async def rename(self, principal: Principal, workspace_id: str, name: str) -> Workspace:
        """Give it another name; id and slug stay."""
        title = checked_name(name)

        def work(tx: Tx) -> Workspace:
            found = self.administered(tx, principal, workspace_id)
            store.rename(tx, found.id, title)
            self._record(tx, principal, "workspace.update", found)
            return self.check(tx, principal, workspace_id)

        return await self._database.write(work)

    async def delete(self, principal: Principal, workspace_id: str) -> None:
        """Remove it and everything in it, for good."""

        def work(tx: Tx) -> None:
            found = self.administered(tx, principal, workspace_id)
            store.delete(tx, found.id)
            self._record(tx, principal, "workspace.delete", found)

        await self._database.write(work)

    async def admins(self, principal: Principal, workspace_id: str) -> Sequence[str]:
        """The ids of the people who administer just this workspace."""

        def work(tx: Tx) -> Sequence[str]:
            return store.admins(tx, self.check(tx, principal, workspace_id).id)

        return await self._database.read(work)

    async def set_admin(self, principal: Principal, workspace_id: str, user_id: str, *, admin: bool) -> None:
        """Let a member of the organization administer the workspace, or no longer."""

        def work(tx: Tx) -> None:
            found = self.administered(tx, principal, workspace_id)
            if not self._is_member(tx, found.organization_id, user_id):
                raise NotFound("user", user_id)
            here = frozenset({found.id})
            check_hands_out(
                as_it_stands(tx, principal, self._clock.now()),
                person_authority(found.organization_id, "member", administers=here),
                "a right",
                administers=here if principal.actor in store.admins(tx, found.id) else frozenset(),
            )
            change = store.add_admin if admin else store.remove_admin
            change(tx, found.id, user_id)
            self._record(tx, principal, "workspace.admin.add" if admin else "workspace.admin.remove", found)

        await self._database.write(work)

    def _sees_project(self, tx: Tx, principal: Principal, project_id: str) -> bool:
        return principal.sees_project(project_id) and self._project_exists(tx, principal.organization_id, project_id)

    def _record(self, tx: Tx, principal: Principal, action: str, workspace: Workspace) -> None:
        self._audit.record(
            tx,
            principal,
            action,
            resource="workspace",
            resource_id=workspace.id,
            workspace_id=workspace.id,
            detail={"name": workspace.name},
        )


def _sees(principal: Principal, found: Workspace, project_id: str | None) -> bool:
    return (
        principal.sees_project(found.project_id)
        and principal.sees_workspace(found.id)
        and project_id in (None, found.project_id)
    )


def _seen(tx: Tx, principal: Principal, project_id: str | None, after: str, limit: int) -> list[Workspace]:
    found: list[Workspace] = []
    # A key with an allowed list sees few of many: read on until there are enough.
    while len(found) < limit:
        rows = store.page(tx, principal.organization_id, project_id, after, 500)
        found += [row for row in rows if _sees(principal, row, project_id)]
        if len(rows) < 500:
            break
        after = rows[-1].id
    return found[:limit]
