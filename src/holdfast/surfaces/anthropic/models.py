"""Owns `/models` in Anthropic's shape: what an endpoint answers with."""

from urllib.parse import parse_qs

from holdfast.core.clock import iso
from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.engines.llm.model import Json
from holdfast.features.endpoints.model import EMBEDDED_MODEL, Endpoint
from holdfast.surfaces.http.endpoint.request import EndpointRequest

_USUAL, _MOST = 20, 1_000
"""How many a page has, as Anthropic has it."""


async def list_models(request: EndpointRequest) -> None:
    """The models behind the endpoint, the first one asked first, in pages."""
    query = {name: values[0] for name, values in parse_qs(request.scope["query_string"].decode("latin-1")).items()}
    models = _models(request.connected.endpoint)
    limit = _limit(query.get("limit", str(_USUAL)))
    if "before_id" in query:
        # The page that ends just before it.
        end = _place(models, query["before_id"], "before_id")
        begin = max(0, end - limit)
        page, has_more = models[begin:end], begin > 0
    else:
        begin = _place(models, query["after_id"], "after_id") + 1 if "after_id" in query else 0
        page, has_more = models[begin : begin + limit], begin + limit < len(models)
    ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
    await request.answer({"data": page, "has_more": has_more, **ends})


async def get_model(request: EndpointRequest) -> None:
    """One model."""
    wanted = request.path["model"]
    for model in _models(request.connected.endpoint):
        if model["id"] == wanted:
            await request.answer(model)
            return
    raise NotFound("model", wanted[:80])


def _limit(given: str) -> int:
    if not given.isdecimal() or len(given) > 4 or not 1 <= int(given) <= _MOST:
        raise Invalid("The limit is out of range.", fields=[FieldError("limit", f"from 1 to {_MOST:,}")])
    return int(given)


def _place(models: list[Json], id: str, field: str) -> int:
    for place, model in enumerate(models):
        if model["id"] == id:
            return place
    raise Invalid("The page cannot be found.", fields=[FieldError(field, "it is no model of this endpoint")])


def _models(endpoint: Endpoint) -> list[Json]:
    upstreams = sorted(endpoint.upstreams, key=lambda each: each.priority)
    names = dict.fromkeys(each.model for each in upstreams) or {EMBEDDED_MODEL: None}
    made = iso(endpoint.updated_at)
    known = {"created_at": made, "lifecycle": "active"}
    return [{"type": "model", "id": name, "display_name": name, **known} for name in names]
