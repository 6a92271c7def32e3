"""Owns servers that are published as packages: recognising them in a command, installing and pinning them once."""

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from holdfast.core.errors import FieldError, Invalid, Unavailable, UpstreamFailed
from holdfast.engines.runtime.base import Mounted

TellInstall = Callable[[str], Awaitable[None]]
Ecosystem = Literal["npm", "pypi"]

PLACE = "/opt/server"
"""Where an installed package lies in a sandbox."""
_RECORD = "holdfast-package.json"
_SECONDS = 600.0
_NPM_NAME = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*", re.IGNORECASE)
_PYPI_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9^~<>=*][A-Za-z0-9._+^~<>=*!, -]{0,63}")
# A lower bound within version 1, and no upper one.
_FOR_MCP_1 = re.compile(r"mcp(\[[^\]]*\])?\s*\(?>=?\s*[01](\.[0-9.]*)?\)?", re.IGNORECASE)
_EXTRAS = re.compile(r"\[[A-Za-z0-9._, -]+\]")
# What an installer needs of our environment: where packages come from is the machine's affair.
_PASSED = re.compile(
    r"(PIP|UV|NPM_CONFIG|npm_config|SSL|NODE_EXTRA)_[A-Za-z_]*|(https?|no)_proxy|(HTTPS?|NO)_PROXY|PATH"
)


class InstallFailed(UpstreamFailed):
    """The package could not be installed; the message ends with what the installer said."""

    code = "install_failed"


class InstallerMissing(Unavailable):
    """The program that installs such packages is not on this machine."""

    code = "installer_missing"


@dataclass(frozen=True, slots=True)
class PackageCommand:
    """A command that would download and run a package, taken apart."""

    ecosystem: Ecosystem
    name: str
    version: str | None
    """As it was asked for; None where any would do."""
    program: str | None
    """The program of the package to run; None where the package has one of its own name, or only one."""
    args: tuple[str, ...]
    extras: str = ""

    @property
    def requirement(self) -> str:
        """As the installer is told."""
        if self.ecosystem == "npm":
            return f"{self.name}@{self.version or 'latest'}"
        version = self.version or ""
        return f"{self.name}{self.extras}" + (version if not version or version[0] in "=<>~!" else f"=={version}")


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """A package on this machine, at one version, with everything that it needs."""

    ecosystem: Ecosystem
    name: str
    version: str
    integrity: str
    """A digest over the digests of everything that was installed."""
    pins: Mapping[str, str]
    """Every package that came along, `name@version`, and the digest that its registry vouches for."""
    directory: Path
    command: tuple[str, ...]
    """What runs it in a sandbox that has its mounts."""

    @property
    def mounts(self) -> tuple[Mounted, ...]:
        """What a sandbox must show of this machine, read-only."""
        package = Mounted(self.directory, PLACE)
        return (package, *python_mounts()) if self.ecosystem == "pypi" else (package,)


def read_command(command: str, args: Sequence[str]) -> PackageCommand | None:
    """What `npx -y pkg@v …`, `uvx pkg …` or `uv tool run pkg …` names; None for any other command."""
    program = Path(command).name.removesuffix(".cmd").removesuffix(".exe")
    words = list(args)
    if program in ("npx", "bunx", "pnpx") or (program == "npm" and words[:1] in (["exec"], ["x"])):
        return _npm(words[1:] if program == "npm" else words)
    if program == "uvx":
        return _pypi(words)
    if program == "uv" and words[:2] == ["tool", "run"]:
        return _pypi(words[2:])
    if program == "uv" and words[:2] == ["run", "--with"]:
        # As several READMEs have it: `uv run --with mcp-clickhouse --python 3.10 mcp-clickhouse`.
        return _pypi(["--from", *words[2:]])
    if program == "pipx" and words[:1] == ["run"]:
        return _pypi(words[1:])
    return None


def _npm(words: list[str]) -> PackageCommand:
    package, program = None, None
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        if word in ("-y", "--yes", "-q", "--quiet", "--bun"):
            continue
        name, equals, value = word.partition("=")
        if name in ("-p", "--package"):
            package = value if equals else _next(words, word)
            continue
        raise _unclear(word, "only -y and --package are understood before the package")
    if package is None:
        package = _next(words, "a package")
    else:
        program = _next(words, "a program")
    if words[:1] == ["--"]:
        words = words[1:]
    at = package.rfind("@", 1)
    name, version = (package, None) if at < 0 else (package[:at], package[at + 1 :] or None)
    if _NPM_NAME.fullmatch(name) is None or (version is not None and _VERSION.fullmatch(version) is None):
        raise _unclear(package, "it is not a package of npm, like @scope/name@1.2.3")
    return PackageCommand("npm", name, None if version == "latest" else version, program, tuple(words))


