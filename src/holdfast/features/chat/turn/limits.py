"""Owns what a request allows its tools: how often each may be used, which places of the web, and where its user is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.errors import FieldError, HoldfastError, Invalid
from holdfast.core.tools.outcome import Outcome
from holdfast.engines.llm.model import Json, LoopTool

MAX_DOMAINS = 100
LIMITED = ("web_search", "fetch_url")
_LOCATION = ("city", "region", "country", "timezone")


class MaxUsesExceeded(HoldfastError):
    """The request lets its model use this tool no more."""

    code = "max_uses_exceeded"
    status = 429

    def __init__(self, name: str, most: int) -> None:
        super().__init__(f"{name} may be used {most} times in this request and was. Answer with what you know now.")


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """What one tool may do in a turn."""

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    user_location: str = ""
    """Where the user is, in words."""

    @property
    def fixed(self) -> Mapping[str, Sequence[str]]:
        """What the model does not choose."""
        return {"allowed_domains": list(self.allowed_domains), "blocked_domains": list(self.blocked_domains)}


def read_limits(asked: Any, field: str) -> Mapping[str, ToolLimits]:
    """The limits of `{"web_search": {"max_uses": 3, …}}`; Invalid names what makes no sense."""
    if asked is None:
        return {}
    if not isinstance(asked, Mapping) or not all(isinstance(each, Mapping) for each in asked.values()):
        raise _wrong(field, 'write an object, such as {"web_search": {"max_uses": 3}}')
    made = {name: _limits(asked[name], f"{field}.{name}") for name in LIMITED if name in asked}
    if "web_search" in made and "fetch_url" not in made:
        # It comes along to read the hits, so it reads no others.
        made["fetch_url"] = replace(made["web_search"], max_uses=None, user_location="")
    return made


def limited(tool: LoopTool, limits: ToolLimits) -> LoopTool:
    """The tool within its limits for one turn."""
    uses = 0

    async def run(arguments: Json) -> Outcome:
        nonlocal uses
        if limits.max_uses is not None and uses >= limits.max_uses:
            raise MaxUsesExceeded(tool.name, limits.max_uses)
        uses += 1
        return await tool.run(arguments)

    where = f" The user is in {limits.user_location}." if limits.user_location else ""
    return replace(tool, run=run, description=tool.description + where)


def _limits(asked: Mapping[str, Any], field: str) -> ToolLimits:
    most = asked.get("max_uses")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise _wrong(f"{field}.max_uses", "use a whole number from 1")
    allowed = _domains(asked.get("allowed_domains"), f"{field}.allowed_domains")
    blocked = _domains(asked.get("blocked_domains"), f"{field}.blocked_domains")
    if allowed and blocked:
        raise _wrong(f"{field}.blocked_domains", "use either allowed_domains or blocked_domains")
    return ToolLimits(most, allowed, blocked, _location(asked.get("user_location"), f"{field}.user_location"))


def _domains(value: Any, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    is_right = isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value)
    if not is_right or len(value) > MAX_DOMAINS:
        raise _wrong(field, f"write a list of at most {MAX_DOMAINS} domains, such as example.com")
    for each in value:
        if "://" in each or any(character <= " " for character in each) or not each.isascii():
            raise _wrong(field, f"write {each[:100]!r} as a domain without a scheme, such as example.com/docs")
    return tuple(value)


def _location(value: Any, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, Mapping):
        raise _wrong(field, 'write an object, such as {"type": "approximate", "city": "Bern", "country": "CH"}')
    told = [" ".join(str(value[key]).split())[:100] for key in _LOCATION if value.get(key)]
    return ", ".join(told)


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid(f"The request is not valid: {field}: {problem}.", fields=[FieldError(field, problem)])
