"""Owns `/api/workspaces/{workspace_id}/secrets`: values go in and never come out, so one secret has no GET."""

from pydantic import Field, SecretStr

from holdfast.core.access import ADMINISTER, Access
from holdfast.core.clock import iso
from holdfast.core.model import Model
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.features.secrets.hosts import MAX_HOSTS
from holdfast.features.secrets.model import Secret
from holdfast.features.secrets.service import Secrets


class SecretView(Model):
    name: str
    is_set: bool
    hosts: list[str] = Field(description="Where it may go, `host` or `host:port`; empty until an admin uses it first")
    created_at: str
    updated_at: str
    updated_by: str = Field(description="The person's e-mail, the key's id, or `local` for the command line")


class SecretBody(Model):
    value: SecretStr = Field(description="Kept sealed and never answered")
    hosts: list[str] | None = Field(
        default=None,
        max_length=MAX_HOSTS,
        description="Where it may go, `host` (its https port) or `host:port`; left out, it stays bound as it is, and a "
        "secret that is bound to none is bound by an admin's first use",
    )


def operations(secrets: Secrets) -> list[Operation]:
    """Everything served here."""

    async def list_secrets(call: Call) -> Page[SecretView]:
        return Page([view(found) for found in await secrets.list(call.principal, call.path["workspace_id"])])

    async def put(call: Call) -> SecretView:
        body: SecretBody = call.body
        name, value = call.path["secret_name"], body.value.get_secret_value()
        return view(await secrets.set(call.principal, call.path["workspace_id"], name, value, body.hosts))

    async def delete(call: Call) -> None:
        await secrets.clear(call.principal, call.path["workspace_id"], call.path["secret_name"])

    every = "/api/workspaces/{workspace_id}/secrets"
    return [
        Operation(
            method="GET",
            path=every,
            handler=list_secrets,
            tag="secrets",
            access=Access("workspace", "management"),
            answer=SecretView,
            paged=True,
            summary="Names of secrets, whether each is set, and where it may go",
        ),
        Operation(
            method="PUT",
            path=every + "/{secret_name}",
            handler=put,
            tag="secrets",
            access=ADMINISTER,
            body=SecretBody,
            answer=SecretView,
            summary="Set or replace a secret",
        ),
        Operation(
            method="DELETE",
            path=every + "/{secret_name}",
            handler=delete,
            tag="secrets",
            access=ADMINISTER,
            status=204,
            summary="Clear a secret; again to forget its name",
        ),
    ]


def view(secret: Secret) -> SecretView:
    """A secret as the API shows it."""
    return SecretView(
        name=secret.name,
        is_set=secret.is_set,
        hosts=list(secret.hosts),
        created_at=iso(secret.created_at),
        updated_at=iso(secret.updated_at),
        updated_by=secret.updated_by,
    )
