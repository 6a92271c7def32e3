"""Owns `developer` messages on the way to a model: as they came, and as `system` where an upstream refuses the role."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from weakref import WeakSet

from holdfast.engines.llm.model import Json
from holdfast.engines.llm.remote.upstream import UpstreamRefused
from holdfast.engines.llm.remote.upstreams import Upstreams

# Chat templates that do not know the role fail as a bad request or, with some servers, as a fault of their own.
_MAY_MEAN_THE_ROLE = frozenset({400, 422, 500})


class DeveloperRole:
    """A Model over upstreams; who refused the role `developer` and then took `system` gets `system` from then on."""

    _refusers: WeakSet[Upstreams] = WeakSet()

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams

    @property
    def name(self) -> str:
        return self._upstreams.name

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        """The chunks of the answer; a refusal comes before the first, so nothing is told twice."""
        plain = as_system(body)
        attempts = [body] if plain is None else [plain] if self._upstreams in self._refusers else [body, plain]
        for number, attempt in enumerate(attempts):
            is_last = number == len(attempts) - 1
            try:
                async with aclosing(self._upstreams.stream(attempt)) as chunks:
                    async for chunk in chunks:
                        if number:
                            self._refusers.add(self._upstreams)
                        yield chunk
                return
            except UpstreamRefused as refused:
                if is_last or refused.answered not in _MAY_MEAN_THE_ROLE:
                    raise


def as_system(body: Json) -> Json | None:
    """The body with `system` for `developer`; None where nobody speaks as developer."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not any(_is_developers(message) for message in messages):
        return None
    renamed = [{**message, "role": "system"} if _is_developers(message) else message for message in messages]
    return {**body, "messages": renamed}


def _is_developers(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "developer"
