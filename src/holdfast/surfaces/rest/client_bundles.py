"""Owns the REST operation that hands out a client's files."""

from pydantic import Field

from holdfast.core.access import ADMINISTER
from holdfast.core.model import Model
from holdfast.core.operations import Call, Download, Operation
from holdfast.core.principal import Tier
from holdfast.features.client_bundles.model import SurfaceName, Wanted
from holdfast.features.client_bundles.service import ClientBundles, archive


class BundleBody(Model):
    tier: Tier | None = Field(
        default=None, description="How much of the tool catalog the key sees; as much as its maker where absent"
    )
    surface: SurfaceName = Field(
        default="xerotier",
        description="Which MCP endpoint to connect: the workspace's, or keystone for the organization's repositories",
    )
    env: bool = Field(default=False, description="Leave the key out of the file; the client reads a variable instead")
    label: str = Field(default="", max_length=40, description="Tells several people's keys for one client apart")


def operations(service: ClientBundles, public_url: str | None = None) -> list[Operation]:
    """The one operation, a POST because it makes a key; `public_url` is where this server really listens."""

    async def issue(call: Call) -> Download:
        body: BundleBody = call.body
        wanted = Wanted(
            client=call.path["client"],
            workspace_id=call.path["workspace_id"],
            surface=body.surface,
            tier=body.tier,
            in_environment=body.env,
            url=public_url,
            label=body.label,
        )
        bundle = await service.issue(call.principal, wanted)
        name = f"{bundle.surface.name}-{bundle.client.id}.zip"
        return Download(archive(bundle), "application/zip", name, {"Cache-Control": "no-store"})

    return [
        Operation(
            method="POST",
            path="/api/workspaces/{workspace_id}/client-bundles/{client}",
            handler=issue,
            summary="The files that connect a client, as a ZIP archive; every one has a fresh key",
            tag="keys",
            access=ADMINISTER,
            body=BundleBody,
            produces="application/zip",
        )
    ]
