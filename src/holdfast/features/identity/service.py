"""Owns the rules of organizations, their people and their projects."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.access import at_least
from holdfast.core.authority import check_hands_out, person_authority
from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid, NotFound
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import ROLES, SCOPES, Principal, Role
from holdfast.core.text.slugs import is_slug, slug_of
from holdfast.features.audit.service import Audit
from holdfast.features.identity import store
from holdfast.features.identity.keys import store as key_store
from holdfast.features.identity.model import ApiKey, Organization, Project, User
from holdfast.features.identity.people import invitation_store
from holdfast.features.identity.sessions import store as session_store
from holdfast.features.identity.sessions.own_password import OwnPassword
from holdfast.features.identity.sessions.passwords import hash_password
from holdfast.features.identity.standing import as_it_stands
from holdfast.storage.database import Database, Tx
from holdfast.storage.remembered import Remembered

MAX_NAME = 120
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,189}")


@dataclass(frozen=True, slots=True)
class Founded:
    """What the first start made."""

    organization: Organization
    project: Project
    owner_id: str


class Identity:
    """Organizations, members and projects."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        clock: Clock,
        own_password: OwnPassword,
        *,
        people_make_organizations: bool,
    ) -> None:
        self._database = database
        self._audit = audit
        self._clock = clock
        self._own_password = own_password
        self._people_make_organizations = people_make_organizations
        self._projects: Remembered[tuple[str, str], bool] = Remembered(database)

    def found(self, tx: Tx, name: str, email: str) -> Founded:
        """The first organization with its project and its owner."""
        now = self._clock.now()
        organization = Organization(new_id("org"), name, now)
        store.insert_organization(tx, organization)
        owner_id = store.user_id_by_email(tx, email)
        if owner_id is None:
            owner_id = new_id("usr")
            store.insert_user(tx, owner_id, email, "Owner", None, now)
        store.set_role(tx, organization.id, owner_id, "owner", now)
        project = Project(new_id("proj"), organization.id, "default", "Default", now)
        store.insert_project(tx, project)
        creator = local_principal(organization.id)
        for resource, id in (("organization", organization.id), ("user", owner_id), ("project", project.id)):
            self._audit.record(tx, creator, f"{resource}.create", resource=resource, resource_id=id)
        return Founded(organization, project, owner_id)

    async def project_exists(self, principal: Principal, project_id: str) -> bool:
        """Whether the principal's organization has a project of that id."""
        id = principal.organization_id
        return await self._projects.get((id, project_id), lambda tx: store.project_exists(tx, id, project_id))

    async def organization(self, principal: Principal, organization_id: str) -> Organization:
        """The principal's own organization; any other is not found."""
        if organization_id != principal.organization_id:
            raise NotFound("organization", organization_id)
        found = await self._database.read(lambda tx: store.organization(tx, organization_id))
        if found is None:
            raise NotFound("organization", organization_id)
        return found

    async def rename_organization(self, principal: Principal, organization_id: str, name: str) -> Organization:
        """Give the organization another name."""
        self._require_whole_organization(principal)
        await self.organization(principal, organization_id)
        title = checked_name(name)

        def work(tx: Tx) -> None:
            store.rename_organization(tx, organization_id, title)
            self._record(tx, principal, "organization.update", "organization", organization_id, name=title)

        await self._database.write(work)
        return await self.organization(principal, organization_id)

    async def create_organization(self, principal: Principal, name: str, *, owner: str | None = None) -> Organization:
        """Another organization, owned by the person who asks, however they proved who they are.

        It is the operator's to make one, unless the settings let people. The operator names an owner by address, who
        gets an account if there is none; without, the first owner of the organization at hand is owner of this one too.
        """
        title = checked_name(name)
        address = checked_email(owner) if owner is not None else None
        if principal.proof != "local":
            if not principal.is_person:
                raise Forbidden("Only a signed-in person can make an organization; a key belongs to one.")
            if not self._people_make_organizations:
                raise Forbidden(
                    "Organizations are made by the operator (`holdfast organizations create`), "
                    "unless HOLDFAST_ALLOW_ORGANIZATIONS lets people make them."
                )

        def work(tx: Tx) -> Organization:
            now = self._clock.now()
            new = Organization(new_id("org"), title, now)
            store.insert_organization(tx, new)
            owner_id: str | None = principal.actor
            if principal.proof == "local":
                owner_id = store.first_owner(tx, principal.organization_id)
                if address is not None:
                    owner_id = self._account(tx, address, address.partition("@")[0], None)
            if owner_id is not None:
                store.set_role(tx, new.id, owner_id, "owner", now)
            self._record(tx, local_principal(new.id), "organization.create", "organization", new.id, name=title)
            return new

        return await self._database.write(work)

    async def projects(self, principal: Principal, *, limit: int = 50, cursor: str | None = None) -> Page[Project]:
        """The projects the principal sees."""
        principal.require_any("read", "inference", "management")
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""

        def work(tx: Tx) -> Page[Project]:
            rows = store.projects(tx, principal.organization_id, principal.project_id, after, limit + 1)
            return page_of(rows, limit, lambda row: [row.id])

        return await self._database.read(work)

    async def project(self, principal: Principal, project_id: str) -> Project:
        """One project the principal sees."""
        return await self._database.glance(lambda tx: self._project(tx, principal, project_id))

    async def project_id(self, principal: Principal, named: str) -> str:
        """The id of the project that has this slug; whatever else somebody wrote stays as it is, for its own check."""

        def work(tx: Tx) -> str:
            found = store.project_called(tx, principal.organization_id, named)
            return found.id if found is not None and principal.sees_project(found.id) else named

        return await self._database.glance(work) if is_slug(named) else named

    async def create_project(self, principal: Principal, name: str) -> Project:
        """A new project in the principal's organization."""
        self._require_whole_organization(principal)
        title = checked_name(name)

        def work(tx: Tx) -> Project:
            store.lock_organization(tx, principal.organization_id)
            base = slug_of(title, fallback="project", max_length=50)
            taken = store.project_slugs(tx, principal.organization_id)
            slug = next(s for n in range(1, len(taken) + 2) if (s := base if n == 1 else f"{base}-{n}") not in taken)
            new = Project(new_id("proj"), principal.organization_id, slug, title, self._clock.now())
            store.insert_project(tx, new)
            self._record(tx, principal, "project.create", "project", new.id, name=title)
            return new

        return await self._database.write(work)

    async def rename_project(self, principal: Principal, project_id: str, name: str) -> Project:
        """Give a project another name."""
        require_management(principal)
        title = checked_name(name)

        def work(tx: Tx) -> Project:
            self._project(tx, principal, project_id)
            store.rename_project(tx, project_id, title)
            self._record(tx, principal, "project.update", "project", project_id, name=title)
            return self._project(tx, principal, project_id)

        return await self._database.write(work)

    async def delete_project(self, principal: Principal, project_id: str) -> None:
        """Remove a project with its keys and workspaces, for good."""
        require_management(principal)

        def work(tx: Tx) -> None:
            found = self._project(tx, principal, project_id)
            self._require_whole_organization(principal)
            store.delete_project(tx, project_id)
            self._record(tx, principal, "project.delete", "project", project_id, name=found.name)

        await self._database.write(work)

    async def every_organization(self, principal: Principal) -> Sequence[Organization]:
        """All there are, for the operator."""
        _require_operator(principal, "see every organization")
        return await self._database.read(store.organizations)

    async def organizations_of(self, user_id: str) -> Sequence[tuple[Organization, Role]]:
        """Where a person belongs, and as what."""
        return await self._database.glance(lambda tx: store.memberships(tx, user_id))

    async def users(self, principal: Principal, *, limit: int = 50, cursor: str | None = None) -> Page[User]:
        """The organization's members."""
        principal.require_any("read", "management")
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""

        def work(tx: Tx) -> Page[User]:
            rows = store.users(tx, principal.organization_id, after, limit + 1)
            return page_of(rows, limit, lambda row: [row.id])

        return await self._database.read(work)

    async def user(self, principal: Principal, user_id: str) -> User:
        """One member."""
        return await self._database.read(lambda tx: self._user(tx, principal, user_id))

    async def member_by_email(self, principal: Principal, email: str) -> User | None:
        """The member who has this address, if anybody does."""
        principal.require_any("read", "management")
        return await self._database.read(lambda tx: store.member_by_email(tx, principal.organization_id, email.lower()))

    async def create_user(
        self, principal: Principal, *, email: str, name: str, role: Role = "member", password: str | None = None
    ) -> User:
        """A new member at once, by the operator on the server's own machine; everybody else invites."""
        _require_operator(principal, "add people without inviting them")
        address = checked_email(email)
        title = checked_name(name)
        self._check_role(role)
        password_hash = await hash_password(password) if password is not None else None

        def work(tx: Tx) -> User:
            store.lock_organization(tx, principal.organization_id)
            check_hands_out(principal, person_authority(principal.organization_id, role), "a role")
            if store.member_by_email(tx, principal.organization_id, address) is not None:
                raise Conflict(f"{address} is a member already; change the role instead.")
            user_id = self._account(tx, address, title, password_hash)
            store.set_role(tx, principal.organization_id, user_id, role, self._clock.now())
            self._record(tx, principal, "user.create", "user", user_id, email=address, role=role)
            return self._user(tx, principal, user_id)

        return await self._database.write(work)

    async def set_role(self, principal: Principal, user_id: str, role: Role) -> User:
        """Change a member's role; the last owner stays one. Nobody makes or unmakes what they are not."""
        self._require_whole_organization(principal)
        self._check_role(role)

        def work(tx: Tx) -> User:
            store.lock_organization(tx, principal.organization_id)
            giver = as_it_stands(tx, principal, self._clock.now())
            found = self._user(tx, principal, user_id)
            if role == found.role:
                return found
            for each in (found.role, role):
                check_hands_out(giver, person_authority(principal.organization_id, each), "a role")
            self._keep_an_owner(tx, principal, found)
            store.set_role(tx, principal.organization_id, user_id, role, self._clock.now())
            if at_least(role, found.role):
                # Whoever could sign in as this person until now must not rise with them.
                session_store.end_sessions(tx, user_id, keep=None)
            self._record(tx, principal, "user.update", "user", user_id, role=role)
            return self._user(tx, principal, user_id)

        return await self._database.write(work)

    async def rename_user(self, principal: Principal, name: str) -> User:
        """Change how the signed-in person is called, everywhere."""
        title = checked_name(name)

        def work(tx: Tx) -> User:
            self._user(tx, principal, principal.actor)
            store.set_user_name(tx, principal.actor, title)
            self._record(tx, principal, "user.rename", "user", principal.actor)
            return self._user(tx, principal, principal.actor)

        return await self._database.write(work)

    async def set_password(
        self,
        principal: Principal,
        user_id: str,
        password: str,
        *,
        current: str | None = None,
        cookie: str | None = None,
    ) -> None:
        """Set one's own password, giving the current one if there is one; the operator may set anybody's.

        Every other session of the person ends, and every link that would open one; `cookie` is the session that stays.
        """
        if principal.actor != user_id:
            await self.user(principal, user_id)
            _require_operator(principal, "set somebody else's password: make a sign-in link for them instead")
        else:
            await self._own_password.check(user_id, current)
        password_hash = await hash_password(password)

        def work(tx: Tx) -> None:
            self._user(tx, principal, user_id)
            store.set_password_hash(tx, user_id, password_hash)
            session_store.end_sessions(tx, user_id, keep=session_store.digest(cookie) if cookie else None)
            self._record(tx, principal, "user.password", "user", user_id)

        await self._database.write(work)

    async def remove_user(self, principal: Principal, user_id: str) -> Sequence[ApiKey]:
        """End somebody's membership with its sessions, links and invitations.

        The keys that they made go on, because they belong to the organization; they are the answer, to be looked at.
        """
        self._require_whole_organization(principal)

        def work(tx: Tx) -> Sequence[ApiKey]:
            store.lock_organization(tx, principal.organization_id)
            giver = as_it_stands(tx, principal, self._clock.now())
            found = self._user(tx, principal, user_id)
            check_hands_out(giver, person_authority(principal.organization_id, found.role), "a role")
            self._keep_an_owner(tx, principal, found)
            store.remove_member(tx, principal.organization_id, user_id)
            invitation_store.withdraw_all(tx, principal.organization_id, found.email, user_id, self._clock.now())
            self._record(tx, principal, "user.remove", "user", user_id, email=found.email)
            return key_store.made_by(tx, principal.organization_id, user_id, self._clock.now())

        return await self._database.write(work)

    def _account(self, tx: Tx, address: str, name: str, password_hash: str | None) -> str:
        """The account of an address, made where there is none; what its owner chose stays as it is."""
        user_id = store.user_id_by_email(tx, address)
        if user_id is None:
            user_id = new_id("usr")
            store.insert_user(tx, user_id, address, name, password_hash, self._clock.now())
        return user_id

    def _project(self, tx: Tx, principal: Principal, project_id: str) -> Project:
        found = store.project(tx, principal.organization_id, project_id)
        if found is None or not principal.sees_project(project_id):
            raise NotFound("project", project_id)
        return found

    def _user(self, tx: Tx, principal: Principal, user_id: str) -> User:
        found = store.user(tx, principal.organization_id, user_id)
        if found is None:
            raise NotFound("user", user_id)
        return found

    def _keep_an_owner(self, tx: Tx, principal: Principal, found: User) -> None:
        if found.role == "owner" and store.owners(tx, principal.organization_id) == 1:
            raise Conflict("An organization needs an owner; make somebody else one first.")

    @staticmethod
    def _check_role(role: Role) -> None:
        if role not in ROLES:
            raise Invalid("No such role.", fields=[FieldError("role", f"choose from {', '.join(ROLES)}")])

    @staticmethod
    def _require_whole_organization(principal: Principal) -> None:
        require_management(principal)
        if principal.project_id is not None:
            raise Forbidden("A project key manages its project only; use an organization key or sign in.")

    def _record(self, tx: Tx, principal: Principal, action: str, resource: str, id: str, **detail: str) -> None:
        self._audit.record(tx, principal, action, resource=resource, resource_id=id, detail=detail)


def require_management(principal: Principal) -> None:
    """The scope and, for people, the role that managing takes."""
    principal.require("management")
    if principal.is_person:
        principal.require_role("owner", "admin")


def _require_operator(principal: Principal, what: str) -> None:
    if principal.proof != "local":
        raise Forbidden(f"Only the operator on the server's own machine may {what}.")


def local_principal(organization_id: str) -> Principal:
    """Whoever runs the command on the server's own machine: they have the files already."""
    return Principal(
        organization_id=organization_id,
        actor="local",
        proof="local",
        is_person=True,
        scopes=frozenset(SCOPES),
        role="owner",
        allow_destructive=True,
        name="local",
    )


def checked_name(name: str) -> str:
    """A name in one line, neither empty nor long."""
    title = " ".join(name.split())
    if not title or len(title) > MAX_NAME:
        raise Invalid("The name cannot be used.", fields=[FieldError("name", f"write 1 to {MAX_NAME} characters")])
    return title


def checked_email(email: str) -> str:
    """An address in lower case."""
    address = email.strip().lower()
    if _EMAIL.fullmatch(address) is None:
        problem = "write an address like ada@example.com"
        raise Invalid("The address cannot be used.", fields=[FieldError("email", problem)])
    return address
