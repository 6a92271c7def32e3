"""Owns the rule of done: what the runs of a proof say of a head, what covers each criterion, and what is missing."""

from collections.abc import Iterable, Sequence

from holdfast.features.cases.model import Case
from holdfast.features.cases.proofs.model import Outcome, Proof, ProofRun, ProvenProof, Verdict

_SHORT = 10
_GOOD: tuple[Verdict, ...] = ("passed", "word")
# What a criterion shows where several proofs speak of it: the best, then what asks most for a look.
_ORDER: tuple[Verdict, ...] = (
    *_GOOD,
    *("running", "flaky", "failed", "not_reproduced", "error", "stale", "unrun", "reported"),
)


def judged(case: Case, head: str | None, proof: Proof, runs: Sequence[ProofRun]) -> ProvenProof:
    """A proof with what its runs, newest first, say of the head."""
    verdict, why = _verdict(case, head, proof, runs)
    return ProvenProof(proof, verdict, why, tuple(runs))


def covered(case: Case, proofs: Iterable[ProvenProof]) -> dict[str, Verdict | None]:
    """The best verdict of each criterion, by its id; None where no proof speaks of it."""
    known = list(proofs)
    return {each.id: _best(proof.verdict for proof in known if _speaks(proof, each.id)) for each in case.criteria}


def missing(case: Case, proofs: Sequence[ProvenProof]) -> list[str]:
    """What stands between the case and DONE, each as a sentence; nothing where it is proven."""
    if any(each.verdict == "word" and not each.proof.criteria for each in proofs):
        return []
    gaps = [
        f"{criterion.id} ({criterion.text[:80]}): {_wanting(verdict)}"
        for criterion, verdict in zip(case.criteria, covered(case, proofs).values(), strict=True)
        if verdict not in _GOOD
    ]
    if case.kind == "bug":
        reproductions = [each for each in proofs if each.proof.is_reproduction]
        best = _best(each.verdict for each in reproductions)
        if best not in _GOOD:
            why = reproductions[-1].why if reproductions else "no proof is marked as the reproduction"
            gaps.append(f"the reproduction has to fail at the base commit and pass at the head: {why}")
    elif not case.criteria:
        best = _best(each.verdict for each in proofs)
        if best not in _GOOD:
            gaps.append(f"the case: {_wanting(best)}")
    return gaps


def _verdict(case: Case, head: str | None, proof: Proof, runs: Sequence[ProofRun]) -> tuple[Verdict, str]:
    if proof.kind == "word":
        return "word", f"{proof.author_name or proof.author} gave their word."
    if proof.kind == "reported":
        return "reported", f"{proof.author_name or proof.author} says so; nothing was run here."
    if not runs:
        return "unrun", "It has not been run yet."
    if head is None:
        return "error", "The case has no head commit; name one, or a repository that has been read."
    at_head = [run for run in runs if run.side == "head" and run.commit == head]
    verdict, why = _at(at_head, "head", head)
    if verdict == "unrun":
        return "stale", f"The head is {head[:_SHORT]} now; it last ran at {runs[0].commit[:_SHORT]}."
    if not proof.is_reproduction or verdict != "passed":
        return verdict, why
    return _reproduced(case, head, runs)


def _reproduced(case: Case, head: str, runs: Sequence[ProofRun]) -> tuple[Verdict, str]:
    base = case.base_commit
    if base is None:
        return "error", "The case has no base commit; name the one at which the bug shows."
    if base == head:
        # One that fails now and passes then would show a bug, and that it was mended, where nothing changed.
        return "error", f"The base and the head are the same commit {base[:_SHORT]}: nothing was mended in between."
    verdict, at_base = _at([run for run in runs if run.side == "base" and run.commit == base], "base", base)
    if verdict == "failed":
        return "passed", f"It fails at the base {base[:_SHORT]} and passes at the head."
    if verdict == "passed":
        return "not_reproduced", f"It passes at the base {base[:_SHORT]} too, so it shows no bug that was mended."
    if verdict == "unrun":
        return "stale", f"It has not been run at the base {base[:_SHORT]}."
    return verdict, at_base


def _at(runs: Sequence[ProofRun], side: str, commit: str) -> tuple[Verdict, str]:
    """What the runs at one commit say together."""
    outcomes: set[Outcome] = {run.outcome for run in runs}
    where = f"at the {side} {commit[:_SHORT]}"
    if {"passed", "failed"} <= outcomes:
        return "flaky", f"It both passed and failed {where}."
    if outcomes & {"queued", "running"}:
        return "running", f"It is being run {where}."
    if not runs:
        return "unrun", f"It has not been run {where}."
    newest = runs[0]
    if "passed" in outcomes and newest.outcome == "passed":
        return "passed", f"It passed {where}."
    if newest.outcome == "failed":
        return "failed", newest.said
    return "error", newest.said


def _speaks(proof: ProvenProof, criterion: str) -> bool:
    return criterion in proof.proof.criteria or (proof.proof.kind == "word" and not proof.proof.criteria)


def _best(verdicts: Iterable[Verdict]) -> Verdict | None:
    found = list(verdicts)
    return min(found, key=_ORDER.index) if found else None


def _wanting(verdict: Verdict | None) -> str:
    said = {
        None: "no proof speaks of it",
        "unrun": "its proof has not been run",
        "running": "its proof is being run",
        "failed": "its proof fails",
        "error": "its proof could not be run",
        "stale": "its proof is stale: it did not run at the head",
        "flaky": "its proof is flaky: it passed and failed at the head",
        "not_reproduced": "its proof shows no bug at the base",
        "reported": "it is only reported; our runner has to see it pass, or a person give their word",
    }
    return said.get(verdict, "it is not proven")
