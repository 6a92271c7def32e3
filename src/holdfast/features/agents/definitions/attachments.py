"""Owns attachments: servers of the catalog that an agent may use, each with an environment that its manifest allows."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from holdfast.core.errors import FieldError, Forbidden, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.features.agents.definitions.model import MAX_ATTACHMENTS, AgentDefinition, Attachment, NewAttachment
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.catalog import store as catalog_store
from holdfast.features.catalog.manifest import env_problems, places_of
from holdfast.features.catalog.model import CatalogEntry
from holdfast.features.secrets.references import References, referred
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database, Tx


class AgentAttachments:
    """Attaches servers of the catalog. Every save is validated whole; nothing that is wrong is dropped silently."""

    def __init__(
        self, database: Database, definitions: AgentDefinitions, references: References, secrets: Secrets
    ) -> None:
        self._database = database
        self._definitions = definitions
        self._references = references
        self._secrets = secrets

    async def put(
        self, principal: Principal, agent_id: str, wanted: Sequence[NewAttachment], *, whole: bool
    ) -> AgentDefinition:
        """Attach these: `whole` in place of all that were attached, else beside the others of other names."""

        def work(tx: Tx) -> AgentDefinition:
            found = self._definitions.find(tx, principal, None, agent_id)
            made = self._checked(tx, principal, found, wanted, whole=whole)
            names = {each.name for each in made}
            kept = () if whole else tuple(each for each in found.attachments if each.name not in names)
            attached = tuple(sorted((*kept, *made), key=lambda each: each.name))
            if len(attached) > MAX_ATTACHMENTS:
                raise Invalid(
                    "Too many servers are attached.", fields=[FieldError("name", f"attach at most {MAX_ATTACHMENTS}")]
                )
            return self._keep(tx, principal, found, attached)

        return await self._database.write(work)

    async def detach(self, principal: Principal, agent_id: str, name: str) -> AgentDefinition:
        """Take a server away, from the next session on; NotFound where it is not attached."""

        def work(tx: Tx) -> AgentDefinition:
            found = self._definitions.find(tx, principal, None, agent_id)
            left = tuple(each for each in found.attachments if each.name != name)
            if len(left) == len(found.attachments):
                raise NotFound("attachment", name[:80])
            return self._keep(tx, principal, found, left)

        return await self._database.write(work)

    def _keep(
        self, tx: Tx, principal: Principal, found: AgentDefinition, attached: tuple[Attachment, ...]
    ) -> AgentDefinition:
        before = {each.name: each for each in found.attachments}
        after = {each.name: each for each in attached}
        if before == after:
            return found
        changed = self._definitions.advance(tx, principal, None, replace(found, attachments=attached), {})
        for name in sorted(after.keys() - before.keys()):
            self._tell(tx, principal, "agent.mcp.attached", changed, name, sorted(after[name].env))
        for name in sorted(before.keys() - after.keys()):
            self._tell(tx, principal, "agent.mcp.detached", changed, name, sorted(before[name].env))
        for name in sorted(before.keys() & after.keys()):
            old, new = before[name].env, after[name].env
            fields = sorted(each for each in {*old, *new} if old.get(each) != new.get(each))
            if fields or before[name].server_id != after[name].server_id:
                self._tell(tx, principal, "agent.mcp.env_updated", changed, name, fields)
        return changed

    def _tell(
        self, tx: Tx, principal: Principal, action: str, agent: AgentDefinition, name: str, fields: list[str]
    ) -> None:
        # Names of fields only: a value may be private even where it is no secret.
        self._definitions.record(tx, principal, action, agent, {"name": name, "fields": fields})

    def _checked(
        self, tx: Tx, principal: Principal, agent: AgentDefinition, wanted: Sequence[NewAttachment], *, whole: bool
    ) -> list[Attachment]:
        wrong: list[FieldError] = []
        made: list[Attachment] = []
        is_admin = self._definitions.is_admin(tx, principal, agent.workspace_id)
        before = {each.server_id: each.env for each in agent.attachments}
        for number, new in enumerate(wanted):
            # One attachment has its fields at the top, as it was sent.
            at = f"[{number}]." if whole else ""
            entry = catalog_store.find(tx, agent.workspace_id, new.name)
            if entry is None:
                problem = f"the workspace's catalog has no server {new.name[:80]!r}: `holdfast catalog list`"
                wrong.append(FieldError(f"{at}name", problem))
            elif any(each.name == new.name for each in made):
                wrong.append(FieldError(f"{at}name", f"{new.name} is there twice"))
            else:
                # A variable that nobody declared may make the server run its author's code beside its secrets
                # (NODE_OPTIONS): an admin, who could change the entry as well, sets it, and it stays where it is.
                kept = before.get(entry.id, {})
                known = {each for each, value in new.env.items() if is_admin or kept.get(each) == value}
                wrong += self._env_problems(tx, principal, entry, new, known, f"{at}env")
                made.append(Attachment(entry.name, entry.id, dict(new.env)))
        if wrong:
            raise Invalid("The servers cannot be attached like this.", fields=wrong)
        return made

    def _env_problems(
        self, tx: Tx, principal: Principal, entry: CatalogEntry, new: NewAttachment, known: Collection[str], field: str
    ) -> list[FieldError]:
        if entry.spec.shape == "remote":
            problem = "a remote server has no environment of ours; leave env out"
            return [FieldError(field, problem)] if new.env else []
        wrong = env_problems(entry.spec.manifest, new.env, field)
        named = {each.field for each in wrong}
        # What an admin put into the entry itself an author may use for the same variable of the same server.
        theirs = {name for name, value in new.env.items() if entry.spec.env.get(name) == value}
        wrong += [
            FieldError(f"{field}.{name[:80]}", _undeclared(entry))
            for name in new.env
            if name not in {*known, *theirs, *entry.spec.manifest.env} and f"{field}.{name[:80]}" not in named
        ]
        for name in sorted(theirs):
            secret = referred(new.env[name])
            if secret is not None and not self._secrets.is_set(tx, entry.workspace_id, secret):
                problem = f"the secret {secret} has no value; set it with `holdfast secrets set {secret}`"
                wrong.append(FieldError(f"{field}.{name}", problem))
        own = {
            name: value
            for name, value in new.env.items()
            if name not in theirs and f"{field}.{name}" not in named and referred(value) is not None
        }
        if not own:
            return wrong
        try:
            return wrong + self._references.check(
                tx, principal, entry.workspace_id, own, places_of(entry.spec), field=field
            )
        except Forbidden as refused:
            raise Forbidden(
                refused.message, fields=[FieldError(f"{field}.{name}", "ask an admin of the workspace") for name in own]
            ) from None


def _undeclared(entry: CatalogEntry) -> str:
    declared = ", ".join(sorted(entry.spec.manifest.env)[:20])
    return f"the manifest of {entry.name} declares no such variable, but {declared or 'none'}; an admin can add it"
