"""Owns the proof that nothing stays in an answer that no source supports."""

import pytest

from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.cited.markdown import cited_in, sentences, tidied
from holdfast.engines.llm.cited.review import Reviewed, names_in, review

COMMIT = ReadSource(
    1,
    "Keep sessions in PostgreSQL",
    "ledger@8d90859",
    "Keep sessions in PostgreSQL\n\nRedis lost them on restart because it ran without a disk.",
    about="Grace Hopper 2023-11-14",
)
FILE = ReadSource(
    2,
    "src/sessions.py",
    "ledger:src/sessions.py#L1-L9",
    "def open_session(key):\n    return store[key]\nfirst = store[7]\n# sessions are opened lazily\nsrc/sessions.py",
)
SOURCES = {1: COMMIT, 2: FILE}
QUESTION = "Why are sessions in PostgreSQL?"


def reviewed(text: str, unknown: frozenset[str] = frozenset()) -> Reviewed:
    return review(tidied(text, {"ledger@8d90859": 1}, frozenset()), QUESTION, SOURCES, unknown)


def test_what_is_cited_rightly_stays_as_it_is() -> None:
    text = 'Redis lost sessions on restart [1 "lost them on restart"]. Sessions are opened lazily [2].'
    found = reviewed(text)
    assert found.markdown == "Redis lost sessions on restart [1]. Sessions are opened lazily [2]."
    assert (found.cited, found.dropped, found.removed) == ([1, 2], 0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        "The team voted for it [7].",
        'Redis was too expensive [1 "too expensive for us"].',
        'Grace wrote "we love this database" there [1].',
        "Kubernetes operators reconcile the cluster autoscaler quotas nightly [1].",
        "It was decided in a meeting [ledger@0000000].",
        "Redis lost sessions on restart in 2019 [1].",
        "Redis lost 4,500 sessions on restart [1].",
        "[1] says that martians secretly operate the datacenter.",
        "Redis lost sessions on restart [1], and the director personally ordered the deletion of backups.",
        'Redis lost sessions on restart [1], or as Grace put it: "we love this database".',
    ],
)
def test_a_citation_that_does_not_hold_goes_with_its_sentence(wrong: str) -> None:
    found = reviewed(f"Redis lost sessions on restart [1]. {wrong}")
    assert found.markdown == "Redis lost sessions on restart [1]."
    assert (found.dropped, found.removed) == (1, 1)


@pytest.mark.parametrize(
    "uncited",
    [
        "Mongo was tried before.",
        "Yes.",
        "- Latency fell by half.",
        "| Mongo | slow |",
        "> Somebody said so.",
        "1. First, buy disks.",
    ],
)
def test_a_claim_without_a_citation_goes(uncited: str) -> None:
    found = reviewed(f"Redis lost sessions on restart [1].\n\n{uncited}")
    assert (found.markdown, found.removed) == ("Redis lost sessions on restart [1].", 1)


def test_no_citation_is_added_for_the_model() -> None:
    """The issue's case: one true sentence with a citation, and beside it what it was said to have cited."""
    found = reviewed(
        "Redis ran without a disk. So it lost sessions on restart [1]. Redis lost sessions on every restart in 2019. "
        "Grace kept sessions in Redis. PostgreSQL lost them on restart."
    )
    assert found.markdown == "So it lost sessions on restart [1]."
    assert (found.dropped, found.removed) == (0, 4)


def test_what_was_copied_from_the_source_stays_as_a_quotation_of_it() -> None:
    found = reviewed('Redis war ohne Platte und verlor alles [1 "because it ran without a disk"].')
    assert found.markdown == '"Redis lost them on restart because it ran without a disk." [1]'
    assert (found.dropped, found.removed) == (0, 1)


@pytest.mark.parametrize(
    "heading",
    ["## Mongo replaced Redis", "## Redis lost no sessions", "## 40 sessions", "**Redis is insecure**"],
)
def test_a_heading_that_states_what_no_source_below_it_says_goes(heading: str) -> None:
    found = reviewed(f"{heading}\n\nRedis lost sessions on restart [1].")
    assert (found.markdown, found.removed) == ("Redis lost sessions on restart [1].", 1)


