"""Owns the proof that what a question is about is told from how it asks, and found again in what answers it."""

import pytest

from holdfast.features.ask.question.topic import Action, AskedTopic, topic_of

NAMES = frozenset({"beacon"})


def topic(question: str, **weights: float) -> AskedTopic:
    return topic_of(question, question, weights, NAMES)


@pytest.mark.parametrize(
    ("question", "action", "terms"),
    [
        ("Which version dropped Python 3.7 support?", "remove", ["python", "3.7", "support"]),
        ("When did Beacon add gRPC support?", "add", ["grpc"]),
        ("When did Beacon get WebSockets?", "add", ["websocket"]),
        ("In which release was the cert argument deprecated?", "deprecate", ["cert"]),
        ("Why was the symlink change reverted?", "revert", ["symlink"]),
        ("Why did the client move from requests to httpx?", "move", ["client", "request", "httpx"]),
        ("Who introduced run_in_pool?", "add", ["run_in_pool"]),
        ("Why are redirects not followed?", None, ["redirect", "follow"]),
        ("What is Beacon?", None, ["beacon"]),
        ("Who added the RemoveCommand method?", "add", ["removecommand"]),
        ("When was support for the --version flag added?", "add", ["version", "flag"]),
    ],
)
def test_a_topic_has_what_was_done_and_to_what(question: str, action: Action | None, terms: list[str]) -> None:
    found = topic(question)
    assert (found.action, [term.whole for term in found.terms]) == (action, terms)


@pytest.mark.parametrize(
    ("question", "text", "heading", "answers"),
    [
        ("Which version dropped Python 3.7 support?", "Drop Python 3.7 support.", "", True),
        ("Which version dropped Python 3.7 support?", "Drop Python 3.6 support.", "", False),
        ("Which version dropped Python 3.7 support?", "Officially support Python 3.7.", "", False),
        ("Which version dropped Python 3.7 support?", "Python 3.7 support", "0.3 › Removed", True),
        ("When was StaticFiles removed?", "Drop support for StaticFile", "", False),
        ("When was StaticFiles removed?", "Fix StaticFiles for deleted files", "", False),
        (
            "When was StaticFiles removed?",
            "Remove the old check of relative paths below a root of StaticFiles",
            "",
            False,
        ),
        ("When was StaticFiles removed?", "`StaticFiles` has been removed", "", True),
        ("When was the GZip middleware added?", "GZip middleware (#111)", "", True),
        ("When was the GZip middleware added?", "Fix the GZip middleware", "", False),
        ("When were static files added?", "Add StaticFiles", "", True),
        ("When was the QUIC transport added?", "Add a transport", "", False),
        ("When was Go 1.12 support removed?", "Remove go1.12 support", "", True),
        ("When was Go 1.12 support removed?", "Remove go1.1 support", "", False),
        ("Which version dropped Python 2 support?", "Drop support for Python 3.7", "2.2.0", False),
        ("Which version dropped Python 2 support?", "Drop support for Python 2 and 3.5", "2.0.0", True),
        ("Which version dropped Node 18 support?", "Drop support for Node.js 16 and 18", "", True),
        ("What was added for HTTP/3?", "Add http3 by a library", "", True),
        ("What was added in version 5?", "Add streams (5.0.1)", "", True),
        ("When was the --version flag added?", "Add a flag for the version", "", False),
        ("When was the --version flag added?", "Add support for --version flag", "", True),
        ("Why was it rewritten in Rust?", "It was rewritten", "", False),
        ("Why did it move from requests to httpx?", "Use httpx instead of requests", "", True),
        ("Why did it move from requests to httpx?", "The httpx session makes requests", "", False),
    ],
)
def test_a_text_answers_where_it_names_the_thing_and_what_was_done(
    question: str, text: str, heading: str, answers: bool
) -> None:
    found = topic(question)
    assert (found.coverage(f"{heading}\n{text}") >= 0.6 and found.is_done(text, heading)) is answers


def test_rare_words_count_more() -> None:
    found = topic("When was the graphical interface added?", graphic=8.0, interfac=2.0)
    assert found.coverage("a better interface") == pytest.approx(0.2)
    assert found.coverage("a graphical view") == pytest.approx(0.8)


def test_what_was_not_chosen_need_not_be_named_beside_what_was() -> None:
    asked = topic("Why is libgit2 used instead of the git command?")
    assert asked.coverage("pygit2 (libgit2) reads and clones; it executes nothing.") == 1.0
    assert asked.coverage("The git command executes what a repository names.") == 0.0
