"""What can be cited: sources numbered once each, their words found again, and calls that brought none."""

import json

import pytest

from holdfast.core.tools.outcome import Outcome
from holdfast.engines.llm.citations import ReadSource, Sources, came_to_nothing
from holdfast.engines.llm.model import CallEvent

TIDES = ReadSource(2, "Tides", "https://sea.test/", "The tide turns twice a day, and the moon *drives* it.")


def test_an_ellipsis_may_leave_something_out_but_not_turn_the_order() -> None:
    assert TIDES.has("The tide … twice a day")
    assert TIDES.has("tide turns [...] the moon drives it")
    assert not TIDES.has("the moon … the tide")
    assert not TIDES.has("…")


def test_results_of_tools_become_numbered_sources_once_each() -> None:
    sources = Sources()
    found = {
        "results": [{"title": "Herons", "url": "https://a.test/", "snippet": "Herons nest."}],
        "fetched_pages": [{"url": "https://a.test/", "content": "Herons nest in April."}],
    }
    pages = {
        "pages": [
            {"url": "https://b.test/", "content": "Tides.", "error": False},
            {"url": "https://c.test/", "content": "gone", "error": True},
        ]
    }
    assert sources.read(call("web_search", {"query": "herons"}, json.dumps(found))) == [1]
    assert sources.read(call("fetch_url", {"urls": ["https://b.test/"]}, json.dumps(pages))) == [2]
    assert sources.read(call("fetch_url", {"url": "https://a.test/"}, "Herons nest in April.")) == [1]
    assert sources.by_number[1].title == "Herons"
    assert sources.by_number[1].has("nest in April")
    again = Sources()
    again.restore(sources.as_json())
    assert again.by_number == sources.by_number


def test_what_was_computed_can_be_cited() -> None:
    sources = Sources()
    assert sources.read(call("calculator", {"expression": "6*7"}, '{"result": 42}')) == [1]
    assert sources.by_number[1].has("6*7 = 42")


@pytest.mark.parametrize(
    ("text", "failed", "nothing"),
    [
        ('{"error": "gone"}', True, True),
        ('{"pages": [{"url": "https://c.test/", "content": "gone", "error": true}]}', False, True),
        ('{"pages": [{"url": "https://c.test/", "content": "Tides.", "error": false}]}', False, False),
        ('{"results": []}', False, False),
    ],
)
def test_a_call_came_to_nothing_when_it_failed_or_read_no_page(text: str, failed: bool, nothing: bool) -> None:
    asked = CallEvent("call_1", "fetch_url", "{}", Outcome(text, sources=0, untrusted=True), failed)
    assert came_to_nothing(asked) is nothing


def call(name: str, arguments: dict[str, object], text: str) -> CallEvent:
    return CallEvent("call_1", name, json.dumps(arguments), Outcome(text, sources=1, untrusted=True))