@pytest.mark.parametrize("heading", ["## Why", "## Redis lost them on restart", "**In short**", "## Why PostgreSQL"])
def test_a_heading_in_words_of_the_question_or_of_its_sources_stays(heading: str) -> None:
    text = f"{heading}\n\nRedis lost sessions on restart [1]."
    assert (reviewed(text).markdown, reviewed(text).removed) == (text, 0)


@pytest.mark.parametrize(
    "gap",
    [
        "The sources do not mention that Grace stole the keys.",
        "The sources do not mention the disk.",
        "The sources do not mention Mongo.",
        "The sources do not say why 40 sessions were lost.",
    ],
)
def test_what_is_said_to_be_missing_brings_nothing_in_and_denies_nothing(gap: str) -> None:
    assert gap not in reviewed(f"Redis lost sessions on restart [1].\n\n{gap}").markdown


def test_every_stretch_of_a_sentence_has_to_hold() -> None:
    right = "Redis lost sessions on restart [1], and sessions are opened lazily [2]."
    assert reviewed(right).markdown == right
    for wrong in (
        "Redis lost sessions on restart [1], and sessions are closed lazily [2].",
        "Redis lost sessions on restart [2], and sessions are opened lazily [2].",
        "Redis lost sessions on restart [1], and so did Mongo.",
    ):
        assert reviewed(wrong).markdown == "", wrong


def test_a_citation_beside_one_that_holds_goes_alone() -> None:
    found = reviewed("Redis lost sessions on restart [1][2][58].")
    assert (found.markdown, found.dropped, found.removed) == ("Redis lost sessions on restart [1].", 2, 0)


def test_headings_stay_only_with_something_under_them() -> None:
    found = reviewed(
        "# Answer\n\n## Why\n\nRedis lost them [1].\n\n## Cost\n\nIt was cheap.\n\n## History\n\n### Old\n\nNo."
    )
    assert found.markdown == "# Answer\n\n## Why\n\nRedis lost them [1]."


def test_words_that_lead_on_stay_before_what_they_lead_to() -> None:
    kept = reviewed("The reasons, in short:\n\n- Redis lost sessions on restart [1].\n- Mongo is fun.")
    alone = reviewed("Redis lost sessions on restart [1].\n\nThe reasons, in short:\n\n- Mongo is fun.")
    assert kept.markdown == "The reasons, in short:\n\n- Redis lost sessions on restart [1]."
    assert alone.markdown == "Redis lost sessions on restart [1]."


def test_a_claim_that_leads_on_is_still_a_claim() -> None:
    found = reviewed("Mongo was rejected by the board:\n\n- Redis lost sessions on restart [1].")
    assert "Mongo" not in found.markdown


def test_saying_what_was_not_found_is_no_claim() -> None:
    gap = "The sources do not mention who approved it."
    for smuggled in (
        "Nothing in the history contradicts that Bob stole the keys.",
        "The limiter does not record calls.",
    ):
        assert smuggled not in reviewed(f"Redis lost sessions on restart [1].\n\n{smuggled}").markdown
    guess = "The sources do not mention who approved it, but it was probably Grace."
    assert gap in reviewed(f"Redis lost sessions on restart [1].\n\n{gap}").markdown
    assert guess not in reviewed(f"Redis lost sessions on restart [1].\n\n{guess}").markdown


def test_a_table_keeps_its_head_and_the_rows_that_have_a_source() -> None:
    table = "| store | what happened |\n|---|---|\n| Redis | lost them on restart [1] |\n| Mongo | slow |"
    assert reviewed(table).markdown == "\n".join(table.split("\n")[:3])
    assert reviewed("Redis lost them [1].\n\n" + "\n".join(table.split("\n")[:2])).markdown == "Redis lost them [1]."


def test_code_stays_where_a_source_beside_it_has_it() -> None:
    real = "```python\ndef open_session(key):\n    return store[key]\n```"
    made_up = "```python\ndef close_session(key):\n    del store[key]\n```"
    found = reviewed(f"Sessions are opened lazily [2]:\n\n{real}\n\n{made_up}")
    assert found.markdown == f"Sessions are opened lazily [2]:\n\n{real}"
    assert found.removed == 1
    behind = reviewed(f"Redis lost sessions on restart [1].\n\n{real}\n\n[2]\n\n{made_up}\n\n[2]")
    assert behind.markdown == f"Redis lost sessions on restart [1].\n\n{real}\n\n[2]"
    assert (behind.dropped, behind.removed) == (1, 1)
    assert reviewed(f"Redis lost sessions on restart [1].\n\n{real}").markdown == "Redis lost sessions on restart [1]."


