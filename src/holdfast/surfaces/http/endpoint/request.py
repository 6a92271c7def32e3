"""Owns one admitted request to `/{project_id}/{endpoint}/v1/…`, as the handlers of both wires see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.features.endpoints.models import Connected
from holdfast.surfaces.http.asgi import header, parse_json, read_body, send_bytes

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """Who asks for what, and the way to answer."""

    scope: Scope
    receive: Receive
    send: Send
    principal: Principal
    project_id: str
    workspace_id: str | None
    """The workspace that the header named."""
    connected: Connected
    path: Mapping[str, str]
    """The parameters of the path."""
    max_body_bytes: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """What every answer tells: where the client stands with its limit."""

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The same as they go over the wire."""
        return [(_raw_name(name), value.encode("latin-1")) for name, value in self.headers.items()]

    async def read(self) -> bytes:
        """The whole body."""
        return await read_body(self.scope, self.receive, self.max_body_bytes)

    async def json(self) -> Json:
        """The body, which must be an object."""
        raw = await self.read()
        try:
            return json_object(raw)
        except Invalid:
            if (header(self.scope, b"content-encoding") or "identity") != "identity":
                fields = [FieldError("content-encoding", "leave it out")]
                raise Invalid("The body is compressed; send it as it is.", fields=fields) from None
            raise

    async def answer(self, value: Any, status: int = 200) -> None:
        """One whole JSON answer."""
        await send_bytes(self.send, status, orjson.dumps(value), headers=self.headers)

    def unhurried(self) -> None:
        """From here on the endpoint's own time limits bound the answer, not the gate's."""
        self.scope.setdefault("state", {})["unhurried"] = True


# Every answer tells the same few.
@lru_cache(64)
def _raw_name(name: str) -> bytes:
    return name.lower().encode("latin-1")


def json_object(raw: bytes) -> Json:
    """The JSON object that a body is."""
    value = parse_json(raw)
    if not isinstance(value, dict):
        raise Invalid("The body must be a JSON object.", fields=[FieldError("(whole)", "write an object")])
    return value
