"""Owns the proof that programs run as pods: streams, files, secrets, ends, and what of it is left."""

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.engines.runtime.base import Mounted, RunLimits
from holdfast.engines.runtime.kubernetes.runtime import KubernetesRuntime
from tests.engines.runtime.kubernetes.conftest import needs_root, runtime_of, said, spec
from tests.fakes.kubernetes.cluster import FakeCluster

pytestmark = [pytest.mark.slow, pytest.mark.contract("XA-6")]


@pytest.fixture(autouse=True)
def root() -> None:
    needs_root()


async def until_no_pod(fake: FakeCluster) -> None:
    async with asyncio.timeout(20):
        while fake.pods:
            await asyncio.sleep(0.02)


async def test_a_program_reads_writes_and_ends_with_its_files_brought_back(
    fake: FakeCluster, runtime: KubernetesRuntime, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    (work / "inner").mkdir(parents=True)
    (work / "inner" / "given").write_text("given\n")
    (work / "link").symlink_to("/etc/passwd")
    script = (
        "cat inner/given; read line; echo got $line; echo made > inner/made; mkdir d; chmod 0 d; echo err >&2; exit 3"
    )
    run = await runtime.start(spec(script, mounts=(Mounted(work, "/work", writable=True),)))
    run.stdin.write(b"a line\n")
    assert await said(run) == "given\ngot a line\n"
    ending = await run.wait()
    assert (ending.how, ending.code, run.stderr_tail()) == ("exited", 3, "err")
    await run.stop()
    assert (work / "inner" / "made").read_text() == "made\n"
    assert (work / "link").is_symlink() and (work / "d").is_dir()
    await until_no_pod(fake)


async def test_what_it_prints_is_read_after_its_input_was_closed(runtime: KubernetesRuntime) -> None:
    run = await runtime.start(spec("cat; sleep 0.2; echo after"))
    run.stdin.write(b"given\n")
    run.stdin.close()
    assert await said(run) == "given\nafter\n"
    assert (await run.wait()).code == 0
    await run.stop()


async def test_secrets_are_referred_to_and_go_with_the_pod(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    given = spec('echo "$TOKEN $PLAIN"', env={"TOKEN": "canary-1", "PLAIN": "p"}, secrets=frozenset({"canary-1"}))
    run = await runtime.start(given)
    (pod,) = fake.pods
    assert "canary-1" not in json.dumps(pod)
    assert await said(run) == "canary-1 p\n"
    await run.stop()
    await until_no_pod(fake)
    assert [key for key in fake.objects if key[0] == "secrets"] == []


async def test_a_run_goes_on_over_a_connection_that_breaks(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    run = await runtime.start(spec("while read line; do echo $line; done"))
    for number in range(5):
        run.stdin.write(f"{number}\n".encode())
        assert await run.stdout.readline() == f"{number}\n".encode()
        await fake.drop_streams()
    run.stdin.close()
    assert (await run.wait()).code == 0
    await run.stop()


@pytest.mark.parametrize(
    "refusal",
    [
        (401, "Unauthorized", "Unauthorized"),
        (403, "Forbidden", 'pods "x" is forbidden: User "holdfast" cannot create resource "pods/exec"'),
        (404, "", "unable to upgrade connection: pod does not exist"),
        (404, "NotFound", 'nodes "hf-node" not found'),
        (500, "InternalError", "error dialing backend: dial tcp: connection refused"),
    ],
)
async def test_a_run_goes_on_although_a_cluster_that_was_killed_refuses_it_for_a_moment(
    fake: FakeCluster, runtime: KubernetesRuntime, refusal: tuple[int, str, str]
) -> None:
    run = await runtime.start(spec("while read line; do echo $line; done"))
    run.stdin.write(b"before\n")
    assert await run.stdout.readline() == b"before\n"
    refusals = iter([refusal] * 3)
    fake.refuse = lambda method, path: next(refusals, None)
    await fake.drop_streams(killed=True)
    run.stdin.write(b"after\n")
    async with asyncio.timeout(20):
        assert await run.stdout.readline() == b"after\n"
    run.stdin.close()
    assert (await run.wait()).code == 0
    await run.stop()


async def test_a_megabyte_goes_both_ways_while_connections_break(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    run = await runtime.start(spec("cat"))
    data = bytes(range(256)) * 16_384

    async def give() -> None:
        for at in range(0, len(data), 65_536):
            run.stdin.write(data[at : at + 65_536])
            await run.stdin.drain()
        run.stdin.write_eof()

    async def disturb() -> None:
        for _ in range(4):
            await asyncio.sleep(0.05)
            await fake.drop_streams()

    giving, disturbing = asyncio.create_task(give()), asyncio.create_task(disturb())
    found = b""
    async with asyncio.timeout(60):
        while piece := await run.stdout.read(65_536):
            found += piece
    await asyncio.gather(giving, disturbing)
    assert found == data
    await run.stop()


async def test_limits_end_a_run_and_are_named(runtime: KubernetesRuntime) -> None:
    run = await runtime.start(spec("sleep 600", limits=RunLimits(seconds=0.5)))
    assert (await run.wait()).how == "time"
    await run.stop()
    run = await runtime.start(spec("cat /dev/zero", limits=RunLimits(output_bytes=100_000)))
    assert (await run.wait()).how == "output"
    await run.stop()


async def test_whatever_a_program_left_running_is_ended_with_it(runtime: KubernetesRuntime) -> None:
    run = await runtime.start(spec("setsid sh -c 'sleep 600' & echo there; sleep 600"))
    assert await run.stdout.readline() == b"there\n"
    ending = await run.stop(0)
    assert ending.how == "stopped"


async def test_what_an_earlier_process_left_is_stopped_and_brought_back(fake: FakeCluster, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    mounts = (Mounted(work, "/work", writable=True),)
    given = spec("echo begun; echo far > made; sleep 600", mounts=mounts, group="ses_1", role="agent")
    first, second = runtime_of(fake), runtime_of(fake)
    try:
        run = await first.start(given)
        assert await run.stdout.readline() == b"begun\n"
        assert await second.recover(given)
        assert (work / "made").read_text() == "far\n"
        ending = await run.wait()
        assert "Another process of Holdfast" in ending.said or ending.how == "lost", ending
        assert fake.pods == []
    finally:
        await first.close()
        await second.close()


async def test_a_group_runs_in_one_pod_and_only_once(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    server = spec("while read line; do echo demo $line; done", name="demo", role="server", group="ses_2")
    agent = spec("sleep 600", group="ses_2", role="agent", companions=(server,))
    waiting = asyncio.create_task(runtime.start(server))
    run = await runtime.start(agent)
    beside = await waiting
    beside.stdin.write(b"x\n")
    assert await beside.stdout.readline() == b"demo x\n"
    (pod,) = fake.pods
    assert pod["metadata"]["name"] == "ses-2"
    assert sorted(each["name"] for each in pod["spec"]["containers"]) == ["agent", "mcp-demo"]
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["sidecar"]
    await beside.stop(0)
    await run.stop(0)
    # The pod stays until nobody needs it any more.
    later = await runtime.start(spec("echo later", group="ses_2"))
    assert await said(later) == "later\n"
    assert len(fake.pods) == 1
    await runtime.release("ses_2")
    await until_no_pod(fake)


async def test_no_more_than_fourteen_requests_for_a_group(fake: FakeCluster, runtime: KubernetesRuntime) -> None:
    await runtime.check()
    run = await runtime.start(
        spec("true", group="ses_3", role="agent", env={"A": "secret-1"}, secrets=frozenset({"secret-1"}))
    )
    before = fake.asked.total()
    await run.wait()
    await run.stop()
    await runtime.release("ses_3")
    await until_no_pod(fake)
    assert fake.asked.total() < 15, fake.asked
    assert fake.asked.total() >= before


async def test_a_foreign_image_needs_a_name_that_a_cluster_can_fetch(
    runtime: KubernetesRuntime, tmp_path: Path
) -> None:
    with pytest.raises(HoldfastError, match="a cluster fetches images by name"):
        await runtime.start(spec("true", root=tmp_path))


async def test_a_directory_that_hides_our_own_programs_in_the_image_is_refused(
    fake: FakeCluster, runtime: KubernetesRuntime, tmp_path: Path
) -> None:
    for target in ("/opt", "/opt/holdfast/", "/opt/holdfast/inside"):
        with pytest.raises(HoldfastError, match=r"/opt.* is the image's own"):
            await runtime.start(spec("true", mounts=(Mounted(tmp_path, target),)))
    assert fake.pods == []
