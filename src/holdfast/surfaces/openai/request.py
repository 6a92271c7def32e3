"""Owns one admitted request as the handlers of OpenAI's wire see it."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.surfaces.http.endpoint.request import EndpointRequest, Json, json_object

__all__ = ["Json", "OpenAiRequest", "json_object"]


@dataclass(frozen=True, slots=True)
class OpenAiRequest(EndpointRequest):
    """Who asks for what, and the way to answer as OpenAI does."""

    async def answer_list(self, data: Sequence[Json], *, has_more: bool = False) -> None:
        """A list as OpenAI's clients page through it."""
        first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
        page = {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more}
        await self.answer(page)
