"""Owns putting an endpoint in front of a scripted upstream."""

from holdfast.features.endpoints.model import EndpointUpstream
from tests.fakes.llm.model import KEY, FakeModel
from tests.support.server import TestServer


async def connect(server: TestServer, upstream: FakeModel, name: str = "main", **more: object) -> str:
    """The base URL of a new endpoint in front of an upstream."""
    services = server.services
    await services.secrets.set(server.owner, server.start.workspace_id, "MODEL_KEY", KEY)
    spec = EndpointUpstream(base_url=upstream.url, model="fake-model", key_secret="MODEL_KEY", **more)  # type: ignore[arg-type]
    made = await services.endpoints.put(server.owner, server.start.project_id, name, [spec])
    return f"{server.url}{made.path}"
