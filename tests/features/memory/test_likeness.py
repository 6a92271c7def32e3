"""Proves, with the model that ships, which statements repeat and which contradict each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.likeness import LABELS, PAIRS, judged, scores
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.writing.likeness import contradiction, read, repeats
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.memories import memory_world
from tests.support.properties import examples

REPEATED = [
    ("The team meets every morning at nine", "Our team meets each morning at nine"),
    ("Use pnpm rather than npm", "Prefer pnpm over npm"),
    ("User likes dark mode", "The user prefers dark mode"),
    ("The search index is rebuilt nightly", "The search index gets rebuilt every night"),
    ("The deployment window is 22:00 UTC on Tuesdays", "Deployment window is Tuesdays at 22:00 UTC"),
    ("The API is limited to 100 req/min", "The API is limited to 100 requests per minute"),
    ("Rate limit: 100 req/min", "The rate limit is 100 requests per minute"),
    ("This project uses pnpm", "Use pnpm, not npm"),
    ("CI runs on GitHub Actions", "We use GitHub Actions for CI"),
    ("Our CI is GitHub Actions", "CI runs on GH Actions"),
    ("Error reports go to Sentry", "We send errors to Sentry"),
    ("API keys expire after 90 days", "An API key is valid for 90 days"),
    ("Kim reports to Lee", "Lee is Kim's manager"),
    ("The suite needs Node 20", "Node 20 is what the suite needs"),
    ("User prefers tabs over spaces", "The user likes tabs better than spaces"),
    ("Retention of audit logs is seven years", "Audit logs are kept for 7 years"),
    ("The nightly job deletes old tickets", "Old tickets get removed by the nightly job"),
    ("Customer data must never leave the EU", "Customer data has to stay within the EU"),
]
CHANGED = [
    ("We deploy on Tuesdays", "We deploy on Thursdays"),
    ("We use postgres for billing", "We use mysql for billing"),
    ("The office is in Berlin", "The office moved to Munich"),
    ("User likes dark mode", "The user prefers light mode"),
    ("We use Redis for caching", "We no longer use Redis for caching"),
    ("Sprint length is two weeks", "Sprint length is now three weeks"),
    ("CI runs on CircleCI", "CI runs on GitHub Actions"),
    ("We use CircleCI for CI", "CI runs on GitHub Actions"),
    ("Payments are handled by Stripe", "We process payments through Adyen"),
    ("My favourite colour is green", "Blue is my favourite colour"),
    ("Elena leads the data team", "The data team is led by Marco"),
    ("This project uses npm", "Use pnpm, not npm"),
    ("User prefers tabs over spaces", "User prefers spaces over tabs"),
    ("Ana likes tea better than coffee", "Ana likes coffee better than tea"),
]
UNRELATED = [
    ("We use tabs for indentation", "The API uses OAuth2"),
    ("Bob joined the team in May", "Carol joined the team in June"),
    ("The backend is written in Go", "The frontend is written in TypeScript"),
    ("Unit tests take 3 minutes", "Integration tests take 12 minutes"),
    ("Unit tests take 2 min", "Integration tests take 2 min"),
    ("CI runs on GitHub Actions", "CI runs on every push"),
    ("The lunch break is 30 minutes", "The coffee break is 30 minutes"),
    ("The CEO is on vacation in July", "The CTO is on vacation in July"),
]


@pytest.mark.slow
async def test_the_shipped_model_tells_repetition_from_change_from_another_subject(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    embedder = MiniLmEmbedder()
    try:
        world = await memory_world(
            sqlite_database, clock, workspaces=len(REPEATED + CHANGED + UNRELATED), embedder=embedder
        )
        spaces = iter(world.workspace_ids)
        for old, new in REPEATED + CHANGED + UNRELATED:
            workspace_id = next(spaces)
            first = await world.memory.save(world.agent, workspace_id, NewMemory(old))
            second = await world.memory.save(world.agent, workspace_id, NewMemory(new))
            assert first.memory is not None
            assert second.outcome == ("duplicate" if (old, new) in REPEATED else "saved"), new
            candidates = [each.memory.id for each in second.contradicts]
            assert candidates == ([first.memory.id] if (old, new) in CHANGED else []), new
    finally:
        await embedder.close()


FLOOR = {"duplicate": (0.97, 0.83), "contradiction": (0.91, 0.89), "neither": (0.75, 0.9)}
"""Precision and recall on the held-out half; measured were 1.00 and 0.85, 0.93 and 0.90."""


@pytest.mark.slow
async def test_the_held_out_pairs_are_told_apart_as_well_as_was_measured(sqlite_database: SqliteDatabase) -> None:
    held_out = [pair for pair in PAIRS if pair.half == "held out"]
    reached = scores(held_out, await judged(sqlite_database, held_out))
    for label, (precision, recall) in FLOOR.items():
        score = next(score for name, score in reached.items() if name == label)
        assert score.precision >= precision and score.recall >= recall, (label, score)


def test_the_labelled_pairs_are_many_of_each_kind_in_both_halves_and_none_twice() -> None:
    assert len(PAIRS) >= 200
    assert len({(pair.old, pair.new) for pair in PAIRS}) == len(PAIRS)
    for half in ("tuned", "held out"):
        for label in LABELS:
            assert sum(pair.half == half and pair.label == label for pair in PAIRS) >= 60


def test_a_number_or_a_name_that_differs_is_never_a_repetition() -> None:
    for old, new in (("The API uses port 8080", "The API uses port 8081"), ("Ask Alice first", "Ask Bob first")):
        assert not repeats(read(new), read(old), 0.99)
        assert contradiction(read(new), read(old), 0.99)


def test_saying_less_repeats_and_saying_more_does_not() -> None:
    long, short = "Backups run every day at 03:00 UTC", "Backups run every day"
    assert repeats(read(short), read(long), 0.95)
    assert not repeats(read(long), read(short), 0.95)


def test_what_holds_within_bounds_does_not_cover_what_is_said_of_all() -> None:
    """'60 seconds in staging' does not say that it is 60 seconds everywhere."""
    assert not repeats(read("The cache TTL is 60 seconds"), read("The cache TTL is 60 seconds in staging"), 0.95)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The timeout is 60 seconds", "The timeout is 1 minute"),
        ("The call starts at 3 pm", "The call starts at 15:00"),
        ("The gala is on 4 March 2027", "The gala is on March 4, 2027"),
        ("The gala is on 2027-03-04", "The gala is on 4 March 2027"),
        ("The limit is 10,000 rows", "The limit is 10k rows"),
        ("Backups run daily", "Backups run every day"),
        ("The choir meets every other week", "The choir meets fortnightly"),
        ("The disk has 2 TB", "The disk has 2000 GB"),
        ("The shop is closed on Sundays", "The shop isn't open on Sundays"),
        ("Ann owns billing", "Billing is owned by Ann"),
    ],
)
def test_one_fact_in_two_spellings_is_one(one: str, other: str) -> None:
    assert repeats(read(one), read(other), 0.8) and repeats(read(other), read(one), 0.8)


def test_somebody_else_in_the_same_part_is_no_repetition() -> None:
    """However near: only a verb may be exchanged where a sentence is turned into the passive voice."""
    active, passive = read("The finance team approves refunds"), read("Refunds are approved by the support team")
    assert not repeats(active, passive, 0.99) and not repeats(passive, active, 0.99)
    assert not repeats(read("Tokens last one hour"), read("Access tokens last one hour"), 0.99)
    assert not repeats(read("Keep branches after the merge"), read("Branches are deleted after the merge"), 0.99)


def test_who_does_what_to_whom_matters() -> None:
    assert not repeats(read("Nina's boss is Omar"), read("Omar's boss is Nina"), 0.99)
    assert not repeats(read("Nina reports to Omar"), read("Omar reports to Nina"), 0.99)


@examples(40)
@given(st.text(max_size=300), st.text(max_size=300), st.floats(0, 1))
def test_any_two_texts_can_be_compared(one: str, other: str, cosine: float) -> None:
    repeats(read(one), read(other), cosine)
    contradiction(read(one), read(other), cosine)


def test_what_is_asked_for_before_and_done_after_does_not_contradict() -> None:
    old, new = (
        read("Pull requests need two approvals before merging"),
        read("A PR can only be merged after two approvals"),
    )
    assert contradiction(new, old, 0.7) is None
    assert contradiction(read("Lint after the tests"), read("Lint before the tests"), 0.9)


def test_a_second_requirement_does_not_contradict_the_first() -> None:
    ios = read("The mobile app requires iOS 16 or newer")
    assert contradiction(read("The mobile app requires Android 11 or newer"), ios, 0.8) is None
    assert contradiction(read("The mobile app requires iOS 17 or newer"), ios, 0.9)


def test_function_words_of_other_languages_say_nothing_of_their_own() -> None:
    old, new = read("La base de datos principal es MySQL 8"), read("Usamos MySQL 8 como base de datos principal")
    assert repeats(new, old, 0.9) and contradiction(new, old, 0.9) is None
    assert contradiction(read("La base de datos principal es PostgreSQL 16"), old, 0.9)
