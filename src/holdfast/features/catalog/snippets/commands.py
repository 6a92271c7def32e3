"""Owns what commands of snippets stand for: a shell around another, `docker run` an image, `mcp-remote` an address."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from holdfast.core.errors import FieldError, Invalid

_RUNNERS = frozenset({"npx", "bunx", "pnpx"})
_BRIDGE = re.compile(r"mcp-remote(@[\w.^~-]+)?")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ALONE = frozenset(
    {"--rm", "--init", "--interactive", "--tty", "--quiet", "-q", "--read-only", "--pull", "-d", "--detach"}
)
_LETTERS = re.compile(r"-[itd]+")
_IGNORED = frozenset(
    {"--name", "--network", "--net", "--pull", "--platform", "--memory", "-m", "--cpus", "-p", "--publish"}
)
_FOLDERS = frozenset({"-v", "--volume", "--mount"})


@dataclass(frozen=True, slots=True)
class MeantServer:
    """What a command comes to: a command, an image, or the address of a remote server."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    image: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def meant(command: str, args: Sequence[str], env: Mapping[str, str], where: str) -> MeantServer:
    """What a snippet's command comes to; Invalid names the argument that cannot be had here."""
    program = re.split(r"[\\/]", command)[-1].lower().removesuffix(".exe").removesuffix(".cmd")
    if program == "cmd" and len(args) > 1 and args[0].lower() == "/c":
        return meant(args[1], args[2:], env, where)
    if program in ("docker", "podman") and args[:1] in (["run"], ("run",)):
        return _container(args[1:], env, where)
    if program in _RUNNERS:
        rest = [each for each in args if each not in ("-y", "--yes")]
        if len(rest) > 1 and _BRIDGE.fullmatch(rest[0]) is not None and rest[1].startswith(("https://", "http://")):
            return MeantServer(url=rest[1], headers=_bridged(rest[2:], env, where))
    return MeantServer(command, tuple(args), env)


def _container(words: Sequence[str], env: Mapping[str, str], where: str) -> MeantServer:
    left, found = list(words), dict(env)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if name in _FOLDERS:
            raise _refused(where, f"{name}: folders of this machine are not shown to an image; leave it out")
        if name in ("-e", "--env"):
            variable, given, text = (value if equals else left.pop(0) if left else "").partition("=")
            found.setdefault(variable, "")
            if given:
                found[variable] = text
        elif name in _IGNORED and not equals:
            del left[:1]
        elif name not in _ALONE | _IGNORED and _LETTERS.fullmatch(name) is None:
            raise _refused(where, f"{name[:40]} of docker run is not offered here; leave it out")
    if not left:
        raise _refused(where, "docker run names no image")
    return MeantServer(args=tuple(left[1:]), env=found, image=left[0])


def _bridged(words: Sequence[str], env: Mapping[str, str], where: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for word, following in pairwise(words):
        if word == "--header":
            name, colon, value = following.partition(":")
            if not colon:
                raise _refused(where, "--header takes 'Name: value'")
            # As the bridge itself does it: the value comes from its environment.
            headers[name.strip()] = _REFERENCE.sub(lambda found: env.get(found[1], found[0]), value.strip())
    return headers


def _refused(where: str, problem: str) -> Invalid:
    return Invalid("The snippet cannot be imported.", fields=[FieldError(f"{where}.args", problem)])
