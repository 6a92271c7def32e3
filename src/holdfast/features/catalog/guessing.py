"""Owns guesses of what a server expects in its environment: from its README, and from what it complains about."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from holdfast.core.text.secrets_scan import first_secret_kind
from holdfast.features.catalog.model import EnvRule, ServerManifest

MAX_GUESSED = 40
SECRET_NAME = re.compile(
    r"secret|passw|passphrase|token|api_?key|private_?key|access_?key|credential|authorization|cookie|"
    r"(?:^|_)(?:pat|key|auth|dsn|pwd)$",
    re.I,
)
# A name that people write in capitals and that has an underscore is hardly ever anything else.
_NAME = r"[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,8}"
_ENV_BLOCK = re.compile(r"""["']?\benv(?:ironment)?["']?\s*[:=]\s*\{([^{}]{1,4000})\}""")
_KEY = re.compile(r"""["']?\b([A-Z][A-Z0-9_]{1,80})["']?\s*[:=]""")
_ASSIGNED = re.compile(rf"(?:^|\s)(?:export\s+|set\s+|-e\s+|--env[ =])?({_NAME})=", re.MULTILINE)
_PASSED = re.compile(rf"(?:^|\s)(?:-e|--env)\s+({_NAME})\b", re.MULTILINE)
_SECTION = re.compile(r"^#{1,6}\s[^\n]*(?:environ|configur|env var)[^\n]*\n(.*?)(?=^#{1,6}\s|\Z)", re.M | re.S | re.I)
_QUOTED = re.compile(rf"`({_NAME})`")
_COMPLAINT = re.compile(
    r"environ|\benv\b|requir|missing|not set|unset|must be|undefined|not defined|not provided|please|provide|KeyError|"
    r"not configured|not found|no value|expected",
    re.I,
)
_NAMED = re.compile(rf"\b({_NAME})\b")
# Of the machine or of what runs the server, not of the server.
_NOT_ITS_OWN = re.compile(
    r"(?:ERR|NODE|NPM|UV|PIP|PYTHON|DOCKER|LC|LD|XDG|SSL|MCP_SERVER)_.*|(?:HTTPS?|NO|ALL)_PROXY|"
    r".*_(?:NOT_FOUND|FAILED|ERROR|REFUSED)|VIRTUAL_ENV|GITHUB_ACTIONS"
)


def names_in_readme(text: str) -> list[str]:
    """The variables that a README gives the server, in its order."""
    found = [name for block in _ENV_BLOCK.findall(text) for name in _KEY.findall(block)]
    found += _PASSED.findall(text) + _ASSIGNED.findall(text)
    found += [name for section in _SECTION.findall(text) for name in _QUOTED.findall(section)]
    return _own(found)


def names_in_complaints(text: str) -> list[str]:
    """The variables that a server says it lacks, in the order of its lines."""
    lines = [line[:1_000] for line in text.splitlines() if _COMPLAINT.search(line[:1_000])]
    return _own(name for line in lines for name in _NAMED.findall(line))


def guessed(
    manifest: ServerManifest, given: Mapping[str, str], names: Iterable[str], *, label: str = ""
) -> ServerManifest:
    """The manifest with a rule for each name that nobody spoke of yet; none of them is demanded."""
    rules = dict(manifest.env)
    for name in names:
        if name not in rules and name not in given and len(rules) < MAX_GUESSED:
            rules[name] = EnvRule(kind="secret" if is_credential(name, "") else "value", label=label, guessed=True)
    return manifest if len(rules) == len(manifest.env) else replace(manifest, env=rules)


def is_credential(name: str, value: str) -> bool:
    """Whether a variable or header holds what must not be kept in the open."""
    return SECRET_NAME.search(name) is not None or bool(value and first_secret_kind([f"{name}: {value}", value]))


def _own(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if _NOT_ITS_OWN.fullmatch(name) is None][:MAX_GUESSED]
