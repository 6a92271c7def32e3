"""Owns reading the snippets that READMEs and registries give: what a server runs, and which values are credentials."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.text.secrets_scan import first_secret_kind
from holdfast.features.catalog.guessing import SECRET_NAME, is_credential
from holdfast.features.catalog.model import EnvRule, NewEntry, ServerManifest
from holdfast.features.catalog.servers.addresses import parameters_of, referring
from holdfast.features.catalog.snippets.commands import meant

MAX_SERVERS = 50
# What stands in READMEs where a person's own value goes.
_PLACEHOLDER = re.compile(
    r"\s*(?:<.*>|\[.*\]|\{\{.*\}\}|\$\{(?:input|env):[^}]*\}|your[ _-].*|.*[_-]here|"
    r".*[ _-]?(?:your|my)[_-].*(?:key|token|secret).*|x{3,}|\.{3}|…|changeme|replace.*|todo|)\s*",
    re.I | re.S,
)
# What a reader, or an editor that asks, puts a value in place of.
_OPEN = re.compile(r"<[A-Za-z][^<>]*>|\$\{[^}]*\}")
_IN_ARGUMENT = (
    "a credential in an argument shows in the list of processes; give it in env, by the name that the server's README "
    "has, where it becomes a secret"
)
_PLAIN_NAME = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class PastedServer:
    """One server of a snippet. `credentials` are values that become secrets, `missing` those that nobody gave yet."""

    entry: NewEntry
    credentials: Mapping[str, str] = field(repr=False)
    missing: tuple[str, ...] = ()
    where: str = ""
    """Its place in the snippet; empty where it is all of it."""


def read_snippet(given: Mapping[str, Any]) -> list[PastedServer]:
    """The servers of a Claude Desktop, VS Code or registry snippet; Invalid names what cannot be read."""
    servers = given.get("mcpServers", given.get("servers", given.get("mcp")))
    if isinstance(servers, Mapping):
        listed = {str(name): spec for name, spec in servers.items()}
    elif "packages" in given or "remotes" in given:
        return [_registered(given)]
    elif given and all(isinstance(spec, Mapping) and {"command", "url"} & set(spec) for spec in given.values()):
        listed = {str(name): spec for name, spec in given.items()}
    else:
        problem = 'paste {"mcpServers": {…}}, VS Code\'s {"servers": {…}}, or a registry\'s server.json'
        raise Invalid("The snippet cannot be read.", fields=[FieldError("mcpServers", problem)])
    if not 1 <= len(listed) <= MAX_SERVERS:
        raise Invalid("The snippet cannot be read.", fields=[FieldError("mcpServers", f"name 1 to {MAX_SERVERS}")])
    found: list[PastedServer] = []
    wrong: list[FieldError] = []
    for name, spec in listed.items():
        try:
            found.append(replace(_configured(name, spec), where=_where(name)))
        except Invalid as refused:
            # Whoever pasted it mends all of it in one go.
            wrong += refused.fields
    if wrong:
        raise Invalid("The snippet cannot be imported.", fields=wrong)
    return found


def plain_name(name: str) -> str:
    """A name that the catalog takes: of `io.github.owner/weather` the last part."""
    last = name.rsplit("/", 1)[-1].lower()
    plain = _PLAIN_NAME.sub("-", last).strip("-_")
    plain = plain if plain[:1].isalpha() else f"s-{plain}".rstrip("-")
    return plain[:32].rstrip("-_")


def _configured(name: str, spec: Any) -> PastedServer:
    where = _where(name)
    if not isinstance(spec, Mapping):
        raise _wrong(where, "write an object with command or url")
    url = spec.get("url") or spec.get("serverUrl") or spec.get("httpUrl")
    command = spec.get("command")
    args = spec.get("args") or ()
    if isinstance(command, list) and command:  # opencode writes the whole line as one list.
        command, args = command[0], command[1:]
    enabled = not spec.get("disabled", False) and spec.get("enabled", True) is not False
    if url is not None:
        headers = _texts(spec.get("headers"), f"{where}.headers")
        return _remote(name, str(url), headers, enabled=enabled)
    if not isinstance(command, str) or not command:
        raise _wrong(f"{where}.command", "this is required, or url for a remote server")
    if not isinstance(args, Sequence) or isinstance(args, str) or not all(isinstance(each, str) for each in args):
        raise _wrong(f"{where}.args", "write a list of texts")
    env = _texts(spec.get("env") or spec.get("environment"), f"{where}.env")
    found = meant(command, args, env, where)
    if found.url is not None:
        return _remote(name, found.url, found.headers, enabled=enabled)
    _check_arguments(found.args, f"{where}.args")
    return _local(name, found.command, found.args, found.env, {}, enabled=enabled, image=found.image)


def _where(name: str) -> str:
    return f"mcpServers.{name[:80]}"


def _local(
    name: str,
    command: str,
    args: tuple[str, ...],
    env: Mapping[str, str],
    rules: Mapping[str, EnvRule],
    *,
    enabled: bool = True,
    image: str | None = None,
) -> PastedServer:
    found = {**dict.fromkeys(rules, ""), **env}
    known = {
        each: rules.get(each) or EnvRule(kind="secret" if is_credential(each, value) else "value", guessed=True)
        for each, value in found.items()
    }
    credentials = {
        each: value for each, value in env.items() if known[each].kind == "secret" and not _is_placeholder(value)
    }
    missing = tuple(
        each
        for each, rule in known.items()
        if each not in credentials and _is_placeholder(env.get(each, "")) and (rule.required or each in env)
    )
    plain = {each: value for each, value in env.items() if known[each].kind == "value" and not _is_placeholder(value)}
    entry = NewEntry(
        name=plain_name(name),
        shape="image" if image else "command",
        image=image,
        command=None if image else command,
        args=args,
        manifest=ServerManifest({each: _needed(rule, each in missing) for each, rule in known.items()}),
        env=plain,
        enabled=enabled and not missing,
    )
    return PastedServer(entry, credentials, missing)


def _needed(rule: EnvRule, missing: bool) -> EnvRule:
    return replace(rule, required=rule.required or missing)


def _remote(name: str, url: str, headers: Mapping[str, str], *, enabled: bool) -> PastedServer:
    credentials = {
        each: value for each, value in headers.items() if is_credential(each, value) and not _is_placeholder(value)
    }
    missing = tuple(each for each, value in headers.items() if _is_placeholder(_behind_scheme(value)))
    plain = {each: value for each, value in headers.items() if each not in credentials and each not in missing}
    credentials = {each: value for each, value in credentials.items() if each not in missing}
    for each, value in parameters_of(url):
        # A parameter of the address; no header has such a name.
        if value and _is_placeholder(value):
            missing, url = (*missing, f"?{each}"), referring(url, {each: None})
        elif "${" not in value and value and is_credential(each, value):
            credentials[f"?{each}"] = value
    entry = NewEntry(name=plain_name(name), shape="remote", url=url, headers=plain, enabled=enabled and not missing)
    return PastedServer(entry, credentials, missing)


def _registered(given: Mapping[str, Any]) -> PastedServer:
    """A registry's server.json: the first package that can be run here, else the first remote."""
    name = str(given.get("name") or "server")
    for number, package in enumerate(_list(given.get("packages"))):
        found = _package(name, package, f"packages[{number}]")
        if found is not None:
            return found
    for remote in _list(given.get("remotes")):
        if isinstance(remote.get("url"), str):
            headers = {str(each.get("name")): str(each.get("value") or "") for each in _list(remote.get("headers"))}
            return _remote(name, remote["url"], headers, enabled=True)
    raise _wrong("packages", "none is of npm, PyPI or an OCI image, and there is no remote")


