"""Owns the rules of an entry: what its manifest and its environment may say, each problem named by its field."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.credential import Place
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.fetch.network.url import BadUrl, parse_url
from holdfast.features.catalog.guessing import is_credential
from holdfast.features.catalog.model import NAME, EnvRule, NewEntry, ServerManifest
from holdfast.features.catalog.servers.addresses import parameters_of
from holdfast.features.secrets.references import REMEDY, is_mixed, referred

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_SCOPE = re.compile(r"[a-z][a-z0-9_.:-]{0,63}")
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[^\s/@?#\\*%:]{1,253}):(?P<port>[0-9]{1,5})")
MAX_ARGS, MAX_TEXT, MAX_ENV, MAX_ALLOW = 64, 4_096, 64, 64
_MAX_REGEX = 200
_REFER = "this is a secret: refer to one of the workspace's as ${NAME}"
_REFER_OR_CORRECT = (
    "this looks like a secret: refer to one of the workspace's as ${NAME}, or say kind value for it in the manifest"
)
# Quantifiers inside repeated groups take exponential time; a manifest comes from whoever wrote the server.
_RUNAWAY = re.compile(r"\([^()]*[+*}][^()]*\)\s*[+*{]")


def manifest_of(given: Any, field: str = "manifest") -> ServerManifest:
    """A manifest from its JSON; Invalid with every problem."""
    if given is None:
        return ServerManifest()
    if not isinstance(given, Mapping):
        raise _invalid([FieldError(field, "write an object with env and tool_scopes")])
    wrong: list[FieldError] = [
        FieldError(f"{field}.{name}", "no such field; a manifest has env and tool_scopes")
        for name in given
        if name not in ("env", "tool_scopes", "name", "description", "version", "$schema")
    ]
    rules = {
        name: _rule(rule, f"{field}.env.{name}", name, wrong)
        for name, rule in _object(given.get("env"), f"{field}.env", wrong).items()
    }
    scopes: dict[str, str] = {}
    for tool, scope in _object(given.get("tool_scopes"), f"{field}.tool_scopes", wrong).items():
        if not isinstance(scope, str) or _SCOPE.fullmatch(scope) is None:
            wrong.append(FieldError(f"{field}.tool_scopes.{tool}", "write a scope such as linear.write"))
        else:
            scopes[tool] = scope
    if wrong:
        raise _invalid(wrong)
    return ServerManifest(rules, scopes)


def manifest_json(manifest: ServerManifest) -> dict[str, Any]:
    """The manifest as it is shown and kept."""
    return {
        "env": {
            name: {
                "kind": rule.kind,
                **({"label": rule.label} if rule.label else {}),
                **({"required": True} if rule.required else {}),
                **({"regex": rule.regex} if rule.regex is not None else {}),
                **({"enum": list(rule.enum)} if rule.enum else {}),
                **({"guessed": True} if rule.guessed else {}),
            }
            for name, rule in manifest.env.items()
        },
        "tool_scopes": dict(manifest.tool_scopes),
    }


def entry_problems(entry: NewEntry) -> list[FieldError]:
    """What is wrong with an entry, but for its references to secrets."""
    wrong: list[FieldError] = []
    if NAME.fullmatch(entry.name) is None:
        wrong.append(
            FieldError("name", "small letters, digits, '-' and '_', beginning with a letter, at most 32: linear")
        )
    wrong += _shape_problems(entry)
    # It may still lack what its manifest requires: agents that it is attached to bring an environment of their own, and
    # a start with this one says what is missing.
    wrong += env_problems(entry.manifest, entry.env, complete=False)
    for name in entry.headers:
        if _HEADER.fullmatch(name) is None:
            wrong.append(FieldError(f"headers.{name[:80]}", "no header can have this name"))
    for number, host in enumerate(entry.allow):
        if place_of(host) is None:
            problem = f"{host[:80]!r} is no host and port; write api.linear.app:443"
            wrong.append(FieldError(f"network.allow[{number}]", problem))
    if len(entry.allow) > MAX_ALLOW:
        wrong.append(FieldError("network.allow", f"name at most {MAX_ALLOW}"))
    return wrong


def env_problems(
    manifest: ServerManifest, env: Mapping[str, str], field: str = "env", *, complete: bool = True
) -> list[FieldError]:
    """What is wrong with an environment by its manifest; whether the secrets are there is asked elsewhere."""
    wrong: list[FieldError] = []
    if len(env) > MAX_ENV:
        wrong.append(FieldError(field, f"name at most {MAX_ENV} variables"))
    for name, rule in manifest.env.items():
        value = env.get(name, "")
        problem = value_problem(rule, value)
        if problem is not None and (value or complete):
            wrong.append(FieldError(f"{field}.{name}", problem))
    for name, value in env.items():
        where = f"{field}.{name[:80]}"
        if _VARIABLE.fullmatch(name) is None:
            wrong.append(FieldError(where, "no environment variable can have this name"))
        elif "\0" in value or len(value) > MAX_TEXT * 4:
            wrong.append(FieldError(where, f"write at most {MAX_TEXT * 4} characters without NUL"))
        elif name not in manifest.env and is_mixed(value):
            wrong.append(FieldError(where, REMEDY))
    return wrong


def value_problem(rule: EnvRule, value: str) -> str | None:
    """What is wrong with a value by its rule; None when nothing is."""
    if not value:
        return "this is required" if rule.required else None
    if rule.kind == "secret":
        if referred(value) is None:
            return REMEDY if is_mixed(value) else _REFER_OR_CORRECT if rule.guessed else _REFER
        return None
    if is_mixed(value):
        return REMEDY
    if referred(value) is not None:
        return None
    if rule.enum and value not in rule.enum:
        return f"use one of {', '.join(rule.enum)}"[:300]
    if rule.regex is not None and re.fullmatch(rule.regex, value[:MAX_TEXT]) is None:
        return f"it must match {rule.regex}"
    return None


def place_of(host: str) -> Place | None:
    """The place that `host:port` stands for; None where it is none."""
    found = _HOST.fullmatch(host)
    if found is None or not 0 < int(found["port"]) < 65536:
        return None
    try:
        return parse_url(f"https://{host}/").place
    except BadUrl:
        return None


def places_of(entry: NewEntry) -> list[Place]:
    """Everywhere that what an entry is given could be sent to."""
    if entry.shape == "remote" and entry.url is not None:
        try:
            return [parse_url(entry.url).place]
        except BadUrl:
            return []
    return [place for host in entry.allow if (place := place_of(host)) is not None]


def check_entry(entry: NewEntry) -> None:
    """Invalid with every problem of an entry."""
    wrong = entry_problems(entry)
    if wrong:
        raise _invalid(wrong)


def invalid_entry(wrong: Sequence[FieldError]) -> Invalid:
    """The error that names every problem of an entry."""
    return _invalid(wrong)


def _invalid(wrong: Sequence[FieldError]) -> Invalid:
    return Invalid("The MCP server cannot be registered like this.", fields=wrong)


def _shape_problems(entry: NewEntry) -> list[FieldError]:
    wanted = {"image": entry.image, "command": entry.command, "remote": entry.url}
    fields = {"image": "image", "command": "command", "remote": "url"}
    wrong = [
        FieldError(fields[shape], f"leave it out: the shape is {entry.shape}")
        for shape, value in wanted.items()
        if shape != entry.shape and value
    ]
    value = wanted[entry.shape]
    if not value:
        return [*wrong, FieldError(fields[entry.shape], f"this is required for the shape {entry.shape}")]
    if len(value) > MAX_TEXT or "\0" in value:
        wrong.append(FieldError(fields[entry.shape], f"write at most {MAX_TEXT} characters"))
    if entry.shape == "remote":
        wrong += _url_problems(value)
        if entry.env:
            wrong.append(FieldError("env", "a remote server has no environment of ours; use headers"))
    elif entry.headers:
        wrong.append(FieldError("headers", "only a remote server is sent headers; use env"))
    if len(entry.args) > MAX_ARGS or any(len(each) > MAX_TEXT or "\0" in each for each in entry.args):
        wrong.append(FieldError("args", f"write at most {MAX_ARGS}, each of at most {MAX_TEXT} characters"))
    for number, arg in enumerate(entry.args):
        if "${" in arg:
            problem = "a secret in an argument shows in the list of processes; pass it in env"
            wrong.append(FieldError(f"args[{number}]", problem))
    return wrong


def _url_problems(url: str) -> list[FieldError]:
    try:
        parse_url(url)
    except BadUrl as problem:
        return [FieldError("url", str(problem))]
    if urlsplit(url).username or urlsplit(url).password:
        return [FieldError("url", "no user or password in the address; use headers with a ${SECRET}")]
    if "${" in url.partition("?")[0]:
        return [FieldError("url", "only a parameter of the query can be a ${SECRET}")]
    return [
        FieldError(f"url.{name[:80]}", "an address is shown and logged; write ${SECRET} as the value of this parameter")
        for name, value in parameters_of(url)
        if "${" not in value and is_credential(name, value) and value
    ]


def _object(value: Any, field: str, wrong: list[FieldError]) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        wrong.append(FieldError(field, "write an object"))
        return {}
    return value


def _rule(given: Any, field: str, name: str, wrong: list[FieldError]) -> EnvRule:
    if not isinstance(given, Mapping):
        wrong.append(FieldError(field, 'write an object such as {"kind": "secret", "required": true}'))
        return EnvRule()
    if _VARIABLE.fullmatch(name) is None:
        wrong.append(FieldError(field, "no environment variable can have this name"))
    unknown = sorted(set(given) - {"kind", "label", "required", "regex", "enum", "guessed", "description", "default"})
    wrong += [FieldError(f"{field}.{each}", "no such field") for each in unknown]
    kind, regex = given.get("kind", "value"), given.get("regex")
    if kind not in ("secret", "value"):
        wrong.append(FieldError(f"{field}.kind", "use secret or value"))
    label = given.get("label") or ""
    if not isinstance(label, str) or len(label) > 200:
        wrong.append(FieldError(f"{field}.label", "write at most 200 characters"))
        label = ""
    if not isinstance(given.get("required", False), bool):
        wrong.append(FieldError(f"{field}.required", "use true or false"))
    enum = given.get("enum") or ()
    if not isinstance(enum, (list, tuple)) or not all(isinstance(each, str) for each in enum) or len(enum) > 200:
        wrong.append(FieldError(f"{field}.enum", "write a list of at most 200 texts"))
        enum = ()
    if regex is not None and (problem := _regex_problem(regex)) is not None:
        wrong.append(FieldError(f"{field}.regex", problem))
        regex = None
    return EnvRule(
        kind="secret" if kind == "secret" else "value",
        label=label,
        required=given.get("required") is True,
        regex=regex,
        enum=tuple(enum),
        guessed=given.get("guessed") is True,
    )


def _regex_problem(regex: Any) -> str | None:
    if not isinstance(regex, str) or len(regex) > _MAX_REGEX:
        return f"write at most {_MAX_REGEX} characters"
    if _RUNAWAY.search(regex) is not None:
        return "a repeated group that repeats inside takes too long to check; write it without"
    try:
        re.compile(regex)
    except re.error as problem:
        return f"this is no regular expression: {problem}"
    return None
