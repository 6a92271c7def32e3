"""Owns reading JUnit XML that a program of somebody else's wrote: bounded, and without what XML can be made to do."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from holdfast.features.cases.proofs.model import TestOutcome, TestResult

MAX_REPORT = 16 * 1024 * 1024
MAX_RESULTS = 20_000
MAX_ELEMENTS = 500_000
_MAX_NAME = 500
_MAX_PARTS = 32
_READ = 65_536
_JOINT = re.compile(r"(?:\.py)?::|\s+[>›]\s+|[#/\\]")
_PARAMETERS = re.compile(r"[\[(]")
_WORST: tuple[TestOutcome, ...] = ("failed", "skipped", "passed", "missing")
_FAILED = ("failure", "error", "flakyFailure", "flakyError")
"""Surefire's flaky ones passed when tried again: both outcomes at one commit are no pass."""
_NOT_RUN = {"notrun", "disabled", "suppressed", "skipped", "ignored", "pending"}
"""What googletest, CTest and others write as an attribute of a test that was left out."""


class BadReport(Exception):
    """The report cannot be read; the text says why."""


def read_report(raw: bytes) -> tuple[TestResult, ...]:
    """Every test of a report, however its suites are nested: `classname::name`, or the name alone without a class."""
    if len(raw) > MAX_REPORT:
        raise BadReport(f"it is over {MAX_REPORT >> 20} MiB")
    reading = _Reading()
    # No document type: reports have no use for one, and it is how XML is made to explode.
    parser = DefusedXMLParser(target=reading, forbid_dtd=True)
    try:
        for start in range(0, len(raw), _READ):
            parser.feed(raw[start : start + _READ])
        parser.close()
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise BadReport(f"it is no JUnit XML ({type(error).__name__}: {str(error)[:200]})") from None
    return tuple(TestResult(name, outcome) for name, outcome in reading.found.items())


class _Reading:
    """Takes a report as it is parsed. No tree is built: what is small as text need not be as objects."""

    def __init__(self) -> None:
        self.found: dict[str, TestOutcome] = {}
        self._elements = 0
        self._name: str | None = None
        self._outcome: TestOutcome = "passed"

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if not self._elements and tag not in ("testsuites", "testsuite"):
            raise BadReport(f"it is no JUnit XML: it begins with <{tag[:50]}>")
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise BadReport(f"it has over {MAX_ELEMENTS} elements")
        if tag == "testcase":
            self._name, self._outcome = _name(attributes), _left_out(attributes)
        elif self._name is not None and tag in _FAILED:
            self._outcome = "failed"
        elif self._name is not None and tag == "skipped" and self._outcome == "passed":
            self._outcome = "skipped"

    def end(self, tag: str) -> None:
        if self._name is None or tag.rpartition("}")[2] != "testcase":
            return
        # A test that ran twice passed only if it passed each time.
        self.found[self._name] = min(self.found.get(self._name, self._outcome), self._outcome, key=_WORST.index)
        self._name = None
        if len(self.found) > MAX_RESULTS:
            raise BadReport(f"it has over {MAX_RESULTS} tests")

    def close(self) -> None:
        """The parser asks for it; there is nothing to hand over."""


def named(results: Iterable[TestResult], wanted: Sequence[str]) -> tuple[TestResult, ...]:
    """How each wanted test went: `missing` where the report knows none of that name.

    A test is found by its whole name, or by what comes last in it: `test_total` finds `tests.test_cart::test_total`,
    and how the parts are held together is each tool's own. A name without parameters stands for the test with any."""
    outcomes: dict[str, set[TestOutcome]] = {_spelled(name): set() for name in wanted}
    with_any: dict[str, set[TestOutcome]] = {name: set() for name in outcomes}
    exact: dict[str, TestOutcome] = {}
    for each in results if wanted else ():
        exact[each.name] = each.outcome
        for seen, name in ((outcomes, each.name), (with_any, _PARAMETERS.split(each.name, maxsplit=1)[0])):
            for ending in _endings(_spelled(name)):
                if ending in seen:
                    seen[ending].add(each.outcome)
    found = []
    for name, spelled in ((each, _spelled(each)) for each in wanted):
        worst: TestOutcome = min(outcomes[spelled] or with_any[spelled], key=_WORST.index, default="missing")
        found.append(TestResult(name, exact.get(name, worst)))
    return tuple(found)


def _spelled(name: str) -> str:
    """pytest's tests/test_cart.py::TestCart::test_total is tests.test_cart.TestCart::test_total in its own reports;
    googletest says Cart.Total, Maven CartTest#total, vitest cart > totals."""
    return _JOINT.sub(".", name)


def _endings(name: str) -> Iterator[str]:
    """The name, and what is left of it after each of its joints, the last ones first."""
    yield name
    start = len(name)
    for _ in range(_MAX_PARTS):
        start = name.rfind(".", 0, start)
        if start < 0:
            return
        yield name[start + 1 :]


def _name(attributes: Mapping[str, str]) -> str:
    parts = [part for part in (attributes.get("classname"), attributes.get("name")) if part]
    return "::".join(parts)[:_MAX_NAME].replace("\0", "")


def _left_out(attributes: Mapping[str, str]) -> TestOutcome:
    said = {attributes.get("status", "").lower(), attributes.get("result", "").lower()}
    return "skipped" if said & _NOT_RUN else "passed"
