"""Agents of others are fetched when an operator asks, pinned, found again; without, the remedy is said."""

import json
import shutil
from pathlib import Path

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.runners.base import Assignment, RunnerMissing, RunnerPin
from holdfast.engines.runners.installing import PLACE, PUBLISHED, InstalledAgents
from holdfast.engines.runners.known import NAMES, KnownRunners
from holdfast.engines.runtime.base import RunLimits, RunSpec
from holdfast.engines.runtime.packages import InstallFailed
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import printed

ASSIGNMENT = Assignment("", "", "m", "http://127.0.0.1:4711", "k", {}, {})


async def silent(text: str) -> None:
    pass


@pytest.mark.slow
async def test_an_agent_is_fetched_pinned_found_again_and_runs(tmp_path: Path) -> None:
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)

    made = await InstalledAgents(tmp_path / "programs").install("goose", tell)
    assert made.version == PUBLISHED["goose"].version
    assert told[0] == "Installing @aaif/goose-acp@1.50.0" and told[-1].startswith("Installed @aaif/goose-acp 1.50.0")
    agents = InstalledAgents(tmp_path / "programs")
    assert agents.find("goose") == made and agents.installed() == [made]
    pins = json.loads((made.directory / "holdfast-package.json").read_text())["pins"]
    assert [name.startswith("@aaif/goose-") for name in pins] == [True, True]
    assert all(digest.startswith("sha512-") for digest in pins.values())
    plan = KnownRunners(agents).get("goose").plan(ASSIGNMENT)
    runtime = ProcessRuntime()
    spec = RunSpec("goose", (plan.command[0], "--version"), mounts=plan.mounts, limits=RunLimits(seconds=60))
    assert "1.50.0" in await printed(runtime, spec)
    await runtime.close()
    # Asked for once more it is the same; nothing half made is left.
    assert await agents.install("goose", silent) == made
    assert {path.name for path in (tmp_path / "programs").iterdir()} == {made.directory.name, "goose.json"}


@pytest.mark.slow
async def test_a_version_that_is_not_there_leaves_everything_as_it_was(tmp_path: Path) -> None:
    agents = InstalledAgents(tmp_path / "programs")
    with pytest.raises(InstallFailed, match=r"@aaif/goose-acp@9\.9\.9 could not be installed"):
        await agents.install("goose", silent, "9.9.9")
    assert list((tmp_path / "programs").iterdir()) == []


@pytest.mark.parametrize("version", ["latest", "^1", "1.0", "1.0.0 --registry=x", "file:/etc", "1.0.0-" + "x" * 99])
async def test_what_is_no_version_is_not_fetched(tmp_path: Path, version: str) -> None:
    with pytest.raises(Invalid) as invalid:
        await InstalledAgents(tmp_path).install("goose", silent, version)
    assert invalid.value.fields[0].field == "version"


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_agent_that_is_not_installed_says_what_to_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunnerMissing, match=f"holdfast agents install {name}"):
        KnownRunners(InstalledAgents(tmp_path)).get(name)


def test_one_whose_files_are_gone_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "goose.json").write_text('{"version": "1.50.0", "integrity": "sha256-gone"}')
    with pytest.raises(RunnerMissing, match="holdfast agents install goose"):
        KnownRunners(InstalledAgents(tmp_path)).get("goose")


async def test_one_without_a_program_for_this_machine_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "npm-abc"
    (place / "node_modules").mkdir(parents=True)
    record = {
        "ecosystem": "npm",
        "name": "x",
        "version": "1.50.0",
        "integrity": "sha256-abc",
        "pins": {},
        "command": [],
    }
    (place / "holdfast-package.json").write_text(json.dumps(record))
    (tmp_path / "goose.json").write_text(json.dumps(record))
    with pytest.raises(InstallFailed, match="has no program for this machine"):
        InstalledAgents(tmp_path).find("goose")


def _put(programs: Path, version: str) -> RunnerPin:
    """An installed goose whose program says its version."""
    marked = f"sha256-{version.replace('.', '')}"
    place = programs / f"npm-{marked.removeprefix('sha256-')}"
    for pattern in PUBLISHED["goose"].programs:
        for cpu in ("x64", "arm64"):
            machine = {"x64": "x86_64", "arm64": "aarch64"}[cpu]
            program = place / "node_modules" / pattern.format(cpu=cpu, machine=machine, libc="", fast="")
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f"#!/bin/sh\necho {version}\n")
            program.chmod(0o755)
    package = {"ecosystem": "npm", "name": PUBLISHED["goose"].package, "version": version, "integrity": marked}
    (place / "holdfast-package.json").write_text(json.dumps({**package, "pins": {}, "command": []}))
    (programs / "goose.json").write_text(json.dumps({"version": version, "integrity": marked}))
    return RunnerPin(PUBLISHED["goose"].package, version, marked)


def test_a_session_is_driven_as_it_was_pinned_also_after_a_newer_one_was_installed(tmp_path: Path) -> None:
    runners = KnownRunners(InstalledAgents(tmp_path))
    first = _put(tmp_path, "1.50.0")
    pin = runners.pin("goose")
    assert pin == first
    newer = _put(tmp_path, "1.51.0")
    assert runners.pin("goose") == newer

    def runs(pin: RunnerPin | None) -> str:
        plan = runners.get("goose", pin=pin).plan(ASSIGNMENT)
        (shown,) = (each for each in plan.mounts if each.target == PLACE)
        program = shown.source / Path(plan.command[0]).relative_to(PLACE)
        return program.read_text().split()[-1]

    assert (runs(pin), runs(None)) == ("1.50.0", "1.51.0")
    shutil.rmtree(next(tmp_path.glob("npm-*1500")))
    with pytest.raises(RunnerMissing, match="holdfast agents install goose"):
        runners.get("goose", pin=pin)


def test_the_runners_of_the_machine_are_always_there_and_others_are_unknown(tmp_path: Path) -> None:
    runners = KnownRunners(InstalledAgents(tmp_path))
    assert runners.get("builtin").name == "builtin"
    assert runners.get("command", ("acp", "/usr/bin/agent")).name == "command"
    assert runners.programs == tmp_path and PLACE.endswith("/node_modules")
    with pytest.raises(Invalid, match=", ".join(NAMES)) as invalid:
        runners.get("gemini")
    assert invalid.value.fields[0].field == "runner"
