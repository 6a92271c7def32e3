"""How much a sandboxed program may use: memory of the whole tree, processes, time, output, files. Node and Python."""

import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.engines.runtime.base import Mounted, RunEnding, RunLimits, RunSpec
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import PYTHON, interpreter, printed, shell

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20
EATERS = {
    "python": "import os\nheld = []\nwhile True: held.append(os.urandom(1 << 20))",
    "python, in children": (
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        held = os.urandom(40 << 20)\n"
        "        time.sleep(600)\ntime.sleep(600)"
    ),
    "python, in one piece": "held = bytearray(1 << 36)",
    "python, from threads": (
        "import os, threading, time\ndef eat():\n    if os.fork() == 0:\n        held = os.urandom(300 << 20)\n"
        "        time.sleep(600)\nfor _ in range(2): threading.Thread(target=eat).start()\ntime.sleep(600)"
    ),
}
NODE_EATER = "const held = []; for (;;) held.push(Buffer.alloc(1 << 20, 1))"
NODE_HEAP = "const held = []; for (let i = 0; ; i++) held.push({ i, text: 'x'.repeat(100) + i })"


@pytest.fixture
async def runtime() -> AsyncIterator[ProcessRuntime]:
    runtime = ProcessRuntime()
    yield runtime
    await runtime.close()


async def ending(runtime: ProcessRuntime, spec: RunSpec) -> RunEnding:
    running = await runtime.start(spec)
    running.stdin.close()
    return await running.wait()


def python(code: str, limits: RunLimits) -> RunSpec:
    return RunSpec("python", (PYTHON, "-I", "-c", code), mounts=interpreter(), limits=limits)


@pytest.mark.parametrize("eater", [name for name in EATERS if name != "python, in one piece"])
async def test_a_tree_that_uses_too_much_memory_is_stopped(runtime: ProcessRuntime, eater: str) -> None:
    ended = await ending(runtime, python(EATERS[eater], RunLimits(memory_bytes=256 * MEGABYTE)))
    assert (ended.how, ended.code) == ("memory", None)
    assert ended.said == "It was stopped because it used more than 256 MiB of memory."


async def test_one_huge_piece_of_memory_is_not_even_given(runtime: ProcessRuntime) -> None:
    ended = await ending(runtime, python(EATERS["python, in one piece"], RunLimits(memory_bytes=256 * MEGABYTE)))
    assert (ended.how, ended.code) == ("exited", 1)


@pytest.mark.parametrize("code", [NODE_EATER, NODE_HEAP], ids=["buffers", "heap"])
async def test_node_is_stopped_at_the_limit_and_starts_below_it(runtime: ProcessRuntime, code: str) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    limits = RunLimits(memory_bytes=256 * MEGABYTE)
    ended = await ending(runtime, RunSpec("node", ("node", "-e", code), limits=limits))
    assert ended.how == "memory"
    # The web client that comes with Node is WebAssembly, which reserves gigabytes of addresses.
    small = "fetch('http://127.0.0.1:1/').catch(() => console.log('alive'))"
    assert "alive" in await printed(runtime, RunSpec("node", ("node", "-e", small), limits=limits))


async def test_memory_that_is_shared_counts_once(runtime: ProcessRuntime) -> None:
    code = (
        "import os, time\nheld = bytearray(os.urandom(1 << 20) * 100)\n"
        "for _ in range(6):\n    if os.fork() == 0: time.sleep(1); os._exit(0)\n"
        "for _ in range(6): os.wait()\nprint('done')"
    )
    ended = await ending(runtime, python(code, RunLimits(memory_bytes=256 * MEGABYTE)))
    assert (ended.how, ended.code) == ("exited", 0)


async def test_a_fork_bomb_stays_below_its_number_of_processes(runtime: ProcessRuntime) -> None:
    limits = RunLimits(processes=32, seconds=20)
    code = (
        "import os, time\ncount = 0\n"
        "try:\n    while True:\n        if os.fork() == 0: time.sleep(600)\n        count += 1\n"
        "except BlockingIOError:\n    print(count)"
    )
    running = await runtime.start(python(code, limits))
    made = int(await running.stdout.readline())
    assert 10 < made < 32
    other = await printed(runtime, shell("echo unharmed"))
    assert other == "unharmed\n"


async def test_time_is_up(runtime: ProcessRuntime) -> None:
    ended = await ending(runtime, shell("sleep 600", limits=RunLimits(seconds=0.2)))
    assert (ended.how, ended.code, ended.said) == (
        "time",
        None,
        "It was stopped because it ran for more than 0.2 seconds.",
    )


@pytest.mark.parametrize("stream", ["1", "2"])
async def test_who_prints_too_much_is_stopped(runtime: ProcessRuntime, stream: str) -> None:
    running = await runtime.start(shell(f"yes >&{stream}", limits=RunLimits(output_bytes=100_000)))
    read = await running.stdout.read()
    ended = await running.wait()
    assert (ended.how, ended.said) == ("output", "It was stopped because it printed more than 100,000 bytes.")
    # What it prints until it is killed depends on how soon that comes on a busy machine; it is bounded all the same.
    assert len(read) < 64_000_000 and len(running.stderr_tail()) <= 16_384


async def test_a_file_has_a_largest_size(runtime: ProcessRuntime, tmp_path: Path) -> None:
    from holdfast.engines.runtime.base import Mounted

    tmp_path.chmod(0o755)
    spec = shell(
        "head -c 3000000 /dev/zero > /work/file; echo $?",
        limits=RunLimits(file_bytes=1_000_000),
        mounts=(Mounted(tmp_path, "/work", writable=True),),
    )
    await printed(runtime, spec)
    assert os.path.getsize(tmp_path / "file") == 1_000_000


async def test_the_last_words_are_kept_however_much_was_said_before(runtime: ProcessRuntime) -> None:
    running = await runtime.start(shell("yes nonsense | head -c 3000000 >&2; echo the end >&2; exit 4"))
    ended = await running.wait()
    assert (ended.how, ended.code, ended.said) == ("exited", 4, "It ended by itself with status 4.")
    assert running.stderr_tail().endswith("the end") and len(running.stderr_tail()) <= 16_384


async def test_files_that_were_removed_and_are_held_open_count(runtime: ProcessRuntime, tmp_path: Path) -> None:
    code = (
        "import os, time\nheld = []\nfor _ in range(12):\n"
        "    held.append(open('/work/f', 'wb', 0)); os.unlink('/work/f'); held[-1].write(bytes(1 << 20))\n"
        "time.sleep(600)"
    )
    spec = python(code, RunLimits(file_bytes=8 * MEGABYTE))
    ended = await ending(runtime, replace(spec, mounts=(*spec.mounts, Mounted(tmp_path, "/work", writable=True))))
    assert (ended.how, os.listdir(tmp_path)) == ("disk", [])
    assert "8 MiB" in ended.said


async def test_a_tree_that_has_the_processors_work_too_long_is_stopped(runtime: ProcessRuntime) -> None:
    # Each child works for a moment only; its parent tells what those together took.
    code = (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        until = time.process_time() + 0.1\n"
        "        while time.process_time() < until: pass\n        os._exit(0)\n    os.wait()"
    )
    ended = await ending(runtime, python(code, RunLimits(processor_seconds=0.5)))
    assert (ended.how, ended.said) == (
        "processor",
        "It was stopped because it used more than 0.5 seconds of processor time.",
    )
