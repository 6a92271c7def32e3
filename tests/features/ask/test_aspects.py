"""Owns the proof that a question is taken apart where it asks for several things, and only there."""

import pytest

from holdfast.features.ask.question.aspects import Kind, aspects_of


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("Why are sessions in PostgreSQL?", ["why"]),
        ("Why were sessions moved, who decided and when?", ["why", "who", "when"]),
        ("How are tokens issued and revoked?", ["how"]),
        ("Where is the Limiter and the Budget?", ["where"]),
        ("What broke the login before, and how was it fixed?", ["broke", "broke"]),
        ("How do I fix a flaky test?", ["how"]),
        ("Which file defines the retry policy?", ["where"]),
        ("What was the problem in StaticFiles and in which version was it fixed?", ["broke", "version"]),
        ("Since which release is the cert argument deprecated?", ["version"]),
        ("How do I serve static files?", ["how"]),
        ("What was the rationale for two databases?", ["why"]),
        ("Who owns billing? Where is it?", ["who", "where"]),
        ("Tell me about the ledger", ["what"]),
        ("retry policy", ["what"]),
        ("Since when do we round half to even?", ["when"]),
        ("who maintains the parser", ["who"]),
    ],
)
def test_each_thing_that_is_asked_for_is_an_aspect(question: str, kinds: list[Kind]) -> None:
    assert [aspect.kind for aspect in aspects_of(question)] == kinds


def test_an_aspect_that_says_too_little_is_searched_for_with_its_topic() -> None:
    question = "Why were sessions moved to PostgreSQL, who decided and when?"
    why, who, when = aspects_of(question)
    assert why.query == "Why were sessions moved to PostgreSQL"
    assert who.query == when.query == why.query
    assert (who.text, when.text) == ("who decided", "when")


@pytest.mark.parametrize("said", ["who did it", "who was that", "who changed it last", "when was this done"])
def test_an_aspect_that_only_points_is_searched_for_with_its_topic(said: str) -> None:
    question = f"Why do lock files step back in answers, {said}?"
    assert [aspect.query for aspect in aspects_of(question)] == ["Why do lock files step back in answers"] * 2


def test_a_topic_that_is_named_last_counts_for_what_was_asked_before() -> None:
    who, why = aspects_of("Who decided and why were sessions moved to PostgreSQL?")
    assert who.query == why.query == "why were sessions moved to PostgreSQL"


def test_what_is_said_before_counts_for_every_aspect() -> None:
    why, where = aspects_of("In the billing module, why do invoices round down and where are the rates stored?")
    assert why.query == "why do invoices round down In the billing module"
    assert where.query == "where are the rates stored In the billing module"


def test_a_question_never_has_more_than_five_aspects() -> None:
    assert len(aspects_of(" ".join(f"Why is thing{number} slow?" for number in range(40)))) == 5


def test_a_long_text_without_an_end_is_taken_apart_quickly() -> None:
    assert len(aspects_of("and what , " * 360)) <= 5
