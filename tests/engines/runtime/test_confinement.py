"""What a program in the sandbox can't do, each attempt made for real: as root's child, and as an ordinary user's."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from holdfast.core.errors import Invalid
from holdfast.engines.runtime.base import Mounted, RunLimits, RunSpec
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.outside import places_outside
from tests.support.sandbox.programs import HERE, printed, python_program, shell

pytestmark = pytest.mark.slow

ATTACKS = re.findall(r"^@attack\ndef (\w+)", (HERE / "attacker.py").read_text(), re.MULTILINE)
# Made outside of a sandbox these do no harm, and must succeed there: otherwise their failing inside says nothing.
POSSIBLE_OUTSIDE = (
    "see_other_processes",
    "read_environments",
    "find_secrets_in_the_memory_of_others",
    "read_the_first_process",
    "signal_others",
    "read_files",
    "connect_to_this_machine",
    "connect_to_an_abstract_socket",
    "connect_to_a_socket_file",
    "set_up_a_ring",
    "make_a_user_namespace",
    "read_memory_by_call",
    "inherit_descriptors",
    "gain_by_setuid_programs",
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with places_outside(tmp_path_factory.mktemp("outside")) as made:
        yield made


@pytest.fixture(scope="module")
def outcomes(places: dict[str, Any]) -> dict[str, str]:
    """What every attempt came to in a sandbox that may also reach one place."""

    async def run() -> dict[str, str]:
        runtime = ProcessRuntime()
        spec = python_program(HERE / "attacker.py", env={"PLACES": json.dumps(places)}, egress=("allowed.example:443",))
        found: dict[str, str] = json.loads(await printed(runtime, spec))
        await runtime.close()
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attack_gets_nothing(outcomes: dict[str, str], attack: str) -> None:
    assert outcomes[attack].startswith("refused"), outcomes[attack]


def test_the_same_attacks_succeed_outside_so_that_the_test_can_fail(places: dict[str, Any]) -> None:
    command = [sys.executable, str(HERE / "attacker.py"), *POSSIBLE_OUTSIDE]
    read, write = os.pipe()
    run = subprocess.run(command, env={"PLACES": json.dumps(places)}, capture_output=True, pass_fds=(write, read))
    os.close(read)
    os.close(write)
    found = json.loads(run.stdout)
    assert {name: outcome for name, outcome in found.items() if not outcome.startswith("got")} == {}


def test_an_ordinary_users_sandbox_holds_as_well(places: dict[str, Any]) -> None:
    command = _ordinary_user()
    script = f"""
import asyncio, json, sys
sys.path[:0] = {[path for path in (str(Path(__file__).parents[3]), *sys.path) if path]!r}
from holdfast.engines.runtime.process import ProcessRuntime
from holdfast.engines.runtime.base import Mounted, RunSpec
from pathlib import Path

async def main():
    runtime = ProcessRuntime()
    spec = RunSpec("x", ("/usr/bin/python3", "-I", "/opt/program.py"), env={{"PLACES": {json.dumps(places)!r}}},
                   mounts=(Mounted(Path({str(HERE / "attacker.py")!r}), "/opt/program.py"),),
                   egress=("allowed.example:443",))
    running = await runtime.start(spec)
    running.stdin.close()
    print((await running.stdout.read()).decode(), running.stderr_tail())
    await runtime.close()

