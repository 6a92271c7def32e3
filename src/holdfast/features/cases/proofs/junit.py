"""Owns reading JUnit XML that a program of somebody else's wrote: bounded, and without what XML can be made to do."""

import re
from collections.abc import Iterable
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring
from junitparser import JUnitXml, JUnitXmlError, TestCase

from holdfast.features.cases.proofs.model import TestOutcome, TestResult

MAX_REPORT = 16 * 1024 * 1024
MAX_RESULTS = 20_000
_MAX_NAME = 500


class BadReport(Exception):
    """The report cannot be read; the text says why."""


def read_report(raw: bytes) -> tuple[TestResult, ...]:
    """Every test of a report: `classname::name`, or the name alone where it has no class."""
    if len(raw) > MAX_REPORT:
        raise BadReport(f"it is over {MAX_REPORT >> 20} MiB")
    try:
        # No document type: reports have no use for one, and it is how XML is made to explode.
        report = JUnitXml.fromroot(fromstring(raw, forbid_dtd=True))
        tests = [test for suite in report for test in suite]
    except (ParseError, DefusedXmlException, JUnitXmlError, ValueError, RecursionError) as error:
        raise BadReport(f"it is no JUnit XML ({type(error).__name__}: {str(error)[:200]})") from None
    found: dict[str, TestOutcome] = {}
    for test in tests:
        if len(found) >= MAX_RESULTS:
            raise BadReport(f"it has over {MAX_RESULTS} tests")
        name = _name(test)
        outcome = _outcome(test)
        # A test that ran twice passed only if it passed each time.
        if found.get(name, "passed") in ("passed", "skipped") or outcome == "failed":
            found[name] = outcome if found.get(name) != "failed" else "failed"
    return tuple(TestResult(name, outcome) for name, outcome in found.items())


def named(results: Iterable[TestResult], wanted: Iterable[str]) -> tuple[TestResult, ...]:
    """How each wanted test went: `missing` where the report knows none of that name.

    A test is found by its whole name, or by what comes last in it: `test_total` finds `tests.test_cart::test_total`."""
    known = {each.name: each.outcome for each in results}
    found = []
    for name in wanted:
        outcomes = [known[name]] if name in known else [known[each] for each in known if _ends(each, name)]
        worst: TestOutcome = "missing"
        if outcomes:
            worst = next((each for each in ("failed", "skipped", "passed") if each in outcomes), "missing")
        found.append(TestResult(name, worst))
    return tuple(found)


def _ends(whole: str, name: str) -> bool:
    # pytest's own ids, tests/test_cart.py::test_total, are tests.test_cart::test_total in its reports.
    spelled = re.sub(r"\.py(?=::)", "", name).replace("/", ".")
    return any(whole.endswith(f"{mark}{part}") for mark in ("::", ".") for part in (name, spelled)) or whole == spelled


def _name(test: TestCase) -> str:
    parts = [part for part in (test.classname, test.name) if part]
    return "::".join(parts)[:_MAX_NAME].replace("\0", "")


def _outcome(test: TestCase) -> TestOutcome:
    if test.is_failure or test.is_error:
        return "failed"
    return "skipped" if test.is_skipped else "passed"
