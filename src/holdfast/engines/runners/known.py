"""Owns the runners that there are, by the names that definitions give them."""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from holdfast import __version__
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runners.base import AgentRunner, RunnerPin
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

    def pin(self, name: str) -> RunnerPin | None:
        """What is installed under a name now."""
        if name == "builtin":
            return _own_pin()
        if name not in _OTHERS:
            return None
        found = self._agents.find(name)
        return RunnerPin(found.package, found.version, found.integrity)

    def get(self, name: str, command: tuple[str, ...] = (), pin: RunnerPin | None = None) -> AgentRunner:
        """One by its name; RunnerMissing where it is not installed."""
        if name == "builtin":
            return BuiltinRunner()
        if name == "command":
            return CommandRunner(command)
        if name not in _OTHERS:
            problem = f"{name!r} is none; there are {', '.join(NAMES)}"
            raise Invalid(f"The runner can't be used: {problem}.", fields=[FieldError("runner", problem)])
        agents = self._agents if pin is None else self._agents.pinned(name, pin.integrity)
        agents.find(name)
        return _OTHERS[name](agents)


@cache
def _own_pin() -> RunnerPin:
    """The built-in agent is a part of Holdfast: its version, and a digest of the program that enters the sandbox."""
    inside = resources.files("holdfast.engines.runners.inside")
    digest = hashlib.sha256()
    for name in sorted(each.name for each in inside.iterdir() if each.name.endswith(".py")):
        digest.update(f"{name}\0{hashlib.sha256((inside / name).read_bytes()).hexdigest()}\n".encode())
    return RunnerPin("holdfast", __version__, f"sha256-{digest.hexdigest()}")
