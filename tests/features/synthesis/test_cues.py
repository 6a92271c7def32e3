"""Owns the proof of telling decisions from messages."""

import pytest

from holdfast.features.synthesis.sources import cues
from holdfast.features.synthesis.sources.quoting import blocks, first_sentence, sentences
from holdfast.features.synthesis.sources.touching import touched


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("Use one thread per reader instead of a pool", ""),
        ("Replace requests with aiohttp", "The old client blocks the loop."),
        ("feat!: drop support for Python 3.8", ""),
        ("Switch the queue to PostgreSQL", "We decided against Kafka because nobody can run it."),
        ("Keep sums in cents", "Because floats lose pennies in the ledger."),
        ("Count money in cents", "Sums are whole numbers because floats lose pennies."),
        ("The ledger is append-only because auditors ask for it", ""),
        ("Remove the XML reader in favour of JSON (#12)", ""),
        ("Deprecate the v1 API", "Clients should move to v2."),
    ],
)
def test_choices_are_told(subject: str, body: str) -> None:
    told = cues.tell(subject, body)
    assert told.score >= cues.LEAST_SCORE and told.quotes


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("Fix crash in the parser", "It crashed because the list was empty."),
        ("Bump aiohttp from 3.8 to 3.9", ""),
        ("Change module 3 for the 5th time", "Because value 5 was needed."),
        ("Add a button", ""),
        ("docs: fix typo", "use a instead of b"),
        ("Merge branch 'main' into topic", ""),
    ],
)
def test_what_only_explains_a_change_is_passed_over(subject: str, body: str) -> None:
    told = cues.tell(subject, body)
    assert not (told.quotes and told.score >= cues.LEAST_SCORE)


@pytest.mark.parametrize(
    ("subject", "paths"),
    [
        ("Use buf.String() instead of string(buf.Bytes())", ["render.go"]),
        ("Replace magic numbers with named constants", ["codes.go"]),
        ("Move helpers from utils.py to models.py", ["shop/utils.py", "shop/models.py"]),
        ("Switch to explicit typing.Optional throughout", ["shop/models.py"]),
        ("Use a table instead of a list in the guide", ["docs/guide.md"]),
        ("Replace requests with a fake", ["tests/test_client.py"]),
        ("Add a deprecated test case", ["tests/test_old.py"]),
        ("Version 0.15.0", ["CHANGELOG.md", "shop/__init__.py"]),
        ("Use one loop instead of two", ["shop/loop.py"]),
    ],
)
def test_work_on_the_form_of_the_code_or_around_it_is_no_decision(subject: str, paths: list[str]) -> None:
    told = cues.tell(subject, "", of=touched(paths))
    assert not (told.quotes and told.score >= cues.LEAST_SCORE)


@pytest.mark.parametrize(
    ("subject", "body", "paths"),
    [
        ("Use crc instead of buffer-crc32", "", ["package.json", "lib/response.js"]),
        ("Replace `route` with `Router::new().route()`", "", ["CHANGELOG.md", "src/routing.rs"]),
        ("Use one loop instead of two", "Because the second one starved the first.", ["shop/loop.py"]),
        ("Deprecate URL.is_ssl", "", ["httpx/_models.py"]),
        ("Remove `strict` parameter", "", ["requests/models.py"]),
        ("Enable tracing by default", "", ["CHANGELOG.md", "Cargo.toml"]),
        ("Drop support go1.10", "", ["gin.go"]),
    ],
)
def test_what_changes_a_dependency_an_interface_or_a_default_is_a_decision(
    subject: str, body: str, paths: list[str]
) -> None:
    told = cues.tell(subject, body, of=touched(paths))
    assert told.score >= cues.LEAST_SCORE and told.quotes


