"""Owns calls that ran here as blocks of an answer, as Anthropic tells of the tools that its own servers run."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from holdfast.core.clock import SystemClock, iso
from holdfast.core.ids import new_uuid
from holdfast.engines.llm.messages.words import dicts
from holdfast.engines.llm.model import CallEvent, Json

SERVER = "holdfast"
# Anthropic's ids begin so, and go on otherwise.
_CODES = {
    "max_uses_exceeded": "max_uses_exceeded",
    "url_not_allowed": "url_not_allowed",
    "invalid": "invalid_tool_input",
    "rate_limited": "too_many_requests",
}
_USE_ID, _MCP_ID = f"srvtoolu_{SERVER}_", f"mcptoolu_{SERVER}_"


def blocks_of(call: CallEvent) -> list[Json]:
    """The call and its result. Searches and pages are `server_tool_use`; Anthropic has a shape for any other tool too,
    that of a tool of an MCP server."""
    given = _parsed(call.arguments)
    if call.name in _SERVED:
        name, content = _SERVED[call.name]
        id = _USE_ID + new_uuid().hex
        return [
            {"type": "server_tool_use", "id": id, "name": name, "input": given},
            {"type": f"{name}_tool_result", "tool_use_id": id, "content": content(call)},
        ]
    id = _MCP_ID + new_uuid().hex
    text = [{"type": "text", "text": call.outcome.text}]
    return [
        {"type": "mcp_tool_use", "id": id, "name": call.name, "server_name": SERVER, "input": given},
        {"type": "mcp_tool_result", "tool_use_id": id, "is_error": call.failed, "content": text},
    ]


def ran_here(block: Json) -> bool:
    """Whether a block of a history is one of these: Anthropic takes back only what its own servers made."""
    id = block.get("tool_use_id") or block.get("id")
    return isinstance(id, str) and id.startswith((_USE_ID, _MCP_ID))


def _hits(call: CallEvent) -> list[Json] | Json:
    if call.failed:
        return {"type": "web_search_tool_result_error", "error_code": _code(call, "unavailable")}
    return [_hit(each) for each in dicts(_parsed(call.outcome.text).get("results"))]


def _hit(found: Json) -> Json:
    # Clients hand it back unread; it is not secret, and the snippet is all that it holds.
    kept = base64.b64encode(str(found.get("snippet") or "").encode()).decode()
    named = {"title": str(found.get("title") or ""), "url": str(found.get("url") or "")}
    return {"type": "web_search_result", **named, "encrypted_content": kept, "page_age": None}


def _page(call: CallEvent) -> Json:
    """The page that was read, or the first of several; one alone comes as its text."""
    pages = dicts(_parsed(call.outcome.text).get("pages"))
    page = pages[0] if pages else {"url": _parsed(call.arguments).get("url"), "content": call.outcome.text}
    if call.failed or page.get("error"):
        return {"type": "web_fetch_tool_result_error", "error_code": _code(call, "url_not_accessible")}
    source = {"type": "text", "media_type": "text/plain", "data": str(page.get("content") or "")}
    document = {"type": "document", "source": source, "title": None, "citations": None}
    told = {"url": str(page.get("url") or ""), "content": document, "retrieved_at": iso(SystemClock().now())}
    return {"type": "web_fetch_result", **told}


_SERVED: Mapping[str, tuple[str, Callable[[CallEvent], list[Json] | Json]]] = {
    "web_search": ("web_search", _hits),
    "fetch_url": ("web_fetch", _page),
}


def _code(call: CallEvent, otherwise: str) -> str:
    """Why it failed, as far as Anthropic has a word for it."""
    return _CODES.get(str(call.outcome.data.get("error_code")), otherwise)


def _parsed(text: str) -> Json:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
