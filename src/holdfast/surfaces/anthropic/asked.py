"""Owns what a Messages request asks of this server itself: a chat, tools that run here, and what never travels on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import Scope

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.llm.messages.chat_request import chat_body, choice_of
from holdfast.engines.llm.model import Json
from holdfast.surfaces.anthropic.blocks import ran_here
from holdfast.surfaces.http.asgi import header

CHAT_HEADER = b"x-xerotier-chat"
TOOLS_HEADER = b"x-xerotier-tools"
# It changes with every request, and no cache of a prompt that begins with it is ever hit.
BILLING = "x-anthropic-billing-header"
_OUR_NAMES = {"web_search": "web_search", "web_fetch": "fetch_url"}
_LIMITS = ("max_uses", "allowed_domains", "blocked_domains", "user_location")
_OURS = ("x_chat_id", "x_tools", "x_deep_think", "x_max_iterations")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, with what is ours taken out of it."""

    body: Json
    """As an upstream of Anthropic's wire gets it."""
    chat_id: str | None
    options: Json | None
    """What is said of tools that run here, as `web_search_options`; None where nothing is."""
    choice: Any
    """The `tool_choice`, which may name a tool that runs here."""

    @property
    def runs_here(self) -> bool:
        """Whether a model alone cannot answer."""
        return self.chat_id is not None or self.options is not None

    def chat(self) -> Json:
        """The request in Chat Completions."""
        return chat_body(self.body)

    def turn(self) -> Json:
        """The same for a turn of the loop, with what is ours."""
        if self.options is None:
            return self.chat()
        return {**self.chat(), **choice_of(_by_our_name(self.choice)), "web_search_options": self.options}


def asked(scope: Scope, body: Json) -> Asked:
    """Read a request; Invalid where it makes no sense."""
    messages = body.get("messages")
    # Whose conversation the upstream holds may have nothing to add to it.
    if not isinstance(messages, list) or not (messages or body.get("thread")):
        problem = 'write at least one message, such as {"role": "user", "content": "Hello"}'
        raise Invalid("There is nothing to answer.", fields=[FieldError("messages", problem)])
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    chat_id = metadata.get("x_chat_id") or header(scope, CHAT_HEADER) or None
    if chat_id is not None and not isinstance(chat_id, str):
        raise Invalid("The chat cannot be found.", fields=[FieldError("metadata.x_chat_id", "write its id as text")])
    own, hosted = _split(body.get("tools"))
    options = _options(scope, metadata, hosted)
    made = {**body, "messages": [message for each in messages if (message := _returnable(each)) is not None]}
    # A choice among tools that run here says nothing to a model that is asked without them.
    choice = made.pop("tool_choice", None) if options is not None else None
    theirs = {key: value for key, value in metadata.items() if key not in _OURS}
    if len(theirs) < len(metadata):
        made["metadata"] = theirs
    if hosted:
        made["tools"] = own
    if isinstance(body.get("system"), list):
        made["system"] = [block for block in body["system"] if not _is_billing(block)]
    for name in ("tools", "system"):
        # Where nothing is left of a list, an upstream may refuse the empty one.
        if made.get(name) == [] != body[name]:
            del made[name]
    return Asked(made, chat_id, options, choice)


def _options(scope: Scope, metadata: Json, hosted: Mapping[str, Json]) -> Json | None:
    named = header(scope, TOOLS_HEADER)
    names = metadata.get("x_tools")
    if names is None and named is not None:
        names = [name.strip() for name in named.split(",") if name.strip()]
    deep = metadata.get("x_deep_think")
    if names is None and not hosted and not deep:
        return None
    if names is not None and not isinstance(names, list):
        raise Invalid("The tools cannot be read.", fields=[FieldError("metadata.x_tools", "write a list of names")])
    options: Json = {"x_tools": [*(names or ()), *hosted]}
    if any(hosted.values()):
        options["x_limits"] = hosted
    if deep is not None:
        options["x_deep_think"] = deep
    if metadata.get("x_max_iterations") is not None:
        options["max_iterations"] = metadata["x_max_iterations"]
    return options


def _split(tools: Any) -> tuple[list[Json], dict[str, Json]]:
    """The client's own tools, and by name those of ours that stand for Anthropic's, with what they may do."""
    own: list[Json] = []
    hosted: dict[str, Json] = {}
    for tool in tools if isinstance(tools, list) else ():
        kind = tool.get("type") if isinstance(tool, dict) else None
        # Their types end with a date, as web_search_20250305.
        name = _OUR_NAMES.get(kind.rpartition("_")[0]) if isinstance(kind, str) else None
        if name is None:
            own.append(tool)
        else:
            hosted[name] = {key: tool[key] for key in _LIMITS if tool.get(key) is not None}
    return own, hosted


def _is_billing(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    return isinstance(text, str) and text.startswith(BILLING)


def _returnable(message: Any) -> Any:
    """A message without what its model never made: tools that ran here, and thoughts that nobody signed, which came
    from another model. None where nothing is left."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or not any(_is_foreign(block) for block in content):
        return message
    kept = [block for block in content if not _is_foreign(block)]
    return {**message, "content": kept} if kept else None


def _is_foreign(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    return ran_here(block) or (block.get("type") == "thinking" and not block.get("signature"))


def _by_our_name(choice: Any) -> Any:
    name = choice.get("name") if isinstance(choice, dict) else None
    return {**choice, "name": _OUR_NAMES[name]} if name in _OUR_NAMES else choice
