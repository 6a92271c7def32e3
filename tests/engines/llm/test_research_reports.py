"""What of a research's answers may be kept: the ways in which models name their sources, and what does not hold."""

import pytest

from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.research.report import checked_report, stated

SOURCES = {
    1: ReadSource(1, "Herons", "https://birds.test/herons", "Grey herons nest in April. They eat small fish."),
    2: ReadSource(
        2, "notes.md", "notes.md", "The tide turns twice a day. Version 2.3 of the table was released in 2024."
    ),
}


@pytest.mark.contract("XS-6")
@pytest.mark.parametrize(
    "answer",
    [
        "Grey herons nest in April (https://birds.test/herons).",
        "Grey herons nest in April https://birds.test/herons.",
        "Grey herons nest in April ([Herons](https://birds.test/herons)).",
        "[Grey herons](https://birds.test/herons) nest in April.",
        "Grey herons nest in April. Source: https://birds.test/herons/",
        "Grey herons nest in April (Source: https://birds.test/herons)",
        "Grey herons nest in April [3].\n\nSources:\n[3] Herons (https://birds.test/herons)",
        "Grey herons nest in April [2].\n\n## References\n\n2. https://birds.test/herons",
    ],
)
def test_a_sub_task_may_name_its_source_as_models_do(answer: str) -> None:
    held = stated(answer, "When do herons nest?", SOURCES)
    assert "Grey herons" in held and "nest in April" in held
    assert "[1]" in held and "[2]" not in held and "[3]" not in held


@pytest.mark.contract("XS-6")
@pytest.mark.parametrize(
    "answer",
    [
        "Grey herons nest in April.",
        "Grey herons nest in May (https://birds.test/herons).",
        "Grey herons do not nest in April (https://birds.test/herons).",
        "Grey herons nest in April (https://elsewhere.test/).",
        "Grey herons nest in April [1].",
        "Purple herons nest in April (https://birds.test/herons).",
        "Version 2.4 was released in 2024 [notes.md].",
    ],
)
def test_what_its_source_does_not_say_is_not_kept_of_a_sub_task(answer: str) -> None:
    assert stated(answer, "When do herons nest?", SOURCES) == ""


def test_files_are_sources_by_their_names() -> None:
    assert stated("The tide turns twice a day (notes.md).", "tides", SOURCES) == "The tide turns twice a day [2]."
    assert "[2]" in stated("Version 2.3 was released in 2024 [`notes.md`].", "tides", SOURCES)


@pytest.mark.contract("XS-6")
def test_a_report_lists_the_sources_it_stands_on_and_what_was_left_out() -> None:
    said, remark = checked_report(
        '# Herons\n\nGrey herons nest in April [1 "herons nest in April"]. They sing [2 "they sing"]. They dance.',
        "When do herons nest?",
        SOURCES,
    )
    assert said == (
        "# Herons\n\nGrey herons nest in April [1].\n\n"
        "## Sources\n\n- [1] Herons – https://birds.test/herons\n  > herons nest in April"
    )
    assert remark == "*Left out, because nothing that was read bears it out: 2 statements, 1 citation.*"


def test_a_source_cannot_put_markup_or_numbers_into_a_report() -> None:
    nasty = {1: ReadSource(1, "A <img src=x> [2]", "https://x.test/", "Herons <b>nest</b> ![p](https://x.test/p) [9].")}
    said, _ = checked_report('Herons <b>nest</b> [1 "Herons <b>nest</b>"].', "herons", nasty)
    assert "<img" not in said.replace(r"\<", "")
    assert r"\[2\]" in said
