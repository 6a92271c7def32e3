"""Credentials are left out of text, and text that has none stays as it is."""

from base64 import urlsafe_b64encode
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ids import new_id, new_uuid
from holdfast.core.text.redaction import MASK, redacted, redacted_path
from tests.support.properties import examples

KEY = "xero_0197aaaabbbbccccddddeeeeffff0000_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9nP2r"
TOKEN = "e-H2G0PO_HagDv1o0Vbe8lHPEYLr0mNrSKF9SsNLcTA"
SECRETS = {
    "project key": KEY,
    "project key, cut": KEY[:60],
    "organization key": "ks_live_" + "0f" * 32,
    "organization key, cut": "ks_live_" + "0f" * 6,
    "link, cookie, csrf": TOKEN,
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "GitHub token": "ghp_" + "aB3dE6gH9j" * 4,
    "OpenAI key": "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT",
    "master key": "5a" * 32,
}
AROUND = [
    "{}",
    "/{}",
    "/api/workspaces/{}/memories",
    "failed at {}.",
    "'{}'",
    "GET /x/{}?y HTTP/1.1",
    '{{"token": "{}"}}',
    "Bearer {}",
    "https://user:{}@host/x",
    "a={}&b",
    "[{}]",
    "key {} of",
    "\n{}\n",
    "Authorization: Bearer {}\r\n",
    "Cookie: holdfast_session={}; a=b",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@pytest.mark.parametrize("around", AROUND)
def test_a_credential_is_left_out_wherever_it_stands(secret: str, around: str) -> None:
    clean = redacted(around.format(secret))
    assert secret not in clean and secret[-12:] not in clean
    assert MASK in clean


@pytest.mark.parametrize(
    "text",
    [
        "/sign-in?link=short",
        "GET /x?key=hunter2",
        "password=hunter2",
        '{"password": "hunter2"}',
        "?code=abc&state=def",
        "Cookie: a=1; b=2",
        "authorization: Basic dXNlcjpwYXNz",
        "postgresql://holdfast:hunter2@db/holdfast",
        "{'secret': 'x1'}",
        "('authorization', 'Bearer abc')",
    ],
)
def test_what_is_named_as_a_credential_is_left_out_however_short(text: str) -> None:
    clean = redacted(text)
    for value in ("hunter2", "=short", "=abc", "=def", "a=1", "dXNlcjpwYXNz", "'x1'", "Bearer abc"):
        assert value not in clean
    assert MASK in clean


def test_a_private_key_is_left_out_whole() -> None:
    text = "read:\n-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----\nafter"
    assert redacted(text) == f"read:\n{MASK}\nafter"
    assert redacted(text[:60]) == f"read:\n{MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "/api/workspaces/ws_0197aaaabbbbccccddddeeeeffff0000/memories/mem_0197aaaabbbbccccddddeeeeffff0000",
        "The job job_0197aaaabbbbccccddddeeeeffff0000 (repositories.sync) failed at attempt 2: no answer in time",
        "commit 1e68cee90a58172b1a45ccd8ceb0b3c10bac040c",
        "/proj_0197aaaabbbbccccddddeeeeffff0000/v1/mcp",
        "HttpToolsProtocol.on_headers_complete raised HttpParserInvalidURLError",
        "test_a_core_key_reads_no_decisions_over_rest",
        'File "/work/src/holdfast/surfaces/http/authentication.py", line 88, in _authenticate',
        "0197aaaa-bbbb-7ccc-8ddd-eeeeffff0000",
        "a-long-branch-name-with-words/and-more-words-2026",
        "psycopg.errors.UniqueViolation: duplicate key value violates",
        "background work failed; it starts again",
        "Leases of jobs could not be prolonged: the database is away",
        "/api/workspaces/ws_1/documents/Quarterly-Report-2026-Final.pdf",
        "THE_SETTING_WITH_A_LONG_NAME_SECONDS",
    ],
)
def test_text_without_credentials_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text
    assert redacted_path(text) == text


def test_a_key_that_was_escaped_again_is_left_out_of_a_path() -> None:
    assert redacted_path("/api/" + KEY.replace("_", "%5F")) == f"/api/{MASK}"
    assert redacted_path("/api/100%25") == "/api/100%25"


def test_tokens_of_ours_are_recognised_whatever_they_are_drawn_as() -> None:
    dice = Random(7)
    drawn = [urlsafe_b64encode(dice.randbytes(32)).rstrip(b"=").decode() for _ in range(5000)]
    missed = [token for token in drawn if token in redacted(f"/approve/{token}")]
    assert missed == []


def test_ids_of_ours_are_never_taken_for_tokens() -> None:
    for _ in range(500):
        path = f"/api/workspaces/{new_id('ws')}/documents/{new_uuid()}"
        assert redacted_path(path) == path


@examples(50)
@given(st.text(max_size=100))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


def test_redacting_costs_in_proportion_to_the_text() -> None:
    """Deep nesting of what almost matches must not take the log's time; it would hang here for minutes."""
    dice = Random(1)
    for piece in ("a", "xero_", "password", "://a:", "eyJ", "-----BEGIN ", "a_", "key=", '"', "A1b", "=", " "):
        assert redacted((piece * 10_000)[:30_000]) is not None
    assert redacted("".join(dice.choice("aA1_-=:/@.\" '") for _ in range(30_000))) is not None
