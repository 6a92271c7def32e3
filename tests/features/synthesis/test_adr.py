"""Owns the proof of reading decision records, in the forms that people write them."""

import pytest

from holdfast.core.clock import parse_time
from holdfast.features.synthesis.sources.adr import is_adr, parse_adr

NYGARD = """# 7. Use PostgreSQL for accounts

Date: 2021-03-04

## Status

Accepted

## Context

Accounts need transactions. The old store loses writes.

## Decision

We will keep accounts in PostgreSQL.

## Consequences

Operators run another server.
"""
MADR = """---
status: superseded by ADR-0009
date: 2022-01-02
---
# Cache pages in Redis

## Context and Problem Statement

Pages are slow.

## Considered Options

* Redis
* Memcached

## Decision Outcome

Chosen option: "Redis", because it is known to the team.
"""
LED = """# 12. What held when

**Context.** "What did we know?" has two readings.

**Decision.** A memory holds from when it happened.

**Alternatives.** Two timelines.
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("docs/adr/0001-use-x.md", True),
        ("doc/architecture/decisions/0001-record.md", True),
        ("docs/decisions/0016-the-router.md", True),
        ("adr/1.rst", True),
        ("docs/architecture-decisions/a.md", True),
        ("docs/adr/README.md", False),
        ("docs/adr/template.md", False),
        ("docs/guide.md", False),
        ("src/decisions/model.py", False),
    ],
)
def test_records_are_known_by_where_they_lie(path: str, expected: bool) -> None:
    assert is_adr(path) is expected


def test_a_record_in_sections_is_read() -> None:
    record = parse_adr("docs/adr/0007-postgres.md", NYGARD.splitlines())
    assert record is not None
    assert (record.title, record.status, record.number) == ("Use PostgreSQL for accounts", "accepted", 7)
    assert record.context == "Accounts need transactions. The old store loses writes."
    assert record.decision == "We will keep accounts in PostgreSQL."
    assert record.decided_at == parse_time("2021-03-04", "date")
    assert (record.start_line, record.end_line) == (1, 15)


def test_a_record_with_front_matter_names_its_successor_and_options() -> None:
    record = parse_adr("docs/adr/0008-cache.md", MADR.splitlines())
    assert record is not None
    assert (record.status, record.superseded_by) == ("superseded", 9)
    assert record.alternatives == ("Redis", "Memcached")
    assert record.decision.startswith("Chosen option:")


def test_a_record_with_leading_words_is_read() -> None:
    record = parse_adr("docs/decisions/0012-what-held-when.md", LED.splitlines())
    assert record is not None
    assert record.title == "What held when"
    assert record.decision == "A memory holds from when it happened."
    assert record.alternatives == ("Two timelines.",)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Proposed", "proposed"),
        ("Rejected, too slow", "rejected"),
        ("Deprecated", "superseded"),
        ("Deferred until 2030", "deferred"),
        ("Implemented", "accepted"),
    ],
)
def test_statuses_are_told_in_our_words(said: str, status: str) -> None:
    record = parse_adr("adr/1.md", NYGARD.replace("Accepted", said).splitlines())
    assert record is not None and record.status == status


def test_what_decides_nothing_is_no_record() -> None:
    assert parse_adr("docs/adr/0001-x.md", ["# A list of links", "", "Some text."]) is None
    assert parse_adr("docs/adr/0001-x.md", []) is None
