"""Owns the proof that our runner shows what a command does, in the real sandbox, and is beaten by none."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Forbidden, Invalid
from holdfast.features.cases.proofs import running, store
from holdfast.features.cases.service import NotProven
from holdfast.storage.database import Tx
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.cases import ProofStage, proving, seen_to_pass

pytestmark = pytest.mark.slow
REPORT = """\
import sys
from calc import add
ok = add(1, 2) == 3
case = "" if ok else "<failure/>"
open("report.xml", "w").write(
    f'<testsuite><testcase classname="tests.test_calc" name="test_sum">{case}</testcase>'
    '<testcase classname="tests.test_calc" name="test_idle"><skipped/></testcase></testsuite>'
)
sys.exit(not ok)
"""
WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, clock: MovableClock, tmp_path: Path) -> AsyncIterator[ProofStage]:
    async with proving(sqlite_database, clock, tmp_path) as stage:
        yield stage


@pytest.mark.contract("ZE-5")
async def test_a_task_is_done_once_our_runner_saw_each_criterion_pass_at_the_head(at: ProofStage) -> None:
    at.commit(calc_py=RIGHT, check_py=REPORT)
    await at.known()
    case = await at.case(criteria=("It adds",))
    await at.stage.move(case.id, "PLANNING", "IMPLEMENTING", "VERIFYING")
    added = await at.stage.prove(
        case.id, criteria=("c1",), command="python3 check.py", tests=("test_sum",), report="report.xml"
    )
    with pytest.raises(NotProven):
        await at.stage.move(case.id, "DONE")
    proof = await at.proven(added)
    (run,) = proof.runs
    assert (proof.verdict, run.outcome, run.exit_code, run.commit) == ("passed", "passed", 0, at.repo.head)
    assert [(test.name, test.outcome) for test in run.tests] == [("test_sum", "passed")]
    assert run.environment["sandbox"] == "ProcessRuntime"
    assert (await at.stage.move(case.id, "DONE", by=at.stage.agent)).state == "DONE"


@pytest.mark.contract("ZE-5")
async def test_a_bugs_reproduction_has_to_fail_at_the_base_and_pass_at_the_head(at: ProofStage) -> None:
    base = at.commit(calc_py=WRONG, check_py=REPORT)
    head = at.commit(calc_py=RIGHT)
    await at.known()
    case = await at.case(kind="bug", base_commit=base, head_commit=head)
    await at.stage.move(case.id, "REPRODUCING", "PLANNING", "IMPLEMENTING", "VERIFYING")
    named: dict[str, Any] = {"tests": ("tests.test_calc::test_sum",), "report": "report.xml", "is_reproduction": True}
    proof = await at.proven(await at.stage.prove(case.id, command="python3 check.py", **named))
    assert {(run.side, run.outcome) for run in proof.runs} == {("head", "passed"), ("base", "failed")}
    assert proof.verdict == "passed"
    await at.stage.move(case.id, "DONE")
    swapped = await at.case(kind="bug", base_commit=head, head_commit=base)
    await at.stage.move(swapped.id, "REPRODUCING", "PLANNING", "IMPLEMENTING", "VERIFYING")
    proof = await at.proven(await at.stage.prove(swapped.id, command="python3 check.py", **named))
    assert proof.verdict == "failed"
    with pytest.raises(NotProven, match="fail at the base commit and pass at the head"):
        await at.stage.move(swapped.id, "DONE")


async def test_what_passes_at_the_base_too_reproduces_nothing(at: ProofStage) -> None:
    base = at.commit(calc_py=WRONG)
    at.commit(calc_py=RIGHT)
    await at.known()
    case = await at.case(kind="bug", base_commit=base)
    proof = await at.proven(await at.stage.prove(case.id, command="true", is_reproduction=True))
    assert proof.verdict == "not_reproduced"
    # A test that does not exist at the base fails there for another reason than the bug.
    named: dict[str, Any] = {"tests": ("test_sum",), "report": "report.xml", "is_reproduction": True}
    command = "test -f new.py || exit 3; python3 new.py"
    at.commit(new_py=REPORT)
    await at.known()
    proof = await at.proven(await at.stage.prove(case.id, command=command, **named))
    assert {(run.side, run.outcome) for run in proof.runs} == {("head", "passed"), ("base", "error")}
    assert proof.verdict == "error"


async def test_a_bug_is_not_mended_where_base_and_head_are_one_commit(at: ProofStage) -> None:
    head = at.commit(calc_py=RIGHT)
    await at.known()
    case = await at.case(kind="bug", base_commit=head)
    proof, run = seen_to_pass(case, head)
    proof = replace(proof, criteria=(), is_reproduction=True)

    def lucky(tx: Tx) -> None:
        store.add(tx, proof)
        store.put_run(tx, run)
        store.put_run(tx, replace(run, id="prun_2", side="base", outcome="failed"))

    await at.stage.services.database.write(lucky)
    seen = await at.stage.proofs.get(at.stage.ada, at.stage.workspace, proof.id)
    assert seen.verdict == "error" and "the same commit" in seen.why
    await at.stage.move(case.id, "REPRODUCING", "PLANNING", "IMPLEMENTING", "VERIFYING")
    with pytest.raises(NotProven, match=r"the same commit.*[^.]\.$"):
        await at.stage.move(case.id, "DONE")


async def test_a_new_head_makes_a_proof_stale_and_it_is_run_anew(at: ProofStage) -> None:
    first = at.commit(calc_py=RIGHT, check_py=REPORT)
    second = at.commit(calc_py=WRONG)
    await at.known()
    case = await at.case(head_commit=first)
    proof = await at.proven(await at.stage.prove(case.id, command="python3 check.py"))
    assert proof.verdict == "passed"
    await at.stage.cases.edit(at.stage.ada, at.stage.workspace, case.id, {"head_commit": second})
    anew = await at.proven(proof)
    assert (anew.verdict, anew.runs[0].commit) == ("failed", second)
    await at.stage.cases.edit(at.stage.ada, at.stage.workspace, case.id, {"head_commit": first})
    assert (await at.proven(proof)).verdict == "passed"


async def test_both_outcomes_at_one_commit_are_flaky_and_no_pass(at: ProofStage) -> None:
    at.commit(calc_py=RIGHT)
    await at.known()
    case = await at.case()
    # What differs from run to run outside of the checkout: the prepared environment.
    (at.repo.path.parent / "luck").mkdir()
    await at.stage.proofs.register(at.stage.ada, at.stage.workspace, "luck", str(at.repo.path.parent / "luck"))
    command = 'test -f "$PROOF_ENVIRONMENT/good"'
    proof = await at.proven(await at.stage.prove(case.id, command=command, environment="luck"))
    assert proof.verdict == "failed"
    (at.repo.path.parent / "luck" / "good").touch()
    proof = await at.stage.proofs.run(at.stage.agent, at.stage.workspace, proof.proof.id)
    proof = await at.proven(proof)
    assert proof.verdict == "flaky"
    assert proof.runs[0].environment["digest"] != proof.runs[1].environment["digest"]


async def test_proofs_see_the_environment_that_their_repository_declares(at: ProofStage) -> None:
    at.commit(calc_py=RIGHT)
    await at.known()
    case = await at.case()
    stage, tools = at.stage, at.repo.path.parent / "tools"
    tools.mkdir()
    (tools / "there").touch()
    await stage.proofs.register(stage.ada, stage.workspace, "tools", str(tools))
    command = 'test -f "$PROOF_ENVIRONMENT/there"'
    proof = await at.proven(await stage.prove(case.id, command=command))
    assert proof.verdict == "failed"

    with pytest.raises(Invalid, match="no repository 'nowhere'"):
        await stage.proofs.declare(stage.ada, stage.workspace, "tools", ["nowhere"])
    assert case.repository is not None
    used = await stage.proofs.declare(stage.ada, stage.workspace, "tools", [case.repository])
    assert used.repositories == (case.repository,)
    again = await at.proven(await stage.prove(case.id, command=command, claim="with its tools"))
    assert (again.verdict, again.runs[0].environment["environment"]) == ("passed", "tools")

    await stage.proofs.unregister(stage.ada, stage.workspace, "tools")
    bare = await at.proven(await stage.prove(case.id, command=command, claim="without them"))
    assert bare.verdict == "failed"


async def test_an_environment_whose_programs_proofs_cannot_see_says_so(at: ProofStage) -> None:
    stage, tools = at.stage, at.repo.path.parent / "tools"
    elsewhere = at.repo.path.parent / "elsewhere"
    elsewhere.touch()
    (tools / "bin").mkdir(parents=True)
    (tools / "bin/sh").symlink_to("/bin/sh")
    (tools / "bin/python").symlink_to("sh")
    good = await stage.proofs.register(stage.ada, stage.workspace, "tools", str(tools))
    assert good.problem == ""
    (tools / "bin/ruby").symlink_to(elsewhere)
    bad = await stage.proofs.look(stage.ada, stage.workspace, "tools")
    assert f"bin/ruby leads to {elsewhere}, which proofs do not see" in bad.problem


async def test_no_environment_shows_the_servers_own_data(at: ProofStage) -> None:
    data = at.repo.path.parent / "data"
    for place in (data, data / "proofs", data.parent):
        place.mkdir(parents=True, exist_ok=True)
        with pytest.raises(Invalid, match="Holdfast's own"):
            await at.stage.proofs.register(at.stage.ada, at.stage.workspace, "x", str(place))


@pytest.mark.parametrize(
    ("command", "fields", "said"),
    [
        ("sleep 600", {"timeout_seconds": 1}, "second"),
        ("python3 -c \"x = bytearray(4 << 30); x[::4096] = b'1' * len(x[::4096])\"", {}, "memory"),
        ("yes", {}, "print"),
        ("touch /etc/holdfast-was-here && exit 0; exit 7", {}, "exit status 7"),
        ("echo x > ../outside; test -f ../outside && exit 0; exit 7", {}, "exit status"),
        ("python3 -c \"import urllib.request as u; u.urlopen('http://1.1.1.1', timeout=5)\"", {}, "exit status"),
        ("no-such-command", {}, "not found"),
    ],
)
async def test_a_program_that_goes_too_far_is_stopped_or_fails_and_the_run_says_so(
    at: ProofStage, command: str, fields: dict[str, int], said: str
) -> None:
    at.commit(calc_py=RIGHT)
    await at.known()
    proof = await at.run(command, **fields)
    (run,) = proof.runs
    assert run.outcome in ("failed", "error"), run
    # A program that is refused more memory says so itself, in its own words.
    assert said in (f"{run.said} {run.output}".lower() if said == "memory" else run.said)
    assert len(run.output) < 300_000


async def test_a_program_that_fills_the_disk_is_stopped(at: ProofStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "KEPT_BYTES", 64 << 20)
    at.commit(calc_py=RIGHT)
    await at.known()
    proof = await at.run("for n in 1 2 3; do head -c 50M /dev/zero > big$n; done; sleep 600")
    assert "more than 64 MiB in its directory" in proof.why
    assert not list((at.repo.path.parent / "data/proofs").iterdir())


async def test_directories_nested_without_end_leave_nothing_and_have_a_verdict(at: ProofStage) -> None:
    at.commit(calc_py=RIGHT)
    await at.known()
    deep = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"
    proof = await at.run(f'python3 -c "{deep}"')
    assert proof.verdict == "passed", proof.why
    assert not list((at.repo.path.parent / "data/proofs").iterdir())


async def test_a_fork_bomb_ends_with_its_run(at: ProofStage) -> None:
    at.commit(calc_py=RIGHT)
    await at.known()
    proof = await at.run(":(){ :|:& };:; wait; exit 1", timeout_seconds=5)
    assert proof.runs[0].outcome in ("failed", "error")
    assert (await at.run("true")).verdict == "passed"


async def test_what_cannot_be_checked_out_says_why(at: ProofStage) -> None:
    at.commit(calc_py=RIGHT)
    await at.known()
    with pytest.raises(Invalid, match="The commit is not known") as refused:
        await at.case(head_commit="0" * 40)
    assert refused.value.fields[0].field == "head_commit"
    # A submodule.
    at.repo.run("update-index", "--add", "--cacheinfo", f"160000,{at.repo.head},vendor")
    at.repo.run("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "submodule")
    await at.known()
    proof = await at.run("true")
    assert proof.verdict == "error" and "submodule at vendor" in proof.why
    # Force-pushed away.
    gone = at.repo.head
    case = await at.case(head_commit=gone)
    at.repo.run("reset", "-q", "--hard", "HEAD~1")
    at.repo.run("reflog", "expire", "--expire=now", "--all")
    at.repo.run("gc", "-q", "--prune=now")
    proof = await at.proven(await at.stage.prove(case.id, command="true"))
    assert proof.verdict == "error" and "rewritten" in proof.why


async def test_a_report_that_is_a_link_out_of_the_checkout_is_not_read(at: ProofStage) -> None:
    at.commit(calc_py=RIGHT)
    await at.known()
    for command in ("ln -s /etc/passwd report.xml", "mkfifo report.xml", "mkdir report.xml"):
        proof = await at.run(command, tests=("t",), report="report.xml")
        assert proof.verdict == "error" and "report" in proof.why


async def test_proofs_that_could_not_be_run_are_refused_when_they_are_added(at: ProofStage) -> None:
    at.commit(calc_py=RIGHT)
    await at.known()
    bare, case = await at.stage.add(), await at.case(criteria=("It adds",))
    for id, fields, field in (
        (bare.id, {"command": "true"}, "repository"),
        (case.id, {"command": " ", "criteria": ("c1",)}, "command"),
        (case.id, {"command": "true"}, "criteria"),
        (case.id, {"command": "true", "criteria": ("c9",)}, "criteria"),
        (case.id, {"command": "true", "criteria": ("c1",), "tests": ("t",)}, "report"),
        (case.id, {"command": "true", "criteria": ("c1",), "report": "../x"}, "report"),
        (case.id, {"command": "true", "criteria": ("c1",), "outcome": "passed"}, "outcome"),
        (case.id, {"command": "true", "criteria": ("c1",), "is_reproduction": True}, "is_reproduction"),
        (case.id, {"command": "true", "criteria": ("c1",), "timeout_seconds": 0}, "timeout_seconds"),
        (case.id, {"command": "true", "criteria": ("c1",), "environment": "none"}, "environment"),
    ):
        with pytest.raises(Invalid) as refused:
            await at.stage.prove(id, **fields)
        assert refused.value.fields[0].field == field
    with pytest.raises(Forbidden, match="on the server's machine"):
        await at.stage.proofs.register(at.stage.agent, at.stage.workspace, "x", "/opt")
    word = await at.stage.prove(case.id, by=at.stage.ada, kind="word", claim="seen")
    with pytest.raises(Conflict, match="not run"):
        await at.stage.proofs.run(at.stage.ada, at.stage.workspace, word.proof.id)