def _pypi(words: list[str]) -> PackageCommand:
    package, program = None, None
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-q", "--quiet", "--isolated", "--no-cache"):
            continue
        name, equals, value = word.partition("=")
        if name in ("--from", "--spec"):
            package = value if equals else _next(words, word)
            continue
        if name in ("-p", "--python"):
            _ = value if equals else _next(words, word)
            continue
        raise _unclear(word, "only --from and --python are understood before the package")
    if package is None:
        package = _next(words, "a package")
    else:
        program = _next(words, "a program")
    found = re.match(r"[A-Za-z0-9._-]+", package)
    name = found[0] if found else ""
    rest = package[len(name) :]
    extras = _EXTRAS.match(rest)
    rest = rest[extras.end() :] if extras else rest
    # `uvx ruff@0.3.0` pins as `ruff==0.3.0` does.
    version = rest.removeprefix("@").removeprefix("==") or None
    if _PYPI_NAME.fullmatch(name) is None or (version is not None and _VERSION.fullmatch(version) is None):
        raise _unclear(package, "it is not a package of PyPI, like mcp-server-git==1.2.3")
    pinned = None if version == "latest" else version
    return PackageCommand("pypi", name, pinned, program, tuple(words), extras[0] if extras else "")


def _next(words: list[str], what: str) -> str:
    if not words:
        raise _unclear(what, "something is missing after it")
    return words.pop(0)


def _unclear(word: str, problem: str) -> Invalid:
    text = f"{word!r}: {problem}"
    return Invalid(f"The command can't be installed: {text}.", fields=[FieldError("args", text)])


class Packages:
    """Installs packages below one directory, each version with everything that it needs in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._locks: dict[str, asyncio.Lock] = {}

    def find(self, ecosystem: Ecosystem, integrity: str) -> InstalledPackage | None:
        """What was installed before, by the digest that was recorded then."""
        place = self._directory / f"{ecosystem}-{integrity.rpartition('-')[2][:32]}"
        return _load(place)

    async def install(self, wanted: PackageCommand, tell: TellInstall) -> InstalledPackage:
        """Install and pin; what is there already is used as it is. No script of a package runs."""
        async with self._locks.setdefault(wanted.requirement, asyncio.Lock()):
            making = await asyncio.to_thread(self._begin)
            try:
                await tell(f"Installing {wanted.requirement}")
                made = await (_install_npm if wanted.ecosystem == "npm" else _install_pypi)(wanted, making, tell)
                place = self._directory / f"{made.ecosystem}-{made.integrity.rpartition('-')[2][:32]}"
                kept = await asyncio.to_thread(_keep, made, making, place)
            finally:
                await asyncio.to_thread(shutil.rmtree, making, True)
            await tell(f"Installed {kept.name} {kept.version} and {len(kept.pins) - 1} packages that it needs")
            return kept

    def _begin(self) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=self._directory, prefix="making-"))
        # The program's own user reads it.
        making.chmod(0o755)
        return making

    async def remove(self, package: InstalledPackage) -> None:
        """Delete an installed package; whoever runs it must have been stopped."""
        await asyncio.to_thread(shutil.rmtree, package.directory, True)


def _keep(made: InstalledPackage, making: Path, place: Path) -> InstalledPackage:
    record = {
        "ecosystem": made.ecosystem,
        "name": made.name,
        "version": made.version,
        "integrity": made.integrity,
        "pins": dict(made.pins),
        "command": list(made.command),
    }
    (making / _RECORD).write_text(json.dumps(record, indent=1))
    with suppress(OSError):
        # Where it lies already it is the same, by its digest.
        making.rename(place)
    kept = _load(place)
    if kept is None:
        raise InstallFailed(f"{made.name} was installed, but is not found at {place}.")
    return kept


def _load(place: Path) -> InstalledPackage | None:
    try:
        record: dict[str, Any] = json.loads((place / _RECORD).read_text())
    except FileNotFoundError:
        return None
    return InstalledPackage(**(record | {"command": tuple(record["command"])}), directory=place)


async def _install_npm(wanted: PackageCommand, making: Path, tell: TellInstall) -> InstalledPackage:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise InstallerMissing("npm packages need Node.js and npm here. On Debian: apt-get install nodejs npm.")
    (making / "package.json").write_text('{"private": true}')
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--loglevel=error", "--no-update-notifier")
    with _scratch() as home:
        await _run((npm, "install", *options, "--", wanted.requirement), making, home, wanted.requirement, tell)
    lock = json.loads((making / "package-lock.json").read_text())
    pins: dict[str, str] = {}
    for path, locked in lock["packages"].items():
        if path and not locked.get("link"):
            pins[f"{path.rpartition('node_modules/')[2]}@{locked['version']}"] = str(locked.get("integrity", ""))
    manifest = json.loads((making / "node_modules" / wanted.name / "package.json").read_text())
    name = wanted.name
    program = _npm_program(wanted, manifest)
    command = ("node", f"{PLACE}/node_modules/{name}/{PurePosixPath(program)}", *wanted.args)
    return InstalledPackage("npm", name, str(manifest["version"]), _digest(pins), pins, making, command)


def _npm_program(wanted: PackageCommand, manifest: dict[str, Any]) -> str:
    """The script that npx would run: the named one, the one of the package's name, or the only one."""
    programs = manifest.get("bin") or {}
    if isinstance(programs, str):
        programs = {wanted.name.rpartition("/")[2]: programs}
    by_name = programs.get(wanted.program or wanted.name.rpartition("/")[2])
    if by_name is None and wanted.program is None and len(programs) == 1:
        by_name = next(iter(programs.values()))
    if not isinstance(by_name, str):
        names = ", ".join(sorted(programs)) or "none"
        raise InstallFailed(f"{wanted.name} has no program to run by that name; it has: {names}.")
    return by_name