asyncio.run(main())
"""
    run = subprocess.run([*command, "-c", script], capture_output=True, text=True, timeout=120, cwd="/")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found.keys() == set(ATTACKS)
    assert {name: outcome for name, outcome in found.items() if not outcome.startswith("refused")} == {}


def _ordinary_user() -> list[str]:
    """A Python as somebody who is not root, and who can read what it needs."""
    if os.geteuid() != 0:
        pytest.skip("the whole run is an ordinary user's already")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed")
    command = ["setpriv", "--reuid=4711", "--regid=4711", "--clear-groups", "/usr/bin/python3"]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    script = f"import sys; sys.path[:0] = {sys.path!r}; import holdfast; print('%d.%d' % sys.version_info[:2])"
    tried = subprocess.run([*command, "-c", script], capture_output=True, text=True, cwd="/")
    if tried.stdout.strip() != version:
        pytest.skip(f"no Python {version} is installed that an ordinary user can run")
    return command


async def test_a_program_sees_its_own_environment_and_nobody_sees_it_in_the_list_of_processes() -> None:
    runtime = ProcessRuntime()
    secret = "hunter2-7c1e"
    running = await runtime.start(shell("echo $TOKEN; read line; cat /proc/1/environ", env={"TOKEN": secret}))
    assert (await running.stdout.readline()).decode().strip() == secret
    listed = _everybodys_command_lines()
    assert b"echo $TOKEN" in listed and secret.encode() not in listed
    running.stdin.write(b"\n")
    running.stdin.close()
    assert (await running.stdout.read()) == b""
    await runtime.close()


def _everybodys_command_lines() -> bytes:
    found = b""
    for pid in os.listdir("/proc"):
        if pid.isdecimal():
            with suppress(OSError):
                found += Path(f"/proc/{pid}/cmdline").read_bytes()
    return found


async def test_two_programs_do_not_see_each_other(tmp_path: Path) -> None:
    runtime = ProcessRuntime()
    one = await runtime.start(shell("echo here > /work/mine; echo ready; read a_name_to_find"))
    await one.stdout.readline()
    assert b"a_name_to_find" in _everybodys_command_lines()
    seen = await printed(runtime, shell("ls /work; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
    assert "mine" not in seen and "a_name_to_find" not in seen
    await runtime.close()


async def test_mounts_show_exactly_what_was_given_writable_or_not(tmp_path: Path) -> None:
    runtime = ProcessRuntime()
    for name in ("given", "shown", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    mounts = (
        Mounted(tmp_path / "given", "/work", writable=True),
        Mounted(tmp_path / "shown", "/data/shown"),
        Mounted(tmp_path / "shown" / "file", "/data/one"),
    )
    script = (
        "cat file /data/shown/file /data/one; echo; echo new > made; ls /data; echo x > /data/shown/file || echo no"
    )
    seen = await printed(runtime, shell(script, mounts=mounts))
    assert seen.splitlines()[:4] == ["givenshownshown", "one", "shown", "no"]
    assert (tmp_path / "given" / "made").read_text() == "new\n"
    assert (tmp_path / "shown" / "file").read_text() == "shown"
    await runtime.close()


async def test_what_we_put_into_a_writable_directory_between_two_runs_can_be_read_there(tmp_path: Path) -> None:
    runtime = ProcessRuntime()
    for text in ("first", "second"):
        (tmp_path / text).write_text(text)
        (tmp_path / text).chmod(0o600)
        assert await printed(runtime, shell(f"cat {text}", mounts=(Mounted(tmp_path, "/work", writable=True),))) == text
    await runtime.close()


async def test_the_private_directory_is_empty_bounded_and_gone_afterwards() -> None:
    runtime = ProcessRuntime()
    limits = RunLimits(memory_bytes=256 << 20)
    script = "head -c 300000000 /dev/zero > /work/big 2>/dev/null; stat -c %s /work/big"
    assert int(await printed(runtime, shell(script, limits=limits))) == limits.memory_bytes // 2
    assert await printed(runtime, shell("ls -A /work /tmp /dev/shm")) == "/dev/shm:\n\n/tmp:\n\n/work:\n"
    await runtime.close()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (RunSpec("x", ()), "command"),
        (RunSpec("x", ("no-such-program",)), "command"),
        (RunSpec("x", ("/work/program",)), "command"),
        (RunSpec("x", ("sh",), env={"A=B": "x"}), "env.A=B"),
        (RunSpec("x", ("sh",), mounts=(Mounted(Path("/no/such"), "/x"),)), "mounts"),
        (RunSpec("x", ("sh",), mounts=(Mounted(Path("/usr"), "/proc"),)), "mounts"),
        (RunSpec("x", ("sh",), mounts=(Mounted(Path("/usr"), "../x"),)), "mounts"),
        (RunSpec("x", ("sh",), root=Path("/no/such")), "root"),
        (RunSpec("x", ("sh",), directory="work"), "directory"),
        (RunSpec("x", ("sh",), egress=("example.com",)), "egress[0]"),
        (RunSpec("x", ("sh",), egress=("*.example.com:443",)), "egress[0]"),
    ],
)
async def test_a_spec_that_names_what_is_not_there_says_which_field(spec: RunSpec, field: str) -> None:
    runtime = ProcessRuntime()
    with pytest.raises(Invalid) as invalid:
        await runtime.start(spec)
    assert invalid.value.fields[0].field == field
    await runtime.close()


def test_a_program_inherits_no_descriptor_on_the_loop_that_the_server_runs_on() -> None:
    """uvloop closes nothing of ours in its children; whoever starts the server may leave it some that are passed on."""

    async def inherited() -> list[str]:
        runtime = ProcessRuntime()
        spec = python_program(HERE / "attacker.py", "inherit_descriptors")
        try:
            return await asyncio.gather(*(printed(runtime, spec) for _ in range(3)))
        finally:
            await runtime.close()

    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    try:
        said = uvloop.run(inherited())
    finally:
        os.close(ours)
        os.close(theirs)
    assert [json.loads(each) for each in said] == [{"inherit_descriptors": "refused: nothing there"}] * 3
