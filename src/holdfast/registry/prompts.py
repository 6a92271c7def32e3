"""Owns Prompt: a text that a person puts into a conversation with an agent, declared by the feature that writes it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.core.access import Access
from holdfast.core.errors import Forbidden, NotFound
from holdfast.core.principal import Principal
from holdfast.core.tools.tool import Asks
from holdfast.registry.content import Content

Complete = Callable[[Principal, str, str], Awaitable[Sequence[str]]]
"""What fits a value in a workspace that somebody has begun to write."""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """What a prompt takes: text that a person writes."""

    name: str
    description: str
    complete: Complete | None = None


@dataclass(frozen=True, slots=True)
class PromptCall:
    """The circumstances of one prompt: who, where, with which arguments, and how to ask back."""

    principal: Principal
    workspace_id: str
    arguments: Mapping[str, str]
    """Every argument that the prompt declares; empty where the client left it unfilled."""
    ask: Asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A named text for a conversation, written for a workspace when somebody picks it."""

    name: str
    title: str
    description: str
    access: Access
    """Who may have it."""
    write: Callable[[PromptCall], Awaitable[str | Sequence[Content]]]
    """Its text; several pieces become several messages."""
    arguments: tuple[PromptArgument, ...] = ()


class PromptUnknown(NotFound):
    """No prompt of that name, for anybody."""

    def __init__(self, name: str) -> None:
        super().__init__("prompt", name)
        self.message = f"Unknown prompt: {name[:80]}"
        self.args = (self.message,)


class PromptRefused(Forbidden):
    """The prompt exists, but not for this credential."""


class Prompts:
    """Every prompt that the features bring. Made when first used: most commands need none."""

    def __init__(self, prompts: Callable[[], Iterable[Prompt]]) -> None:
        self._declared = prompts

    def listed(self, principal: Principal) -> list[Prompt]:
        """Those that this principal may have."""
        return [prompt for prompt in self.all.values() if prompt.access.missing(principal) is None]

    def find(self, principal: Principal, name: str) -> Prompt:
        """A prompt by its name: PromptUnknown, or PromptRefused with what is missing."""
        prompt = self.all.get(name)
        if prompt is None:
            raise PromptUnknown(name)
        missing = prompt.access.missing(principal)
        if missing is not None:
            raise PromptRefused(f"The prompt {name} is not for this credential. {missing}")
        return prompt

    async def complete(
        self, principal: Principal, workspace_id: str, name: str, argument: str, value: str
    ) -> Sequence[str]:
        """What fits the value of a prompt's argument; nothing for what this principal may not have."""
        prompt = self.all.get(name)
        if prompt is None or prompt.access.missing(principal) is not None:
            return ()
        complete = next((each.complete for each in prompt.arguments if each.name == argument), None)
        return () if complete is None else await complete(principal, workspace_id, value)

    @cached_property
    def all(self) -> dict[str, Prompt]:
        """The prompts by name, in their order."""
        found: dict[str, Prompt] = {}
        for prompt in self._declared():
            if prompt.name in found:
                raise ValueError(f"two prompts are named {prompt.name}")
            found[prompt.name] = prompt
        return found
