"""An agent that wants out of a session's pod: the attacks that a sandbox of this machine stands, on a real node."""

import asyncio
import json
import re
import time
from pathlib import Path

import pytest

from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import Mounted, RunLimits, RunSpec
from holdfast.engines.runtime.kubernetes.building import kubernetes_runtime
from tests.kubernetes.node.conftest import PATIENCE_SECONDS, SETTINGS, kubectl, session_pods, until_no_session_pod
from tests.support.sandbox.outside import places_outside
from tests.support.sandbox.programs import HERE

CAPTIVE = HERE.parent / "agents" / "captive.py"
ATTACKS = [
    name
    for file in (HERE / "attacker.py", CAPTIVE)
    for name in re.findall(r"^@(?:attacker\.)?attack\ndef (\w+)", file.read_text(), re.MULTILINE)
]
MARK = "a-child-that-stays-behind-in-a-pod"
BY_DESIGN = {
    # The first process of a container is our bridge: it runs as its program does and is no boundary.
    "read_the_first_process": r"(/proc/1/\w+(/\w+)*,?)+",
    "follow_links_out_of_the_worktree": r"/proc/1/environ: b'PATH=[^ ]*HOME=/\\x00'",
    # The runtime shows a read-only one, whose dangerous parts it hides.
    "read_files": "/sys",
}
LIMITS = RunLimits(memory_bytes=512 << 20, processes=64, file_bytes=8 << 20)


@pytest.mark.contract("XA-11")
async def test_every_attack_from_inside_a_pod_gets_nothing(tmp_path: Path) -> None:
    home, work, sockets, outside = (tmp_path / each for each in ("home", "work", "sockets", "outside"))
    for each in (home, work, sockets, outside):
        each.mkdir()
    for file in (HERE / "attacker.py", CAPTIVE):
        (work / file.name).write_bytes(file.read_bytes())
    server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), sockets / "harbour.sock")
    runtime = kubernetes_runtime(Settings(**SETTINGS))
    with places_outside(outside) as places:
        places |= {
            "others": [str(home), str(sockets / "harbour.sock")],
            "host": "192.0.2.7",
            "processes": LIMITS.processes,
            "file_bytes": LIMITS.file_bytes,
            "shown": {"/home": ["agent"]},
            "run_x1": ["box", "mcp"],
            "mark": MARK,
        }
        spec = RunSpec(
            name="captive",
            command=("/usr/bin/env", "python3", "-I", "/work/captive.py"),
            env={"PLACES": json.dumps(places), "HOME": "/home/agent"},
            mounts=(
                Mounted(home, "/home/agent", writable=True),
                Mounted(work, "/work", writable=True),
                Mounted(sockets, "/run/x1/mcp"),
            ),
            limits=LIMITS,
            role="agent",
            tenant="captives",
            group="ses_captive",
        )
        try:
            run = await runtime.start(spec)
            run.stdin.write(b'{"type": "start"}\n')
            ended: dict[str, str] = {}
            done: set[str] = set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (told := json.loads(await run.stdout.readline() or b'{"type": "over"}'))["type"] not in (
                    "turn_over",
                    "over",
                ):
                    if told["type"] == "tool_ended":
                        done.add(told["call_id"])
                        if told["ok"]:
                            ended[told["call_id"]] = told["text"]
            assert done == set(ATTACKS) and len(ATTACKS) > 50, (set(ATTACKS) - done, run.stderr_tail())
            got = {name: text for name, text in ended.items() if not re.fullmatch(BY_DESIGN.get(name, "-"), text)}
            assert got == {}
            (pod,) = session_pods()
            listed = ("exec", "-n", "holdfast-captives", pod["metadata"]["name"], "-c", "agent", "--", "ps")
            deadline = time.monotonic() + PATIENCE_SECONDS
            while MARK not in kubectl(*listed):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.2)
            # Its child lives in a session of its own, and has no parent; it goes with the run all the same.
            await run.stop(0)
            assert MARK not in kubectl(*listed)
        finally:
            await runtime.close()
            server.close()
    await until_no_session_pod()
