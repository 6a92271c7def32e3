"""Owns which files of this machine an entry's command names, and who may let a server see them."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.core.errors import FieldError
from holdfast.core.principal import Principal
from holdfast.features.catalog.model import NewEntry

# Every sandbox has the machine's programs and libraries, and directories of its own under these names.
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "proc", "dev", "sys")
_OWN = ("/", "/work", "/tmp", "/opt/server")  # noqa: S108 – of the sandbox
_IMAGES = ("oci:", "oci-archive:", "docker-archive:")
_SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".py")
_PROJECT = ("package.json", "node_modules", "pyproject.toml", "setup.py", "requirements.txt")
"""One of these beside a script, or above it, marks where what it imports lies."""


class PathRules:
    """Whoever runs commands on this machine may name any file but ours; over the network, those that are let."""

    def __init__(self, data_dir: Path, allowed: Sequence[str]) -> None:
        self._data_dir = data_dir.expanduser().resolve()
        self._allowed = tuple(Path(each).expanduser().resolve() for each in allowed)

    def named(self, principal: Principal, entry: NewEntry) -> tuple[tuple[str, ...], list[FieldError]]:
        """The files that the command needs to see, and what is wrong with naming them."""
        found: dict[str, None] = {}
        wrong: list[FieldError] = []
        words = [("command", entry.command or ""), *((f"args[{n}]", arg) for n, arg in enumerate(entry.args))]
        if entry.shape == "image":
            image = entry.image or ""
            kind = next((each for each in _IMAGES if image.startswith(each)), None)
            words = [("image", image.removeprefix(kind).partition(":")[0])] if kind is not None else []
        for field, word in words if entry.shape != "remote" else ():
            path = Path(word)
            if not path.is_absolute() or _is_there(path) or not path.exists():
                continue
            problem = self._problem(principal, path)
            if problem is not None:
                wrong.append(FieldError(field, problem))
            elif entry.shape == "command":
                found |= dict.fromkeys(str(each) for each in self._shown(principal, path))
        return tuple(found), wrong

    def _shown(self, principal: Principal, path: Path) -> list[Path]:
        """What a program needs of this machine to see a path: a script comes with the project that it is part of."""
        project = _project(path)
        if project is not None and self._problem(principal, project) is None:
            return [project]
        return _needed(path)

    def _problem(self, principal: Principal, path: Path) -> str | None:
        real = path.resolve()
        if real == self._data_dir or self._data_dir in real.parents or real in self._data_dir.parents:
            return f"{path} holds this server's own data, which no MCP server sees"
        local = principal.proof == "local"
        if not local and not any(real == each or each in real.parents for each in self._allowed):
            return (
                f"{path} is a file of the server's machine; name it there with `holdfast catalog add` (or `set`), or "
                "let the operator list its directory in HOLDFAST_SERVER_PATHS"
            )
        return None


def _project(path: Path) -> Path | None:
    """The directory whose files a script imports: its installed packages, or the nearest that says it is a project."""
    if "node_modules" in path.parts[:-1]:
        return Path(*path.parts[: path.parts.index("node_modules") + 1])
    if path.suffix not in _SCRIPTS or not path.is_file():
        return None
    for above in path.parents:
        # What lies beside a project that somebody keeps in their home is not the project's.
        if len(above.parts) < 3 or above == Path.home():
            return None
        if any((above / name).exists() for name in _PROJECT):
            return above
    return None


def _needed(path: Path) -> list[Path]:
    """The file or directory; of a program of a virtual environment, the environment and what it is made from."""
    home = path.parent.parent
    if path.parent.name == "bin" and (home / "pyvenv.cfg").is_file():
        # Scripts of an environment name its interpreter in their first line, which is a link out of it.
        base = (home / "bin" / "python").resolve().parent.parent
        return [home, *([base] if not _is_there(base) else [])]
    if path.parent.name == "bin" and path.is_symlink():
        real = path.resolve().parent.parent
        return [path, *([real] if not _is_there(real) else [])]
    if path.parent.name == "bin" and (home / "lib").is_dir() and not _is_there(home):
        return [home]
    return [path]


def _is_there(path: Path) -> bool:
    if path.parts[1:3] == ("dev", "shm"):
        return False
    return str(path) in _OWN or path.parts[1:2] in [(name,) for name in _SYSTEM]
