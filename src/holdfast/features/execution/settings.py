"""Owns what a workspace's admins switch on: arguments in the audit log, decisions by a client's model, a webhook."""

from dataclasses import asdict

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.fetch.network.url import BadUrl, parse_url
from holdfast.features.audit.service import Audit
from holdfast.features.execution import store
from holdfast.features.execution.model import ExecutionSetting
from holdfast.features.secrets.service import Secrets
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx


class ExecutionSettings:
    """Reads and changes a workspace's switches. Everything is off until an admin says otherwise."""

    def __init__(
        self, database: Database, audit: Audit, workspaces: Workspaces, secrets: Secrets, clock: Clock
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._secrets = secrets
        self._clock = clock

    async def get(self, principal: Principal, workspace_id: str) -> ExecutionSetting:
        """The workspace's switches."""
        return await self._database.read(
            lambda tx: store.setting(tx, self._workspaces.check(tx, principal, workspace_id).id)
        )

    async def set(self, principal: Principal, workspace_id: str, new: ExecutionSetting) -> ExecutionSetting:
        """Switch them."""

        def work(tx: Tx) -> ExecutionSetting:
            workspace = self._workspaces.administered(tx, principal, workspace_id)
            self._check_webhook(tx, principal, workspace.id, new)
            store.put_setting(tx, workspace.id, new, self._clock.now())
            detail = {name: value for name, value in asdict(new).items() if name != "webhook_secret"}
            self._audit.record(
                tx,
                principal,
                "workspace.execution.set",
                resource="workspace",
                resource_id=workspace.id,
                workspace_id=workspace.id,
                detail=detail,
            )
            return new

        return await self._database.write(work)

    def _check_webhook(self, tx: Tx, principal: Principal, workspace_id: str, new: ExecutionSetting) -> None:
        if new.webhook_url is None:
            if new.webhook_secret is not None:
                raise Invalid(
                    "There is nothing to sign.", fields=[FieldError("webhook_secret", "give webhook_url too")]
                )
            return
        try:
            parse_url(new.webhook_url)
        except BadUrl as problem:
            fields = [FieldError("webhook_url", each.message) for each in problem.fields]
            raise Invalid("The webhook cannot be used.", fields=fields) from None
        if new.webhook_secret is not None:
            # It signs what is sent; it is not sent itself.
            self._secrets.use(tx, principal, workspace_id, new.webhook_secret, (), field="webhook_secret")
