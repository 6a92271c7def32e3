"""Owns `/models` in Anthropic's shape: what an endpoint answers with."""

from holdfast.core.clock import iso
from holdfast.core.errors import NotFound
from holdfast.engines.llm.model import Json
from holdfast.features.endpoints.model import EMBEDDED_MODEL, Endpoint
from holdfast.surfaces.http.endpoint.request import EndpointRequest


async def list_models(request: EndpointRequest) -> None:
    """Every model behind the endpoint, the first one asked first."""
    data = _models(request.connected.endpoint)
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]}
    await request.answer({"data": data, "has_more": False, **ends})


async def get_model(request: EndpointRequest) -> None:
    """One model."""
    wanted = request.path["model"]
    for model in _models(request.connected.endpoint):
        if model["id"] == wanted:
            await request.answer(model)
            return
    raise NotFound("model", wanted[:80])


def _models(endpoint: Endpoint) -> list[Json]:
    upstreams = sorted(endpoint.upstreams, key=lambda each: each.priority)
    names = dict.fromkeys(each.model for each in upstreams) or {EMBEDDED_MODEL: None}
    made = iso(endpoint.updated_at)
    known = {"created_at": made, "lifecycle": "active"}
    return [{"type": "model", "id": name, "display_name": name, **known} for name in names]
