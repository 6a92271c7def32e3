"""Owns `/models`: what an endpoint answers with."""

from holdfast.core.errors import NotFound
from holdfast.engines.llm.model import Json
from holdfast.features.endpoints.model import EMBEDDED_MODEL, Endpoint
from holdfast.surfaces.openai.request import OpenAiRequest


async def list_models(request: OpenAiRequest) -> None:
    """Every model behind the endpoint, the first one asked first."""
    await request.answer({"object": "list", "data": _models(request.connected.endpoint)})


async def get_model(request: OpenAiRequest) -> None:
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
    created = endpoint.updated_at // 1000
    return [{"id": name, "object": "model", "created": created, "owned_by": "holdfast"} for name in names]
