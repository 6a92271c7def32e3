"""Owns the REST operation that hands out a client's files."""

from pydantic import Field
from starlette.responses import Response

from holdfast.core.access import ADMINISTER
from holdfast.core.errors import Forbidden
from holdfast.core.principal import Tier
from holdfast.features.client_bundles.model import SurfaceName, Wanted
from holdfast.features.client_bundles.service import ClientBundles, archive
from holdfast.surfaces.rest.api import Call, Model, Operation


class BundleQuery(Model):
    tier: Tier = Field(default="all", description="How much of the tool catalog the key sees")
    surface: SurfaceName = Field(
        default="xerotier",
        description="Which MCP endpoint to connect: the workspace's, or keystone for the organization's repositories",
    )
    env: bool = Field(default=False, description="Leave the key out of the file; the client reads a variable instead")
    label: str = Field(default="", max_length=40, description="Tells several people's keys for one client apart")


def operations(service: ClientBundles, public_url: str | None = None) -> list[Operation]:
    """The one operation; `public_url` is where this server really listens."""

    async def download(call: Call) -> Response:
        # It changes a key, although it is fetched like a page: another site's link must not do that.
        if call.principal.proof == "session" and call.request.headers.get("sec-fetch-site") in (
            "cross-site",
            "same-site",
        ):
            raise Forbidden("A bundle is downloaded from the server's own pages.", code="csrf")
        query: BundleQuery = call.query
        wanted = Wanted(
            client=call.path["client"],
            workspace_id=call.path["workspace_id"],
            surface=query.surface,
            tier=query.tier,
            in_environment=query.env,
            url=public_url,
            label=query.label,
        )
        bundle = await service.issue(call.principal, wanted)
        headers = {
            "Content-Disposition": f'attachment; filename="{bundle.surface.name}-{bundle.client.id}.zip"',
            "Cache-Control": "no-store",
        }
        return Response(archive(bundle), media_type="application/zip", headers=headers)

    return [
        Operation(
            method="GET",
            path="/api/workspaces/{workspace_id}/client-bundles/{client}",
            handler=download,
            summary="The files that connect a client, as a ZIP archive; every download makes a fresh key",
            tag="keys",
            access=ADMINISTER,
            query=BundleQuery,
            produces="application/zip",
        )
    ]
