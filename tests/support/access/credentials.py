"""Owns credentials for tests, made for the place that a URL names."""

from holdfast.core.credential import Credential
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.git.transport.address import parse_location


def credential(value: str, url: str) -> Credential:
    """A value that goes to the server of this URL and nowhere else."""
    place = parse_location(url).place if url.startswith("git://") else parse_url(url).place
    return Credential(value, place)
