"""Owns calls that ran here as blocks of an answer, as Anthropic tells of the tools that its own servers run."""

import base64
from typing import Any

import orjson

from holdfast.core.clock import SystemClock, iso
from holdfast.engines.llm.messages.words import dicts
from holdfast.engines.llm.model import CallEvent, Json

SERVER = "holdfast"


def blocks_of(call: CallEvent) -> list[Json]:
    """The call and its result. Searches and pages are `server_tool_use`; Anthropic has a shape for any other tool too,
    that of a tool of an MCP server."""
    id = call.call_id
    given = _parsed(call.arguments)
    if call.name == "web_search":
        return [_use(id, "web_search", given), {"type": "web_search_tool_result", "tool_use_id": id, **_hits(call)}]
    if call.name == "fetch_url":
        return [_use(id, "web_fetch", given), {"type": "web_fetch_tool_result", "tool_use_id": id, **_page(call)}]
    text = [{"type": "text", "text": call.outcome.text}]
    return [
        {"type": "mcp_tool_use", "id": id, "name": call.name, "server_name": SERVER, "input": given},
        {"type": "mcp_tool_result", "tool_use_id": id, "is_error": call.failed, "content": text},
    ]


def _use(id: str, name: str, given: Json) -> Json:
    return {"type": "server_tool_use", "id": id, "name": name, "input": given}


def _hits(call: CallEvent) -> Json:
    if call.failed:
        return {"content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}
    found = dicts(_parsed(call.outcome.text).get("results"))
    return {"content": [_hit(each) for each in found]}


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
        return {"content": {"type": "web_fetch_tool_error", "error_code": "url_not_accessible"}}
    source = {"type": "text", "media_type": "text/plain", "data": str(page.get("content") or "")}
    document = {"type": "document", "source": source, "title": None, "citations": None}
    told = {"url": str(page.get("url") or ""), "content": document, "retrieved_at": iso(SystemClock().now())}
    return {"content": {"type": "web_fetch_result", **told}}


def _parsed(text: str) -> Json:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
