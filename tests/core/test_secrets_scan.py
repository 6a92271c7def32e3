"""Proves which texts hold a credential, and that talk about credentials is not taken for one."""

import pytest

from holdfast.core.text.secrets_scan import first_secret_kind

# Written in pieces, so that no scanner takes this file for a leak.
HELD = [
    ("AWS access key id", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("API key", "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("GitHub token", "github_pat_" + "11ABCDEFG0abcdefghijkl_mnop"),
    ("GitLab token", "glpat-" + "abcdEFGH1234ijkl5678"),
    ("Slack webhook", "https://hooks.slack.com/" + "services/T0000AAAA/B0000AAAA/abcdefghijklmnopqrstuvwx"),
    ("OpenAI key", "sk-" + "abcdefghijklmnopqrst1234"),
    ("Google API key", "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"),
    ("Stripe key", "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"),
    ("private key", "-----BEGIN OPENSSH " + "PRIVATE KEY-----"),
    ("password", '{"db_password": "' + 'Tr0ub4dor&3"}'),
    ("password", "the password for the staging database is " + "Winter2024!"),
    ("bearer token", "Authorization: Bearer " + "a8Fk29dKq0Zx7Lm3Pq"),
    ("secret", "client_secret=" + "abcd1234efgh5678"),
]
HARMLESS = [
    "Passwords must have at least 12 characters and a digit",
    "The API key rotates weekly; see the runbook",
    "token: refreshed hourly",
    "secret = settings.jwt_secret",
    "password=${DB_PASSWORD}",
    "export API_KEY=<your key here>",
    "postgres://user:password@localhost/db is the documented example",
    "The commit is 3f2a9c1d7e8b4a6f9c0d1e2f3a4b5c6d7e8f9a0b",
    "max_tokens: 16000 and the token budget resets on Monday",
    "scikit-learn and sk-learn-contrib are packages",
    "The access token is stored in the keychain",
]


@pytest.mark.parametrize(("kind", "text"), HELD)
def test_a_credential_is_named_by_its_kind(kind: str, text: str) -> None:
    assert first_secret_kind([f"Before it. {text} and after it."]) == kind


@pytest.mark.parametrize("text", HARMLESS)
def test_talk_about_credentials_is_not_one(text: str) -> None:
    assert first_secret_kind([text]) is None


def test_the_first_of_several_texts_is_named() -> None:
    assert first_secret_kind(["nothing", HELD[0][1], HELD[2][1]]) == "AWS access key id"
    assert first_secret_kind([]) is None
