"""Properties of where secrets go: whatever an address looks like, the host that is checked is the one connected to."""

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.credential import Place
from holdfast.core.errors import Invalid
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.git.transport.address import parse_location
from holdfast.engines.llm.remote.connection import parse_base_url, request_head
from holdfast.features.secrets.hosts import checked_hosts
from holdfast.features.secrets.model import why_kept
from tests.support.properties import examples

GOOD = "good.example"
_PIECES = st.sampled_from(
    [
        *("https://", "http://", "HTTPS://", "https:", "//", "/", "\\", "@", ":", "::", "#", "?", "%", "."),
        *(GOOD, "GOOD.example", "good.example.", "evil.example", "evil", "good", "gооd.example", "good。example"),
        *(":443", ":80", ":8443", "[::1]", "127.0.0.1", "2130706433", "user", "user:pass", "%2e", "%40", "xn--good"),
        *("\t", " ", "\u00ad", "ß", "/v1", "/x.git", "-", "_", "*"),
    ]
)
_TEXTS = st.one_of(
    st.lists(_PIECES, max_size=9).map("".join),
    st.lists(_PIECES, max_size=6).map(lambda pieces: "https://" + "".join(pieces) + GOOD + "/x.git"),
    st.lists(_PIECES, max_size=6).map(lambda pieces: "https://" + GOOD + "".join(pieces) + "/x.git"),
)
BOUND = (GOOD,)


@examples(600)
@given(_TEXTS)
def test_an_upstream_gets_a_secret_only_where_its_connection_goes_to_the_secrets_host(text: str) -> None:
    try:
        origin, path = parse_base_url(text)
        head = request_head(origin, "POST", f"{path}/chat/completions")
    except Invalid:
        return
    if why_kept("KEY", BOUND, origin.place) is None:
        # What the resolver, the certificate check and the request line are given.
        assert (origin.host, origin.port, origin.tls, origin.authority) == (GOOD, 443, True, GOOD)
        assert f"\r\nhost: {GOOD}\r\n".encode() in head


@examples(600)
@given(_TEXTS)
def test_a_git_server_gets_a_token_only_where_its_clone_goes_to_the_secrets_host(text: str) -> None:
    try:
        location = parse_location(text)
    except Invalid:
        return
    if location.is_local or location.scheme not in ("http", "https"):
        assert location.is_local or why_kept("KEY", BOUND, location.place) is not None
        return
    with contextlib.suppress(Invalid):
        # The clone reads the address once more, from the text that is kept.
        again = parse_url(location.text)
        assert again.place == location.place
        if why_kept("KEY", BOUND, location.place) is None:
            assert (again.scheme, again.host, again.port) == ("https", GOOD, 443)


@examples(400)
@given(st.one_of(st.lists(_PIECES, max_size=5).map("".join), st.text(max_size=30)))
def test_a_host_that_is_kept_reads_the_same_again_and_covers_one_place(text: str) -> None:
    try:
        (kept,) = checked_hosts([text])
    except Invalid:
        return
    assert checked_hosts([kept]) == (kept,)
    place = parse_url(f"https://{kept}/").place
    assert place.name == kept
    others: list[Any] = [
        Place.at(place.host, place.port + 1, tls=True),
        Place.at(f"x{place.host}", place.port, tls=True),
        Place.at(f"{place.host}.evil.example", place.port, tls=True),
    ]
    assert why_kept("KEY", (kept,), place) is None
    assert all(why_kept("KEY", (kept,), other) is not None for other in others)
