"""Owns the REST operation that hands out a client's files."""

from pydantic import Field

from holdfast.core.access import ADMINISTER
from holdfast.core.model import Model
from holdfast.core.operations import Call, Download, Operations
from holdfast.core.principal import Principal, Tier
from holdfast.features.client_bundles.model import SurfaceName, WantedClient
from holdfast.features.client_bundles.service import ClientBundles, archive

api = Operations("keys")


class BundleBody(Model):
    tier: Tier | None = Field(
        default=None, description="How much of the tool catalog the key sees; as much as its maker where absent"
    )
    surface: SurfaceName = Field(
        default="xerotier",
        description="Which MCP endpoint to connect: the workspace's, keystone for the organization's repositories, "
        "or zero for work items",
    )
    env: bool = Field(default=False, description="Leave the key out of the file; the client reads a variable instead")
    label: str = Field(default="", max_length=40, description="Tells several people's keys for one client apart")


# A POST, because it makes a key.
@api.post(
    "/api/workspaces/{workspace_id}/client-bundles/{client}",
    ADMINISTER,
    "The files that connect a client, as a ZIP archive; every one has a fresh key",
    produces="application/zip",
)
async def issue(
    bundles: ClientBundles, principal: Principal, workspace_id: str, client: str, body: BundleBody, call: Call
) -> Download:
    wanted = WantedClient(
        client=client,
        workspace_id=workspace_id,
        surface=body.surface,
        tier=body.tier,
        in_environment=body.env,
        url=call.public_url or None,
        label=body.label,
    )
    bundle = await bundles.issue(principal, wanted)
    name = f"{bundle.surface.name}-{bundle.client.id}.zip"
    return Download(archive(bundle), "application/zip", name, {"Cache-Control": "no-store"})