async def _install_pypi(wanted: PackageCommand, making: Path, tell: TellInstall) -> InstalledPackage:
    target = making / "site"
    pins = await _fetch_pypi(wanted, making, target, "", tell)
    if await asyncio.to_thread(_outgrew_its_library, target, wanted):
        await tell(f"{wanted.name} was written for version 1 of mcp; installing it with that")
        older = making / "older"
        with suppress(InstallFailed):
            # Where something else that it needs wants version 2, what was installed first stays.
            pins = await _fetch_pypi(wanted, making, older, "mcp<2", tell)
            await asyncio.to_thread(shutil.rmtree, target)
            older.rename(target)
        await asyncio.to_thread(shutil.rmtree, older, True)
    name, version, module = await asyncio.to_thread(_entry_point, target, wanted)
    launcher = making / "run.py"
    launcher.write_text(_RUN.format(site=f"{PLACE}/site", module=module[0], function=module[1], program=module[2]))
    # The server makes files for itself alone; this one is read by the program's own user.
    launcher.chmod(0o644)
    command = (python_program(), "-I", "-B", f"{PLACE}/run.py", *wanted.args)
    return InstalledPackage("pypi", name, version, _digest(pins), pins, making, command)


async def _fetch_pypi(
    wanted: PackageCommand, making: Path, target: Path, limit: str, tell: TellInstall
) -> dict[str, str]:
    """Put a package and what it needs into a directory, within a limit on versions; the pins of all of them."""
    uv = shutil.which("uv") or _beside("uv")
    limits = making / "limits.txt"
    limits.write_text(f"{limit}\n")
    with _scratch() as home:
        if uv is None:
            report = making / "report.json"
            pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            where = ("--only-binary=:all:", "--target", str(target), "--report", str(report), "-c", str(limits))
            await _run((*pip, *where, wanted.requirement), making, home, wanted.requirement, tell)
            return _reported(json.loads(report.read_text()))
        lock = making / "requirements.txt"
        (making / "wanted.in").write_text(wanted.requirement + "\n")
        common = ("--quiet", "--no-config", "--python", sys.executable, "--only-binary", ":all:")
        hashes = ("--generate-hashes", "--no-header", "-c", str(limits), "-o", str(lock))
        await _run(
            (uv, "pip", "compile", *common, *hashes, str(making / "wanted.in")), making, home, wanted.requirement, tell
        )
        install = (uv, "pip", "install", *common, "--require-hashes", "--compile-bytecode", "--target", str(target))
        await _run((*install, "-r", str(lock)), making, home, wanted.requirement, tell)
        return _locked(lock.read_text())