def test_numbers_in_code_are_no_citations() -> None:
    found = reviewed("Sessions are opened lazily by `store[7]` in `src/sessions.py` [2].")
    assert (found.dropped, found.cited) == (0, [2])


def test_a_sentence_that_names_what_is_not_there_goes() -> None:
    text = "Redis lost sessions on restart [1]. Sessions are opened lazily in `src/nope.py` [2]. See deadbe1 [1]."
    assert names_in(text) == ["src/nope.py", "deadbe1"]
    found = reviewed(text, frozenset({"src/nope.py", "deadbe1"}))
    assert found.markdown == "Redis lost sessions on restart [1]."
    assert (found.dropped, found.removed) == (2, 2)


def test_only_what_looks_like_a_file_or_a_commit_is_a_name() -> None:
    assert names_in("Node.js 20.04 and `app.py` in lib/x.ts at 1234567, see https://a.example/b.html.") == [
        "https://a.example/b.html",
        "app.py",
        "lib/x.ts",
    ]


def test_an_answer_without_any_citation_that_holds_is_no_answer() -> None:
    assert reviewed("It is what it is.\n\n## Summary\n\nTrust me [9].").markdown == ""
    assert reviewed("").markdown == ""


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        ("Yes [1][2].", [1, 2]),
        ("Yes [1, 2].", [1, 2]),
        ("Yes [1; 2].", [1, 2]),
        ("Yes [1-3].", [1, 2, 3]),
        ("Yes [^2].", [2]),
        ("Yes [source 2].", [2]),
        ("Yes 【2†L1-L4】.", [2]),
        ("Yes [2](https://example.org/x).", [2]),
        ("Yes [ledger@8d90859].", [1]),
        ("Yes [`ledger@8d90859`].", [1]),
        ("Yes `list[2]`.", []),
        ("```\nlist[2]\n```", []),
    ],
)
def test_every_way_of_writing_a_citation_is_understood(written: str, numbers: list[int]) -> None:
    assert cited_in(tidied(written, {"ledger@8d90859": 1}, frozenset())) == numbers


@pytest.mark.parametrize(
    "right",
    [
        "Grace Hopper moved sessions on 14 November 2023 [1].",
        "[1] says that Redis lost sessions on restart.",
        "Sessions are opened lazily [2], by `open_session` from `store`.",
        "As asked, sessions stay in PostgreSQL [1].",
    ],
)
def test_what_the_source_bears_out_stays(right: str) -> None:
    found = reviewed(right)
    assert (found.markdown, found.dropped, found.removed) == (right, 0, 0)


def test_a_line_in_bold_is_a_heading() -> None:
    found = reviewed("**Why**\n\nRedis lost them on restart [1].\n\n**Cost**\n\nCheap.\n\n## More\n\nNo.")
    assert found.markdown == "**Why**\n\nRedis lost them on restart [1]."


def test_pictures_links_to_elsewhere_and_an_own_list_of_sources_go() -> None:
    known = "https://github.com/acme/ledger/commit/8d90859"
    text = (
        f"See ![x](https://evil.example/?q=secret) and [this](https://evil.example) and [that]({known}).\n\n"
        "## Sources\n\n- [1] made up\n\n## Also\n\nMore."
    )
    assert tidied(text, {}, frozenset({known})) == f"See x and this and [that]({known}).\n\n## Also\n\nMore."


def test_sentences_are_not_cut_inside_quotations_code_and_short_forms() -> None:
    text = 'Use `a. b` here, e.g. so [1 "Stop. Go."]. [2] Next one! Then [3].'
    assert sentences(text) == ['Use `a. b` here, e.g. so [1 "Stop. Go."]. [2]', "Next one!", "Then [3]."]


def test_an_endless_line_of_brackets_is_read_in_time() -> None:
    for hostile in ("[", "![", "[9](", "`", '[9 "', "| ", "a. ", "- ", "[9", "](", "***", "e.g."):
        assert reviewed(hostile * (4_000 // len(hostile))).markdown == ""
