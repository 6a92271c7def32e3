"""Owns the last words of a test run: how many tests ran, and what was skipped and why, from pytest's own report."""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def main(report: Path) -> None:
    """Print the counts and the reasons."""
    if not report.exists():
        print("summary: the tests did not run to the end")
        return
    cases = _cases(report)
    reasons: Counter[str] = Counter()
    for case in cases:
        skipped = case.find("skipped")
        if skipped is not None:
            reasons[skipped.get("message") or "no reason given"] += 1
    failed = _failed(cases)
    print(f"summary: {len(cases)} tests, {len(failed)} failed, {sum(reasons.values())} skipped")
    for name in failed:
        print(f"  failed: {name}")
    for reason, times in reasons.most_common():
        print(f"  skipped {times}: {reason}")


def _cases(report: Path) -> list[ElementTree.Element]:
    return list(ElementTree.parse(report).getroot().iter("testcase"))  # noqa: S314 (our own file)


def _failed(cases: list[ElementTree.Element]) -> list[str]:
    return [
        f"{(case.get('classname') or '').replace('.', '/')}.py::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


if __name__ == "__main__":
    if sys.argv[1] == "--failed":
        print("\n".join(_failed(_cases(Path(sys.argv[2])))))
    else:
        main(Path(sys.argv[1]))
