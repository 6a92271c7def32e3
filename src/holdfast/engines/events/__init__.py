"""Live updates: what was committed here or in another process, to whoever listens."""

from holdfast.engines.events.bus import EventBus
from holdfast.engines.events.model import LAGGED, Event, Subscription

__all__ = ["LAGGED", "Event", "EventBus", "Subscription"]
