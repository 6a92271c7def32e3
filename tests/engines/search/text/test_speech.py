"""Owns the proofs of who speaks in a text: names before a colon are people's, labels are not."""

import pytest

from holdfast.engines.search.text.speech import meant_text, opens_with_name, speech


@pytest.mark.parametrize(
    ("text", "speaker", "said"),
    [
        ("Caroline: I went to the lake!", "Caroline", "I went to the lake!"),
        ("Mary Ann O'Neil: did you see it?", "Mary Ann O'Neil", "did you see it?"),
        ("Dr. Osei: we moved the date", "Dr. Osei", "we moved the date"),
        ("Łukasz: my train is late", "Łukasz", "my train is late"),
        ("user: set up the database", "user", "set up the database"),
        ("Assistant: Done.", "Assistant", "Done."),
        ("田中: 行きますか？", "田中", "行きますか？"),
        ("Jonas: Der Hund hat meine Schuhe gefressen", "Jonas", "Der Hund hat meine Schuhe gefressen"),
        ("Inès: le train est parti sans nous", "Inès", "le train est parti sans nous"),
        ("[2024-03-04 09:12] Maya: I sold a bowl", "Maya", "I sold a bowl"),
        ("04.03.24, 09:12 - Maya: I sold a bowl", "Maya", "I sold a bowl"),
        ("09:12 AM Maya: I sold a bowl", "Maya", "I sold a bowl"),
        ("**Maya**: I sold a bowl", "Maya", "I sold a bowl"),
        ("**Maya:** I sold a bowl", "Maya", "I sold a bowl"),
        ("Maya  [9:12 AM]\nI sold a bowl", "Maya", "I sold a bowl"),
        ("Maya Lin — 03/04/2024 9:12 PM\nI sold a bowl", "Maya Lin", "I sold a bowl"),
    ],
)
def test_a_name_before_a_colon_speaks(text: str, speaker: str, said: str) -> None:
    assert speech(text) == (speaker, said)


@pytest.mark.parametrize(
    "text",
    [
        "Note: we release on Tuesdays",
        "TODO: ask you about it!",
        "Decision: we take PostgreSQL",
        "Postgres: version 16 is needed",
        "https://example.org/you",
        "at 10:30 we met",
        "[bug] parser: you fail",
        "Release 3.2.0\nWe changed the parser",
        "deploy: run the script, will you?",
        "What a long sentence that ends in a colon: yes!",
        "Caroline:",
        "",
    ],
)
def test_labels_addresses_and_sentences_are_nobody(text: str) -> None:
    assert speech(text) is None


def test_what_is_said_between_others_words_needs_only_a_name() -> None:
    assert opens_with_name("Max: Kids are resilient in tough situations.")
    assert not opens_with_name("kids are resilient: always")


def test_a_vector_is_made_without_the_speaker_and_with_a_title_of_its_own() -> None:
    assert meant_text("", "Ann: I ride a bicycle") == "I ride a bicycle"
    assert meant_text("Ann: I ride…", "Ann: I ride a bicycle") == "I ride a bicycle"
    assert meant_text("Transport", "Ann: I ride a bicycle") == "Transport\nI ride a bicycle"
    assert meant_text("", "Rule: ride a bicycle") == "Rule: ride a bicycle"
