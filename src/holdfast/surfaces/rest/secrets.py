"""Owns `/api/workspaces/{workspace_id}/secrets`: values go in and never come out, so one secret has no GET."""

from pydantic import Field, SecretStr

from holdfast.core.access import ADMINISTER, Access
from holdfast.core.clock import iso
from holdfast.core.paging import Page
from holdfast.features.secrets.model import Secret
from holdfast.features.secrets.service import Secrets
from holdfast.surfaces.rest.api import Call, Model, Operation


class SecretView(Model):
    name: str
    is_set: bool
    created_at: str
    updated_at: str
    updated_by: str


class SecretBody(Model):
    value: SecretStr = Field(description="Kept sealed and never answered")


def operations(secrets: Secrets) -> list[Operation]:
    """Everything served here."""

    async def list_secrets(call: Call) -> Page[SecretView]:
        return Page([view(found) for found in await secrets.list(call.principal, call.path["workspace_id"])])

    async def put(call: Call) -> SecretView:
        body: SecretBody = call.body
        name, value = call.path["secret_name"], body.value.get_secret_value()
        return view(await secrets.set(call.principal, call.path["workspace_id"], name, value))

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
            summary="Names of secrets, and whether each is set",
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
        created_at=iso(secret.created_at),
        updated_at=iso(secret.updated_at),
        updated_by=secret.updated_by,
    )
