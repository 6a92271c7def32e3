"""Servers that are packages: recognised in a command, installed and pinned once, run without a network."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest
import uvloop

from holdfast.core.errors import Invalid
from holdfast.engines.mcp_client.stdio import open_stdio
from holdfast.engines.runtime import packages
from holdfast.engines.runtime.base import RunSpec
from holdfast.engines.runtime.packages import InstallerMissing, InstallFailed, PackageCommand, Packages, read_command
from holdfast.engines.runtime.process import ProcessRuntime


async def silent(text: str) -> None:
    return


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("npx -y @scope/pkg@1.2.3 --port 1", PackageCommand("npm", "@scope/pkg", "1.2.3", None, ("--port", "1"))),
        ("npx pkg", PackageCommand("npm", "pkg", None, None, ())),
        ("npx -y pkg@latest -- -v", PackageCommand("npm", "pkg", None, None, ("-v",))),
        ("npx --yes --package=@s/pkg@2 tool a", PackageCommand("npm", "@s/pkg", "2", "tool", ("a",))),
        ("npx -p pkg tool", PackageCommand("npm", "pkg", None, "tool", ())),
        ("/usr/local/bin/npx -y pkg", PackageCommand("npm", "pkg", None, None, ())),
        ("npm exec -y pkg -- x", PackageCommand("npm", "pkg", None, None, ("x",))),
        ("bunx pkg", PackageCommand("npm", "pkg", None, None, ())),
        ("uvx mcp-server-git --repo /x", PackageCommand("pypi", "mcp-server-git", None, None, ("--repo", "/x"))),
        ("uvx pkg@1.2", PackageCommand("pypi", "pkg", "1.2", None, ())),
        ("uvx pkg==1.2", PackageCommand("pypi", "pkg", "1.2", None, ())),
        ("uvx --from pkg[cli]>=1,<2 tool a", PackageCommand("pypi", "pkg", ">=1,<2", "tool", ("a",), "[cli]")),
        ("uv tool run --python 3.12 pkg", PackageCommand("pypi", "pkg", None, None, ())),
        ("pipx run pkg", PackageCommand("pypi", "pkg", None, None, ())),
        ("node server.js", None),
        ("python -m server", None),
        ("uv run server.py", None),
        ("npm start", None),
        ("docker run x", None),
    ],
)
def test_commands_that_would_download_are_recognised(command: str, expected: PackageCommand | None) -> None:
    program, *args = command.split()
    assert read_command(program, args) == expected


@pytest.mark.parametrize(
    "command",
    [
        "npx",
        "npx -y",
        "npx --registry=https://evil.example pkg",
        "npx -y https://evil.example/pkg.tgz",
        "npx -y git+ssh://evil.example/pkg",
        "npx -y ../pkg",
        "npx -y pkg@file:/etc",
        "npx -c whoami",
        "uvx",
        "uvx --index-url https://evil.example pkg",
        "uvx git+https://evil.example/pkg",
        "uvx --with evil pkg",
        "uvx ./pkg",
        "uvx --from pkg",
    ],
)
def test_what_does_not_name_one_package_of_the_registry_is_refused(command: str) -> None:
    program, *args = command.split()
    with pytest.raises(Invalid) as refused:
        read_command(program, args)
    assert refused.value.fields[0].field == "args"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "tool"),
    [
        ("npx -y @modelcontextprotocol/server-sequential-thinking@2026.8.31", "sequentialthinking"),
        # Names no upper bound for `mcp`, and does not start with its second version.
        ("uvx mcp-server-sqlite==2025.4.25 --db-path /work/tables.db", "read_query"),
        ("uvx mcp-server-time==2026.10.19 --local-timezone=UTC", "get_current_time"),
    ],
)
async def test_a_package_is_installed_pinned_and_runs_without_a_network(
    tmp_path: Path, command: str, tool: str
) -> None:
    program, *args = command.split()
    wanted = read_command(program, args)
    assert wanted is not None
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)

    installed = await Packages(tmp_path / "packages").install(wanted, tell)
    assert installed.version == wanted.version and told[0].startswith("Installing ") and "Installed" in told[-1]
    assert installed.integrity.startswith("sha256-") and all(installed.pins.values())
    again = Packages(tmp_path / "packages").find(installed.ecosystem, installed.integrity)
    assert again == installed
    assert not list(tmp_path.rglob("making-*"))
    runtime = ProcessRuntime()
    connection = await open_stdio(runtime, RunSpec("package", installed.command, mounts=installed.mounts))
    assert tool in [each.name for each in (await connection.describe()).tools]
    await connection.close()
    await runtime.close()
    await Packages(tmp_path / "packages").remove(installed)
    assert list((tmp_path / "packages").iterdir()) == []


@pytest.mark.slow
async def test_no_script_of_a_package_runs_when_it_is_installed(tmp_path: Path) -> None:
    """A package of our own, named by its path, which the command line can't do."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    source = tmp_path / "source"
    source.mkdir()
    mark = tmp_path / "ran"
    (source / "package.json").write_text(
        f'{{"name": "evil", "version": "1.0.0", "bin": "x.js", "scripts": {{"install": "touch {mark}", '
        f'"postinstall": "touch {mark}", "prepare": "touch {mark}"}}}}'
    )
    (source / "x.js").write_text("")
    wanted = PackageCommand("npm", "evil", f"file:{source}", None, ())
    await Packages(tmp_path / "packages").install(wanted, silent)
    assert not mark.exists()


@pytest.mark.slow
async def test_a_package_that_is_not_there_fails_with_what_the_installer_said(tmp_path: Path) -> None:
    for wanted in (
        PackageCommand("npm", "@holdfast-tests/no-such-package", "9.9.9", None, ()),
        PackageCommand("pypi", "holdfast-tests-no-such-package", None, None, ()),
    ):
        with pytest.raises(InstallFailed, match=r"could not be installed: .*no-such-package"):
            await Packages(tmp_path / "packages").install(wanted, silent)
    assert list((tmp_path / "packages").iterdir()) == []


@pytest.mark.slow
async def test_pip_serves_where_uv_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "uv" else real(name))
    monkeypatch.setattr(packages, "_beside", lambda name: None)
    wanted = read_command("uvx", ["--from", "idna==3.10", "idna"])
    assert wanted is not None
    with pytest.raises(InstallFailed, match="no program to run by that name; it has: none"):
        await Packages(tmp_path / "packages").install(wanted, silent)


async def test_without_npm_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InstallerMissing, match="apt-get install nodejs npm"):
        await Packages(tmp_path / "packages").install(PackageCommand("npm", "x", None, None, ()), silent)


NPM = """#!/bin/sh
umask
mkdir -p node_modules/pkg
echo '{"name": "pkg", "version": "1.0.0", "bin": "run.js"}' > node_modules/pkg/package.json
echo '{"packages": {"node_modules/pkg": {"version": "1.0.0", "integrity": "sha512-x"}}}' > package-lock.json
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_what_is_installed_is_read_by_the_programs_own_user_on_either_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    """The server makes files for itself alone; whoever runs a package is another user."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    said: list[str] = []

    async def tell(text: str) -> None:
        said.append(text)

    before = os.umask(0o077)
    try:
        install = Packages(tmp_path / "packages").install(PackageCommand("npm", "pkg", None, None, ()), tell)
        made = uvloop.run(install) if loop == "uvloop" else asyncio.run(install)
    finally:
        os.umask(before)
    assert "0022" in said and os.umask(before) == before
    for path in (made.directory, *made.directory.joinpath("node_modules").rglob("*")):
        assert path.stat().st_mode & 0o044 == 0o044, path
