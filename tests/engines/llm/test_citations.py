"""Citations of a report: kept where the source says it, dropped and counted where it does not."""

import json

import pytest

from holdfast.core.tools.outcome import Outcome
from holdfast.engines.llm.citations import CitationCheck, ReadSource, Sources, bibliography
from holdfast.engines.llm.model import CallEvent

HERONS = ReadSource(
    1, "Herons", "https://birds.test/herons", "Grey herons nest in April.\nThey eat “small” fish – mostly."
)
TIDES = ReadSource(2, "Tides", "https://sea.test/", "The tide turns twice a day, and the moon *drives* it.")
BOTH = {1: HERONS, 2: TIDES}


def checked(text: str, size: int = 10_000) -> tuple[str, CitationCheck]:
    check = CitationCheck(BOTH)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return "".join(check.feed(piece) for piece in pieces) + check.end(), check


@pytest.mark.contract("XS-6")
def test_a_citation_whose_words_are_in_its_source_is_kept_without_them() -> None:
    text, check = checked(
        'Herons breed in spring [1 "grey herons  nest in april"]. They fish [1: “eat "small" fish - mostly”].'
    )
    assert text == "Herons breed in spring [1]. They fish [1]."
    assert check.cited == {1: ["grey herons  nest in april", 'eat "small" fish - mostly']}
    assert check.dropped == 0


@pytest.mark.contract("XS-6")
@pytest.mark.parametrize(
    "citation", ['[1 "herons nest in May"]', "[3]", '[9 "Grey herons nest in April"]', '[2 "nest in April"]', "[0]"]
)
def test_a_citation_that_its_source_does_not_bear_out_is_dropped_and_counted(citation: str) -> None:
    text, check = checked(f"Grey herons nest {citation}.")
    assert text == "Grey herons nest."
    assert (check.cited, check.dropped) == ({}, 1)


def test_words_quoted_before_a_bare_citation_have_to_be_in_the_source() -> None:
    text, check = checked('It says "the tide turns twice a day" [2], and "the tide turns every hour or so" [2].')
    assert text == 'It says "the tide turns twice a day" [2], and "the tide turns every hour or so".'
    assert check.dropped == 1


def test_a_bare_citation_needs_a_source_that_is_about_the_same() -> None:
    text, check = checked(
        "Grey herons nest in April. [1] Steam engines need coal and water [1]. The moon drives it [1, 2]."
    )
    assert text == "Grey herons nest in April. [1] Steam engines need coal and water. The moon drives it [2]."
    assert check.dropped == 2


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_of_any_size_give_the_same_report(size: int) -> None:
    report = (
        '# Birds\n\nHerons nest [1 "herons nest in April"][9]. See [a link](https://x.test) and `a[1]`.\n\n'
        "```python\nvalues[2] = x[9]\n```\n\nThe tide turns twice [2]. Open [ bracket [1 \n end [1"
    )
    assert checked(report, size)[0] == checked(report)[0]
    assert checked(report, size)[1].dropped == checked(report)[1].dropped == 1
    assert "values[2] = x[9]" in checked(report, size)[0]
    assert "`a[1]`" in checked(report, size)[0]


def test_an_ellipsis_may_leave_something_out_but_not_turn_the_order() -> None:
    assert TIDES.has("The tide … twice a day")
    assert TIDES.has("tide turns [...] the moon drives it")
    assert not TIDES.has("the moon … the tide")
    assert not TIDES.has("…")


def test_a_certain_part_goes_on_at_once() -> None:
    check = CitationCheck(BOTH)
    assert check.feed("Herons nest [1 ") == "Herons nest"
    assert check.feed('"nest in April') == ""
    assert check.feed('"] there') == " [1] there"


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
    assert sources.read(call("calculator", {"expression": "1"}, '{"result": 1}')) == []
    assert sources.by_number[1].title == "Herons"
    assert sources.by_number[1].has("nest in April")
    again = Sources()
    again.restore(sources.as_json())
    assert again.by_number == sources.by_number


def test_the_bibliography_lists_what_was_cited_and_counts_what_was_left_out() -> None:
    _, check = checked('A [1 "nest in April"]. B [7]. C [8].')
    assert bibliography(check, BOTH) == (
        "## Sources\n\n- [1] Herons – https://birds.test/herons\n  > nest in April\n\n"
        "*2 citations were left out: not confirmed by the text that was read.*"
    )
    assert bibliography(CitationCheck(BOTH), BOTH) == ""


def call(name: str, arguments: dict[str, object], text: str) -> CallEvent:
    return CallEvent("call_1", name, json.dumps(arguments), Outcome(text, sources=1, untrusted=True))
