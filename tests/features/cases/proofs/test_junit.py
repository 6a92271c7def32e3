"""Owns the proof that reports of tests are read right, and that hostile ones are refused in words."""

import pytest

from holdfast.features.cases.proofs.junit import MAX_REPORT, BadReport, named, read_report

REPORT = b"""<?xml version="1.0"?><testsuites><testsuite name="a">
<testcase classname="tests.test_cart" name="test_total"/>
<testcase classname="tests.test_cart" name="test_tax"><failure message="1 != 2"/></testcase>
<testcase classname="tests.test_cart" name="test_slow"><skipped/></testcase>
<testcase name="broken"><error/></testcase>
<testsuite name="inner"><testcase classname="deep" name="inside"/></testsuite>
</testsuite></testsuites>"""


def test_each_test_has_its_outcome() -> None:
    found = {each.name: each.outcome for each in read_report(REPORT)}
    assert found == {
        "tests.test_cart::test_total": "passed",
        "tests.test_cart::test_tax": "failed",
        "tests.test_cart::test_slow": "skipped",
        "broken": "failed",
        "deep::inside": "passed",
    }


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("test_total", "passed"),
        ("tests.test_cart::test_total", "passed"),
        ("tests/test_cart.py::test_total", "passed"),
        ("test_tax", "failed"),
        ("test_slow", "skipped"),
        ("total", "missing"),
        ("nobody", "missing"),
        ("inside", "passed"),
    ],
)
def test_a_test_is_found_by_its_name_or_its_end(name: str, outcome: str) -> None:
    assert [each.outcome for each in named(read_report(REPORT), [name])] == [outcome]


def test_a_name_that_two_tests_have_passes_only_if_both_do() -> None:
    report = read_report(
        b'<testsuite><testcase classname="a" name="t"/><testcase classname="b" name="t"><failure/></testcase>'
        b'<testcase classname="c" name="u"><failure/></testcase><testcase classname="c" name="u"/></testsuite>'
    )
    assert [each.outcome for each in named(report, ["t", "u"])] == ["failed", "failed"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not xml",
        b"<html/>",
        b"<testsuite><testcase",
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><testsuite><testcase name="&a;"/></testsuite>',
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>',
        b"<testsuite>" * 200_000,
        b" " * (MAX_REPORT + 1),
        b"<testsuite>" + b"".join(b'<testcase name="%d"/>' % n for n in range(20_001)) + b"</testsuite>",
    ],
)
def test_a_hostile_report_is_refused(raw: bytes) -> None:
    with pytest.raises(BadReport):
        read_report(raw)
