"""Owns the runners that there are, by the names that definitions give them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runners.base import AgentRunner
from holdfast.engines.runners.builtin import BuiltinRunner
from holdfast.engines.runners.claude_code import ClaudeCodeRunner
from holdfast.engines.runners.codex import CodexRunner
from holdfast.engines.runners.command import CommandRunner
from holdfast.engines.runners.goose import GooseRunner
from holdfast.engines.runners.installing import InstalledAgents
from holdfast.engines.runners.opencode import OpencodeRunner

_OTHERS: Mapping[str, Callable[[InstalledAgents], AgentRunner]] = {
    "claude-code": ClaudeCodeRunner,
    "codex": CodexRunner,
    "opencode": OpencodeRunner,
    "goose": GooseRunner,
}
NAMES = ("builtin", *_OTHERS, "command")


class KnownRunners:
    """Every runner; those of others have to be installed."""

    def __init__(self, agents: InstalledAgents) -> None:
        self._agents = agents

    @property
    def programs(self) -> Path:
        """Where installed ones lie."""
        return self._agents.directory

    def get(self, name: str, command: tuple[str, ...] = ()) -> AgentRunner:
        """One by its name; RunnerMissing where it is not installed."""
        if name == "builtin":
            return BuiltinRunner()
        if name == "command":
            return CommandRunner(command)
        if name not in _OTHERS:
            problem = f"{name!r} is none; there are {', '.join(NAMES)}"
            raise Invalid(f"The runner can't be used: {problem}.", fields=[FieldError("runner", problem)])
        self._agents.find(name)
        return _OTHERS[name](self._agents)
