"""Owns `/api/workspaces/{workspace_id}/secrets`: values go in and never come out, so one secret has no GET."""

from pydantic import Field, SecretStr

from holdfast.core.access import ADMINISTER, Access
from holdfast.core.model import Answer, Model, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.secrets.hosts import MAX_HOSTS
from holdfast.features.secrets.service import Secrets

api = Operations("secrets")

_BASE = "/api/workspaces/{workspace_id}/secrets"


class SecretAnswer(Answer):
    name: str
    is_set: bool
    hosts: list[str] = Field(description="Where it may go, `host` or `host:port`; empty until an admin uses it first")
    created_at: Time
    updated_at: Time
    updated_by: str = Field(description="The person's e-mail, the key's id, or `local` for the command line")


class SecretBody(Model):
    value: SecretStr = Field(description="Kept sealed and never answered")
    hosts: list[str] | None = Field(
        default=None,
        max_length=MAX_HOSTS,
        description="Where it may go, `host` (its https port) or `host:port`; left out, it stays bound as it is, and a "
        "secret that is bound to none is bound by an admin's first use",
    )


@api.get(_BASE, Access("workspace", "management"), "Names of secrets, whether each is set, and where it may go")
async def page(secrets: Secrets, principal: Principal, workspace_id: str) -> Page[SecretAnswer]:
    return Page([SecretAnswer.of(found) for found in await secrets.list(principal, workspace_id)])


@api.put(_BASE + "/{secret_name}", ADMINISTER, "Set or replace a secret")
async def put(
    secrets: Secrets, principal: Principal, workspace_id: str, secret_name: str, body: SecretBody
) -> SecretAnswer:
    value = body.value.get_secret_value()
    return SecretAnswer.of(await secrets.set(principal, workspace_id, secret_name, value, body.hosts))


@api.delete(_BASE + "/{secret_name}", ADMINISTER, "Clear a secret; again to forget its name")
async def delete(secrets: Secrets, principal: Principal, workspace_id: str, secret_name: str) -> None:
    await secrets.clear(principal, workspace_id, secret_name)
