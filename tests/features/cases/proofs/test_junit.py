"""Owns the proof that reports of tests are read right, and that hostile ones are refused in words."""

import pytest

from holdfast.features.cases.proofs.junit import MAX_REPORT, BadReport, named, read_report
from holdfast.features.cases.proofs.model import TestResult

REPORT = b"""<?xml version="1.0"?><testsuites><testsuite name="a">
<testcase classname="tests.test_cart" name="test_total"/>
<testcase classname="tests.test_cart" name="test_tax"><failure message="1 != 2"/></testcase>
<testcase classname="tests.test_cart" name="test_slow"><skipped/></testcase>
<testcase name="broken"><error/></testcase>
<testsuite name="inner"><testcase classname="deep" name="inside"/></testsuite>
</testsuite></testsuites>"""
TOOLS = b"""<?xml version="1.0"?><testsuites><testsuite name="a">
<testcase classname="tests.test_cart.TestCart" name="test_sum"/>
<testcase classname="tests.test_cart.TestCart" name="test_many[2.5]"/>
<testcase classname="tests.test_cart.TestCart" name="test_many[a::b]"><failure/></testcase>
<testcase classname="Cart" name="Total" status="run" result="completed"/>
<testcase classname="Cart" name="DISABLED_Later" status="notrun" result="suppressed"/>
<testcase name="NotBuilt" status="disabled"/>
<testcase classname="com.acme.CartTest" name="adds(int, int)[1]"/>
<testcase classname="com.acme.CartTest" name="retried"><flakyFailure/></testcase>
<testcase classname="src/cart.test.ts" name="cart &gt; totals"/>
<testcase classname="acme/cart" name="TestTotal/empty"/>
</testsuite><testcase classname="test" name="alone"><properties/></testcase>
</testsuites>"""


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


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("alone", "passed"),
        ("outer > alone", "missing"),
        ("tests/test_cart.py::TestCart::test_sum", "passed"),
        ("tests/test_cart.py::TestCart::test_many", "failed"),
        ("tests/test_cart.py::TestCart::test_many[2.5]", "passed"),
        ("test_many[a::b]", "failed"),
        ("Cart.Total", "passed"),
        ("DISABLED_Later", "skipped"),
        ("NotBuilt", "skipped"),
        ("com.acme.CartTest#adds", "passed"),
        ("CartTest.adds", "passed"),
        ("CartTest.retried", "failed"),
        ("src/cart.test.ts > cart > totals", "passed"),
        ("totals", "passed"),
        ("TestTotal/empty", "passed"),
    ],
)
def test_a_test_is_named_as_the_tool_that_ran_it_names_it(name: str, outcome: str) -> None:
    assert [each.outcome for each in named(read_report(TOOLS), [name])] == [outcome]


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
        b"<testsuite>" + b"<testcase/>" * 500_000 + b"</testsuite>",
        b'<?xml version="1.0" encoding="x-nobody"?><testsuite><testcase name="a"/></testsuite>',
        b'<?xml version="1.0" encoding="hex"?><testsuite><testcase name="a"/></testsuite>',
        b'<?xml version="1.0" encoding="shift_jis"?><testsuite><testcase name="a"/></testsuite>',
        '<testsuite><testcase name="a"/></testsuite>'.encode("utf-32"),
    ],
)
def test_a_hostile_report_is_refused(raw: bytes) -> None:
    with pytest.raises(BadReport):
        read_report(raw)


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "windows-1252"])
def test_a_report_is_read_in_the_encoding_that_it_says(encoding: str) -> None:
    raw = f'<?xml version="1.0" encoding="{encoding}"?><testsuite><testcase name="zählt"/></testsuite>'.encode(encoding)
    assert [each.name for each in read_report(raw)] == ["zählt"]


def test_suites_may_be_nested_however_deep_and_in_a_namespace() -> None:
    deep = b'<testsuites xmlns="urn:x">' + b"<testsuite>" * 5_000 + b'<testcase name="a"><error/></testcase>'
    assert read_report(deep + b"</testsuite>" * 5_000 + b"</testsuites>") == (TestResult("a", "failed"),)
