"""Owns the proof of what a word is, of the times a query names, and of snippets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.clock import parse_time
from holdfast.engines.search.text.analyser import (
    MOST_WORDS,
    coded,
    codes,
    located,
    other_spellings,
    query_words,
    words,
)
from holdfast.engines.search.text.moments import moments
from holdfast.engines.search.text.snippet import snippet
from tests.support.properties import examples

NOW = parse_time("2026-11-16T12:00:00Z", "now")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Caroline's running shoes", ["carolin", "run", "shoe"]),
        ("snake_case_name", ["snake", "case", "name", "snake_case_name"]),
        ("parseHTTPReply2", ["pars", "http", "repli", "2", "parsehttpreply2"]),
        ("src/app.py", ["src", "app", "py", "src/app.py"]),
        ("v1.2", ["v", "1", "v1", "2", "v1.2"]),
        ("C++ and C#", ["c", "c++", "c", "c#"]),
        ("東京都", ["東京", "京都"]),
        ("the of and", []),
        ("Café", ["cafe"]),
        ("cafe\u0301", ["cafe"]),
        ("ประชุม", ["ปร", "ระ", "ะช", "ชุ", "ุม"]),
        ("मुंबई में", ["मुंबई", "में"]),
        ("שָׁלוֹם العَرَبِيَّة", ["שלום", "العربية"]),
        ("Ship it 🚀🔥", ["ship", "🚀", "🔥"]),
    ],
)
def test_text_becomes_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


_ENDINGS = ("", "s", "ies", "ied", "ing", "ingly", "edly", "ying", "y", "ness", "ational", "bli", "e", "ss")


@examples(500)
@given(st.text("abcdeghinostuxyz", min_size=1, max_size=6), st.sampled_from(_ENDINGS), st.sampled_from("lut"))
def test_every_form_of_a_word_is_marked_by_its_stem(begin: str, ending: str, letters: str) -> None:
    lower = begin + ending
    word = {"l": lower, "u": lower.upper(), "t": lower.title()}[letters]
    wanted = set(words(word))
    assert [(one.text, one.start, one.end) for one in located(word, wanted)] == [
        (each, 0, len(word)) for each in words(word)
    ]


@pytest.mark.parametrize("name", ["getUserProfile", "UserSettings", "parseHTTPReplies"])
def test_a_name_is_found_whole_however_its_letters_are_written(name: str) -> None:
    assert set(words(name.lower())) <= set(words(name))
    assert snippet(f"Call {name} first.", dict.fromkeys(words(name.lower()), 1.0)) == f"Call **{name}** first."


@pytest.mark.parametrize("name", ["parse_location", "parseLocation", "ParseLocation", "PARSE_LOCATION"])
def test_a_name_is_known_in_every_convention(name: str) -> None:
    asked = {*query_words(name), *other_spellings(name)}

    for written in ("parse_location", "parseLocation", "ParseLocation", "PARSE_LOCATION"):
        assert set(words(written)) <= asked


def test_plain_words_have_no_other_spelling() -> None:
    assert other_spellings("When did Caroline's check-in happen in 2023 at the AI lab?") == []


def test_a_query_of_stop_words_still_asks_for_something() -> None:
    assert query_words("who are you") == ["who", "are", "you"]


@pytest.mark.parametrize(
    ("query", "moment"),
    [
        ("what happened on 2026-03-04?", "2026-03-04"),
        ("on 7 May 2023", "2023-05-07"),
        ("May 7th, 2023", "2023-05-07"),
        ("in May 2023", "2023-05-20"),
        ("during march", "2025-03-09"),
        ("back in 2024", "2024-08-01"),
        ("yesterday's meeting", "2026-11-15T23:00:00Z"),
        ("what did we do today", "2026-11-16T01:00:00Z"),
        ("last week", "2026-11-10"),
        ("two weeks ago", "2026-11-02"),
        ("3 days ago", "2026-11-13"),
        ("last Friday", "2026-11-13T10:00:00Z"),
        ("past 10 days", "2026-11-07"),
    ],
)
def test_a_named_time_fits_what_happened_then(query: str, moment: str) -> None:
    found = moments(query, NOW)

    assert found.fit(parse_time(moment, "moment")) == 1.0
    assert found.fit(parse_time("2011-09-25", "moment")) == 0.0


@pytest.mark.parametrize(
    "query", ["may I deploy?", "march on", "version 2.0.1", "port 8080", "99 may 2023x", "31 February 2024"]
)
def test_what_is_no_time_is_not_read_as_one(query: str) -> None:
    assert moments(query, NOW).fit(parse_time("2011-09-25", "moment")) == 0.0


def test_recent_fits_the_newer_the_better() -> None:
    found = moments("recent decisions", NOW)

    assert found.fit(NOW) > found.fit(NOW - 20 * 86_400_000) > found.fit(NOW - 200 * 86_400_000)


def test_a_snippet_is_the_passage_with_the_words() -> None:
    text = "Filler sentence about nothing. " * 30 + "The wombat digs burrows at night. " + "More filler here. " * 30

    shown = snippet(text, {"wombat": 2.0, "burrow": 1.0})

    assert "**wombat** digs **burrows**" in shown
    assert shown.startswith("… ") and shown.endswith(" …")
    assert len(shown) < 300


def test_a_snippet_without_matching_words_is_the_beginning() -> None:
    assert snippet("One line only.", {"whale": 1.0}) == "One line only."


@pytest.mark.parametrize("text", ["", "the", "Ana's parseHTTPReply2 in src/app.py, 東京都", "many words " * MOST_WORDS])
def test_a_text_has_the_numbers_of_its_words(text: str) -> None:
    assert coded(text) == codes(words(text))
