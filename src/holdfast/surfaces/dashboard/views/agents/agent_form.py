"""Owns the form that says what an agent is: read into a definition, and filled from one."""

from holdfast.core.errors import FieldError, Invalid
from holdfast.features.agents.definitions.model import RUNNERS, AgentLimits, NewAgent, RunnerName
from holdfast.surfaces.dashboard.shell.fields import pairs_of
from holdfast.surfaces.dashboard.shell.view import PageView

_LIMITS = tuple(AgentLimits.__dataclass_fields__)
_TEXTS = ("name", "instructions", "runner", "command", "endpoint", "repository", "env")


def read_agent(view: PageView) -> NewAgent:
    """The form as a definition; Invalid names the field or the line that is wrong."""
    wrong: list[FieldError] = []
    runner: RunnerName = next((each for each in RUNNERS if each == view.given("runner")), "builtin")
    limits = {name: _number(view.given(f"limits.{name}"), f"limits.{name}", wrong) for name in _LIMITS}
    env = pairs_of(view.given("env"), "=", "env", wrong)
    if wrong:
        raise Invalid("The agent cannot be saved like this.", fields=wrong)
    return NewAgent(
        name=view.given("name"),
        instructions=view.given("instructions"),
        runner=runner,
        command=view.given("command") or None if runner == "command" else None,
        endpoint=view.given("endpoint") or "default",
        env=env,
        repository=view.given("repository") or None,
        limits=AgentLimits(**{name: value for name, value in limits.items() if value is not None}),
    )


def typed(view: PageView) -> dict[str, str]:
    """The form as somebody left it."""
    return {name: view.given(name) for name in (*_TEXTS, *(f"limits.{each}" for each in _LIMITS))}


def filled(agent: NewAgent) -> dict[str, str]:
    """The form as it stands for a definition."""
    return {
        "name": agent.name,
        "instructions": agent.instructions,
        "runner": agent.runner,
        "command": agent.command or "",
        "endpoint": agent.endpoint,
        "repository": agent.repository or "",
        "env": "\n".join(f"{name}={value}" for name, value in agent.env.items()),
        **{f"limits.{name}": str(getattr(agent.limits, name)) for name in _LIMITS},
    }


def _number(text: str, field: str, wrong: list[FieldError]) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        wrong.append(FieldError(field, "write a whole number"))
        return None
    return int(text)
