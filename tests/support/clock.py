"""Owns a clock that stands still until a test moves it."""

START = 1_795_000_000_000


class MovableClock:
    """A `Clock` that tells the time a test gave it."""

    def __init__(self, now: int = START) -> None:
        self.millis = now

    def now(self) -> int:
        return self.millis

    def advance(self, *, seconds: float = 0, days: float = 0) -> None:
        """Move on; a negative amount jumps back, as a corrected system clock does."""
        self.millis += round((seconds + days * 86_400) * 1000)
