"""Owns the proof that passages keep to the structure, stay small and lose nothing."""

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.extract.chunk import MAX_TOKENS, chunk_markdown, chunk_text, count_tokens
from holdfast.engines.extract.code import chunk_code
from tests.support.properties import examples

_ANY_TEXT = st.text(st.sampled_from("ab é.!?\n\t#-=`~漢 "), max_size=600)


def _words(text: str) -> list[str]:
    return re.findall(r"\w", text)


def test_a_passage_never_spans_two_sections() -> None:
    text = "intro\n\n# One\n\nfirst\n\n## Two ##\n\nsecond\n\nThree\n-----\n\nthird\n\n# Four\n\nfourth\n"
    chunks = [(chunk.heading, chunk.text) for chunk in chunk_markdown(text)]
    assert chunks == [
        ("", "intro"),
        ("One", "first"),
        ("One › Two", "second"),
        ("One › Three", "third"),
        ("Four", "fourth"),
    ]


def test_a_heading_inside_a_code_block_is_code() -> None:
    text = "# Real\n\n```sh\n# a comment\n\nrun\n```\n\nafter\n"
    assert [(chunk.heading, chunk.text) for chunk in chunk_markdown(text)] == [
        ("Real", "```sh\n# a comment\n\nrun\n```\n\nafter")
    ]


def test_long_paragraphs_are_cut_at_sentences() -> None:
    text = " ".join(f"Sentence number {number} says something." for number in range(200))
    chunks = [chunk.text for chunk in chunk_text(text)]
    assert len(chunks) > 5
    assert all(chunk.startswith("Sentence") and chunk.endswith(".") for chunk in chunks)


def test_words_without_end_are_cut_all_the_same() -> None:
    chunks = [chunk.text for chunk in chunk_text("x" * 100_000)]
    assert all(count_tokens(chunk) <= MAX_TOKENS for chunk in chunks)
    assert "".join(chunks) == "x" * 100_000


def test_hostile_lines_take_no_more_than_linear_time() -> None:
    """Each of these took minutes with a backtracking pattern; here the whole test takes a second."""
    for line in ("# " + " " * 200_000 + "x", "# " + "#" * 200_000 + "x", "`" * 200_000, "." * 200_000, "- " * 100_000):
        list(chunk_markdown(line))


@examples(200)
@given(_ANY_TEXT)
def test_plain_text_loses_no_letter_and_stays_small(text: str) -> None:
    chunks = [chunk.text for chunk in chunk_text(text)]
    assert _words("".join(chunks)) == _words(text)
    assert all(count_tokens(chunk) <= MAX_TOKENS for chunk in chunks)


@examples(200)
@given(_ANY_TEXT)
def test_markdown_loses_no_letter_outside_its_headings(text: str) -> None:
    chunks = list(chunk_markdown(text))
    kept = _words("".join(chunk.text for chunk in chunks))
    assert len(kept) <= len(_words(text))
    assert all(count_tokens(chunk.text) <= MAX_TOKENS for chunk in chunks)


@examples(150)
@given(st.text(st.sampled_from("ab(){}:\n\t \"'#=,."), max_size=1500))
def test_code_loses_no_letter_however_broken_it_is(text: str) -> None:
    chunks = [chunk.text for chunk in chunk_code(text, "python")]
    assert _words("".join(chunks)) == _words(text)


def _function(name: str, words: int) -> str:
    return f"def {name}(value):\n    return [{', '.join(['value'] * words)}]\n"


def test_small_neighbours_share_a_passage_and_large_ones_have_their_own() -> None:
    small = [_function(f"small_{number}", 10) for number in range(4)]
    large = [_function(f"large_{number}", 70) for number in range(2)]
    chunks = [chunk.text for chunk in chunk_code("\n\n".join([*small, *large]), "python")]
    assert [[name for name in ("small_0", "small_3", "large_0", "large_1") if name in text] for text in chunks] == [
        ["small_0", "small_3"],
        ["large_0"],
        ["large_1"],
    ]


def test_the_head_of_a_class_stands_with_its_first_method() -> None:
    methods = "\n".join(
        f"    {_function(f'method_{number}', 60)}".replace("\n    r", "\n        r") for number in range(3)
    )
    chunks = list(chunk_code(f'class Shop:\n    """Sells."""\n\n{methods}', "python"))
    assert [(chunk.heading, "class Shop" in chunk.text) for chunk in chunks] == [
        ("Shop › method_0", True),
        ("Shop › method_1", False),
        ("Shop › method_2", False),
    ]