def _package(name: str, package: Mapping[str, Any], where: str) -> PastedServer | None:
    kind = str(_either(package, "registryType", "registry_type", "registry_name") or "").lower()
    identifier = str(_either(package, "identifier", "name") or "")
    version = str(package.get("version") or "")
    if not identifier:
        raise _wrong(f"{where}.identifier", "this is required")
    rules: dict[str, EnvRule] = {}
    env: dict[str, str] = {}
    for variable in _list(_either(package, "environmentVariables", "environment_variables")):
        key = str(variable.get("name") or "")
        secret = bool(_either(variable, "isSecret", "is_secret"))
        rules[key] = EnvRule(
            kind="secret" if secret or is_credential(key, "") else "value",
            label=str(variable.get("description") or "")[:200],
            required=bool(_either(variable, "isRequired", "is_required")),
            enum=tuple(str(each) for each in variable.get("choices") or ()),
        )
        given = variable.get("value", variable.get("default"))
        if isinstance(given, (str, int, float)) and str(given):
            env[key] = str(given)
    more = tuple(_arguments(_list(_either(package, "packageArguments", "package_arguments"))))
    if kind == "npm":
        return _local(name, "npx", ("-y", f"{identifier}@{version}" if version else identifier, *more), env, rules)
    if kind == "pypi":
        return _local(name, "uvx", (f"{identifier}=={version}" if version else identifier, *more), env, rules)
    if kind in ("oci", "docker"):
        tagged = ":" in identifier.rsplit("/", 1)[-1] or "@" in identifier
        image = identifier if tagged or not version else f"{identifier}:{version}"
        return _local(name, "", more, env, rules, image=image)
    return None


def _arguments(listed: Sequence[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    for each in listed:
        value = each.get("value", each.get("default"))
        if each.get("type") == "named" and each.get("name"):
            found += [str(each["name"]), *([str(value)] if value is not None else [])]
        elif value is not None:
            found.append(str(value))
    return found


def _is_placeholder(value: str) -> bool:
    return _PLACEHOLDER.fullmatch(value) is not None


def _behind_scheme(value: str) -> str:
    scheme, _, rest = value.partition(" ")
    return rest if scheme.lower() in ("bearer", "basic", "token") and rest else value


def _check_arguments(args: Sequence[str], where: str) -> None:
    wrong = [
        FieldError(f"{where}[{number}]", problem)
        for number, arg in enumerate(args)
        if (problem := _argument_problem(arg, args[number - 1] if number else "")) is not None
    ]
    if wrong:
        raise Invalid("The snippet cannot be imported.", fields=wrong)


def _argument_problem(arg: str, before: str) -> str | None:
    option, _, value = arg.partition("=") if arg.startswith("-") else (before, "=", arg)
    is_named = option.startswith("-") and SECRET_NAME.search(option.replace("-", "_")) is not None
    if (value and is_named) or first_secret_kind([arg]) is not None:
        return _IN_ARGUMENT
    if (open := _OPEN.search(arg)) is not None:
        return f"put your own value in place of {open[0][:60]}, which only your editor or you know"
    return None


def _texts(given: Any, where: str) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(value, (str, int, float)) for value in given.values()):
        raise _wrong(where, "write an object of texts")
    return {str(name): str(value) for name, value in given.items()}


def _list(given: Any) -> list[Mapping[str, Any]]:
    return [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []


def _either(given: Mapping[str, Any], *names: str) -> Any:
    return next((given[name] for name in names if name in given), None)


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid("The snippet cannot be imported.", fields=[FieldError(field, problem)])
