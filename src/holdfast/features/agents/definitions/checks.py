"""Owns what an agent's definition may say; each problem is named by its field."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace

from holdfast.core.errors import FieldError
from holdfast.core.text.slugs import slug_of
from holdfast.features.agents.definitions.model import (
    MAX_COMMAND,
    MAX_INSTRUCTIONS,
    MAX_NAME,
    MOST,
    RUNNERS,
    SLUG,
    AgentLimits,
    NewAgent,
)
from holdfast.features.catalog.manifest import env_problems
from holdfast.features.catalog.model import ServerManifest
from holdfast.features.secrets.references import referred

_OURS = ("PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT")
"""Set by the session: an author who could change them would decide what runs."""


def tidied(new: NewAgent) -> NewAgent:
    """The same with a slug, and without blanks around its name."""
    name = new.name.strip()
    made = slug_of(name, fallback="agent", max_length=40)
    # A slug begins with a letter, a name need not.
    return replace(new, name=name, slug=new.slug or (made if made[0].isalpha() else f"agent-{made}"))


def definition_problems(new: NewAgent) -> list[FieldError]:
    """What is wrong with a definition by itself."""
    wrong: list[FieldError] = []
    if not new.name or len(new.name) > MAX_NAME:
        wrong.append(FieldError("name", f"write 1 to {MAX_NAME} characters"))
    if SLUG.fullmatch(new.slug or "") is None:
        problem = "small letters, digits and '-', beginning with a letter, at most 48: triage"
        wrong.append(FieldError("slug", problem))
    if len(new.instructions) > MAX_INSTRUCTIONS:
        wrong.append(FieldError("instructions", f"write at most {MAX_INSTRUCTIONS} characters"))
    if new.runner not in RUNNERS:
        wrong.append(FieldError("runner", f"use one of {', '.join(RUNNERS)}"))
    return [*wrong, *_command_problems(new), *_limit_problems(new.limits), *_env_problems(new.env)]


def ungranted(env: Mapping[str, str], granted: frozenset[str]) -> list[FieldError]:
    """References in an agent's own environment to secrets that no admin granted it."""
    return [
        FieldError(
            f"env.{name}",
            f"no admin granted the secret {secret} to this agent: `holdfast agents grant AGENT {secret}`, or attach a "
            "server that uses it, which keeps its value from the agent",
        )
        for name, value in env.items()
        if (secret := referred(value)) is not None and secret not in granted
    ]


def _command_problems(new: NewAgent) -> list[FieldError]:
    if new.runner != "command":
        return [FieldError("command", f"leave it out: the runner is {new.runner}")] if new.command else []
    if not new.command or len(new.command) > MAX_COMMAND or "\0" in new.command:
        return [FieldError("command", f"write what to run, at most {MAX_COMMAND} characters")]
    try:
        words = shlex.split(new.command)
    except ValueError as problem:
        return [FieldError("command", f"this cannot be split into words: {problem}")]
    return [] if words else [FieldError("command", "write what to run")]


def _limit_problems(limits: AgentLimits) -> list[FieldError]:
    most = asdict(MOST)
    return [
        FieldError(f"limits.{name}", f"choose a number from 1 to {most[name]}")
        for name, value in asdict(limits).items()
        if not 1 <= value <= most[name]
    ]


def _env_problems(env: Mapping[str, str]) -> list[FieldError]:
    ours = [FieldError(f"env.{name}", "the session sets this one itself") for name in env if name.upper() in _OURS]
    return [*ours, *env_problems(ServerManifest(), env)]
