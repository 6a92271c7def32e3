"""Proves whose token a repository is cloned with: the operator's goes to the operator's own host and to no other."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.engines.git.transport.address import parse_location
from holdfast.features.repositories.access import RepositoryTokens
from holdfast.features.repositories.model import Repository
from holdfast.storage.database import Database
from tests.features.repositories.hosted import hosted
from tests.support.clock import MovableClock

PUBLIC = {"github": "https://api.github.com", "gitlab": "https://gitlab.com"}
OWN = {"github": "https://ghe.corp.example/api/v3", "gitlab": "https://lab.corp.example:8443"}
TOKENS = {"github": "the hub's", "gitlab": "the lab's"}


@pytest.mark.parametrize(
    ("urls", "location", "token"),
    [
        (PUBLIC, "https://github.com/o/r.git", "the hub's"),
        (PUBLIC, "https://www.github.com/o/r.git", "the hub's"),
        (PUBLIC, "https://gitlab.com/o/r.git", "the lab's"),
        (PUBLIC, "http://github.com/o/r.git", None),
        (PUBLIC, "git://github.com/o/r.git", None),
        (PUBLIC, "https://github.com:8443/o/r.git", None),
        (PUBLIC, "https://github.com.evil.example/o/r.git", None),
        (PUBLIC, "https://github.com@evil.example/o/r.git", None),
        (PUBLIC, "https://evil.example/github.com/r.git", None),
        (OWN, "https://ghe.corp.example/o/r.git", "the hub's"),
        (OWN, "https://lab.corp.example:8443/o/r.git", "the lab's"),
        (OWN, "https://www.ghe.corp.example/o/r.git", None),
        # The token of an Enterprise server is none of github.com's business.
        (OWN, "https://github.com/o/r.git", None),
        (OWN, "https://gitlab.com/o/r.git", None),
    ],
)
async def test_the_operators_token_goes_to_the_operators_host_only(
    sqlite_database: Database,
    clock: MovableClock,
    tmp_path: Path,
    urls: Mapping[str, str],
    location: str,
    token: str | None,
) -> None:
    world = await hosted(sqlite_database, clock, tmp_path)
    access = RepositoryTokens(sqlite_database, world.secrets, host_urls=urls, host_tokens=TOKENS)
    repository = replace(await world.add("https://git.example.org/o/r.git"), location=location)

    credentials = (await access.of(_as_kept(repository)))[1]

    place = parse_location(location).place
    assert (None if credentials is None else credentials.token.sent_to(place)) == token


def _as_kept(repository: Repository) -> Repository:
    """As the service keeps a location: without a user."""
    return replace(repository, location=parse_location(repository.location).text)