def _outgrew_its_library(target: Path, wanted: PackageCommand) -> bool:
    """Whether it asks for version 1 of mcp or a later one, and got 2, which no longer has what version 1 offered."""
    found = {_normal(each.name): each for each in distributions(path=[str(target)])}
    library, server = found.get("mcp"), found.get(_normal(wanted.name))
    if library is None or server is None or library.version.split(".")[0] == "1":
        return False
    return any(_FOR_MCP_1.fullmatch(each.partition(";")[0].strip()) for each in server.requires or ())


_RUN = """import site, sys

site.addsitedir({site!r})
sys.path.insert(0, sys.path.pop())
sys.argv[0] = {program!r}
from {module} import {function} as main

sys.exit(main())
"""


def _entry_point(target: Path, wanted: PackageCommand) -> tuple[str, str, tuple[str, str, str]]:
    name = _normal(wanted.name)
    found = next((each for each in distributions(path=[str(target)]) if _normal(each.name) == name), None)
    if found is None:
        raise InstallFailed(f"{wanted.name} was installed, but does not say what it is.")
    programs = {entry.name: entry.value for entry in found.entry_points if entry.group == "console_scripts"}
    program = wanted.program or wanted.name
    value = programs.get(program) or programs.get(program.replace("_", "-"))
    if value is None and wanted.program is None and len(programs) == 1:
        value = next(iter(programs.values()))
    if value is None or re.fullmatch(r"[\w.]+:[\w]+", value.strip()) is None:
        names = ", ".join(sorted(programs)) or "none"
        raise InstallFailed(f"{wanted.name} has no program to run by that name; it has: {names}.")
    module, function = value.strip().split(":")
    return found.name, found.version, (module, function, wanted.program or wanted.name)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _locked(text: str) -> dict[str, str]:
    """The pins of a requirements file with hashes."""
    pins: dict[str, str] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        pinned = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(\S+)", block)
        if pinned is not None:
            pins[f"{pinned[1]}@{pinned[2]}"] = " ".join(sorted(re.findall(r"--hash=(\S+)", block)))
    return pins


def _reported(report: dict[str, Any]) -> dict[str, str]:
    pins: dict[str, str] = {}
    for each in report["install"]:
        hashes = each["download_info"].get("archive_info", {}).get("hashes", {})
        metadata = each["metadata"]
        pins[f"{metadata['name']}@{metadata['version']}"] = f"sha256:{hashes.get('sha256', '')}"
    return pins


def _digest(pins: Mapping[str, str]) -> str:
    return "sha256-" + hashlib.sha256(json.dumps(sorted(pins.items())).encode()).hexdigest()


def python_program() -> str:
    """The interpreter that we run on, as a sandbox with its mounts finds it."""
    return f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"


def python_mounts() -> tuple[Mounted, ...]:
    """What a sandbox must show of this machine for our interpreter, read-only."""
    place = Path(sys.base_prefix)
    return () if sys.base_prefix.startswith("/usr") else (Mounted(place, str(place), in_images=True),)


def _beside(program: str) -> str | None:
    path = Path(sys.executable).with_name(program)
    return str(path) if path.exists() else None


def _scratch() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="holdfast-install-")


async def _run(command: Sequence[str], directory: Path, home: str, what: str, tell: TellInstall) -> None:
    """Run an installer with what it needs of our environment, and nothing that is secret."""
    passed = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env=passed | {"HOME": home, "LANG": "C.UTF-8", "npm_config_cache": f"{home}/npm", "UV_CACHE_DIR": f"{home}/uv"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        # uvloop takes no umask.
        preexec_fn=lambda: os.umask(0o022),
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        async with asyncio.timeout(_SECONDS):
            while line := await process.stdout.readline():
                text = line.decode("utf-8", "replace").strip()[:500]
                if text:
                    said = [*said[-19:], text]
                    await tell(text)
            await process.wait()
    except TimeoutError:
        last = " ".join(said[-3:])
        raise InstallFailed(f"{what} could not be installed within {_SECONDS:g} seconds. {last}") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()
    if process.returncode != 0:
        raise InstallFailed(f"{what} could not be installed: {' '.join(said)[-1_500:] or 'no reason given'}")