def test_the_sentence_that_gives_the_reason_is_quoted_whole() -> None:
    body = (
        "Lines are wrapped\nwhere they please. We use SQLite instead of\na server because one machine is enough.\n\n"
        "Signed-off-by: A <a@x>"
    )
    told = cues.tell("Use SQLite", body)
    assert "We use SQLite instead of a server because one machine is enough." in told.quotes
    assert told.alternatives == ("a server",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Replace requests with aiohttp", ("requests",)),
        ("Switch from Kafka to PostgreSQL", ("Kafka",)),
        ("Drop the XML reader in favor of JSON", ("the XML reader",)),
        ("We chose Redis rather than Memcached.", ("Memcached",)),
        ("Nothing of that kind", ()),
    ],
)
def test_what_was_not_chosen_is_named(text: str, expected: tuple[str, ...]) -> None:
    assert cues.alternatives(text) == expected


def test_a_revert_names_what_it_takes_back() -> None:
    body = (
        "This reverts commit 0123456789abcdef0123456789abcdef01234567.\n\nIt broke sign-in for half of the customers."
    )
    assert cues.reverted('Revert "Use sessions"', body) == ("Use sessions", "0123456789abcdef0123456789abcdef01234567")
    assert cues.reason_of_revert(body) == "It broke sign-in for half of the customers."
    assert cues.reverted('Revert "Revert "Use sessions""', "") == ('Revert "Use sessions"', "")
    assert cues.reverted("Revert: Use sessions ", "") == ("Use sessions", "")
    assert cues.reverted("Revertible changes", "") is None


@pytest.mark.parametrize(
    ("subject", "reason", "paths", "is_one"),
    [
        ('Revert "Switch from mpsc to crossbeam-channel"', "It was slower.", ["src/walk.rs"], True),
        ('Revert "Drop support for sockets" (#12)', "", ["src/net.c"], True),
        ('Revert "Limit the size of requests" (#12)', "", ["src/net.c"], True),
        ("Revert back to registering implicit handlers", "Pages were not found.", ["group.go"], True),
        ("Revert -X stuff", "", ["src/exec.rs"], False),
        ("Revert last change, the string is consistent", "", ["src/make.py"], False),
        ('Revert "Update docs/Pipfile.lock"', "", ["docs/Pipfile.lock"], False),
        ('Revert "Skip slow tests on JRuby" (#2186)', "", ["test/spec_deflater.rb"], False),
        ('Revert "Bump mkdocs-material from 9.1 to 9.2"', "", ["requirements.txt"], False),
        ('Revert "Add io.js support to .travis.yml"', "", [".travis.yml"], False),
        ('Revert "Revert "closes #605""', "", ["echo.go"], False),
        ('Revert "Fixed #1078"', "", ["router.go"], False),
    ],
)
def test_a_revert_is_a_decision_where_what_it_takes_back_was_one_or_a_reason_is_given(
    subject: str, reason: str, paths: list[str], is_one: bool
) -> None:
    found = cues.reverted(subject, "")
    assert found is not None
    assert (cues.of_revert(found[0], reason, of=touched(paths)).score >= cues.LEAST_SCORE) is is_one


def test_titles_lose_prefixes_and_numbers() -> None:
    assert cues.title_of("feat(api)!: drop the old path (#41)") == "Drop the old path"
    assert cues.pull_number("Drop the old path (#41)") == "41"
    assert cues.pull_number("Merge pull request #7 from x/y") == "7"


def test_sentences_leave_out_code_and_trailers() -> None:
    text = "One thing. Another:\n\n```\nbecause code\n```\n- a point\n- b point\nCo-authored-by: X <x@y>"
    assert list(sentences(text)) == ["One thing.", "Another:", "a point", "b point"]


def test_blocks_know_their_lines_and_headings() -> None:
    lines = ["# Top", "", "Two", "lines.", "", "## Build", "", "```", "make", "```", "- item"]
    found = [(block.text, block.start_line, block.end_line, block.heading) for block in blocks(lines)]
    assert found == [
        ("Top", 1, 1, "Top"),
        ("Two lines.", 3, 4, "Top"),
        ("Build", 6, 6, "Build"),
        ("make", 8, 10, "Build"),
        ("item", 11, 11, "Build"),
    ]


def test_a_long_first_sentence_is_cut_at_a_word() -> None:
    cut = first_sentence("word " * 100)
    assert len(cut) <= 240 and cut.endswith("word…")
