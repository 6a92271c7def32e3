"""Owns Topic: what subscribers can follow, who may, and which resources of agents read otherwise after an event."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.core.access import Access
from holdfast.engines.events.model import Event

AgentList = Literal["tools", "prompts", "resources"]
"""What agents are shown a list of."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What reads otherwise after an event: resources by URI, and lists that have more or fewer entries now."""

    uris: tuple[str, ...] = ()
    lists: tuple[AgentList, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """One noun of events."""

    access: Access
    """Who may follow it."""
    changed: Callable[[Event], Changed] | None = None
    """The resources that an event concerns; None where no agent's resource shows them."""


class Topics:
    """Every noun of events that the features tell about."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = dict(topics)

    @property
    def nouns(self) -> tuple[str, ...]:
        """What can be followed, in the features' order."""
        return tuple(self._topics)

    @property
    def shown(self) -> tuple[str, ...]:
        """Patterns of the topics that change what agents' resources show."""
        return tuple(f"{noun}.*" for noun, topic in self._topics.items() if topic.changed is not None)

    def access(self, noun: str) -> Access:
        """Who may follow a noun: whoever may not read a thing is not told of it either."""
        return self._topics[noun].access

    def changed(self, event: Event) -> Changed | None:
        """The resources that read otherwise after an event."""
        topic = self._topics.get(event.topic.partition(".")[0])
        return topic.changed(event) if topic is not None and topic.changed is not None else None
