"""Ids sort by the order in which a process made them, however quickly, and stay unguessable UUIDs of version 7."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.core.ids import is_id, new_id, new_uuid


def test_ids_made_in_the_same_millisecond_sort_in_the_order_they_were_made() -> None:
    made = [new_id("mem") for _ in range(10_000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_keep_their_order_when_the_clock_stands_still_or_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_uuid()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)

    later = [new_uuid() for _ in range(5000)]

    assert [first, *later] == sorted([first, *later])


def test_threads_never_get_the_same_moment() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: new_uuid().int >> 64, range(4000)))

    assert len(set(made)) == len(made)


def test_an_id_is_a_uuid_of_version_7_that_tells_when_it_was_made() -> None:
    before = time.time_ns() // 1_000_000
    made = new_uuid()

    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 60_000
    assert is_id("mem", new_id("mem"))
