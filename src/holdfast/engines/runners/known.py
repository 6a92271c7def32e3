"""Owns the runners that there are, by the names that definitions give them."""

from collections.abc import Callable
from pathlib import Path

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runners.base import AgentRunner
from holdfast.engines.runners.builtin import BuiltinRunner
from holdfast.engines.runners.command import CommandRunner


class KnownRunners:
    """Every runner; those of others have to be installed below one directory."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._made: dict[str, Callable[[], AgentRunner]] = {"builtin": BuiltinRunner}

    @property
    def programs(self) -> Path:
        """Where installed ones lie."""
        return self._programs

    def get(self, name: str, command: tuple[str, ...] = ()) -> AgentRunner:
        """One by its name; RunnerMissing where it is not installed."""
        if name == "command":
            return CommandRunner(command)
        if name not in self._made:
            problem = f"{name!r} is none; there are {', '.join((*self._made, 'command'))}"
            raise Invalid(f"The runner can't be used: {problem}.", fields=[FieldError("runner", problem)])
        return self._made[name]()
