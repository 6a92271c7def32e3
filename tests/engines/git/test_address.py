"""Owns the proof that a location is understood one way, keeps no secret, and never runs anything."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.git.transport.address import BadLocation, is_path, parse_location, split_credentials
from tests.support.access.credentials import credential
from tests.support.properties import examples


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "path", "kept"),
    [
        ("https://GitHub.com/o/r.git", "https", "github.com", None, "/o/r.git", "https://github.com/o/r.git"),
        ("http://h.example:8080/r", "http", "h.example", 8080, "/r", "http://h.example:8080/r"),
        ("git://h.example/~u/r.git", "git", "h.example", None, "/~u/r.git", "git://h.example/~u/r.git"),
        ("ssh://git@h.example:22/r.git", "ssh", "h.example", 22, "/r.git", "ssh://git@h.example:22/r.git"),
        ("git+ssh://git@h.example/r.git", "ssh", "h.example", None, "/r.git", "ssh://git@h.example/r.git"),
        ("git@github.com:o/r.git", "ssh", "github.com", None, "/o/r.git", "git@github.com:o/r.git"),
        ("  https://h.example/r  ", "https", "h.example", None, "/r", "https://h.example/r"),
        ("https://[2001:db8::1]:8443/r", "https", "2001:db8::1", 8443, "/r", "https://[2001:db8::1]:8443/r"),
        ("https://münchen.example/r", "https", "xn--mnchen-3ya.example", None, "/r", None),
    ],
)
def test_urls_are_taken_apart(text: str, scheme: str, host: str, port: int | None, path: str, kept: str | None) -> None:
    location = parse_location(text)
    assert (location.scheme, location.host, location.port, location.path) == (scheme, host, port, path)
    assert not location.is_local
    if kept is not None:
        assert location.text == kept
        # What is kept is understood the same way again.
        assert parse_location(location.text) == location


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "-u", "--upload-pack=touch /tmp/x", "-", "ext::sh -c touch%20/tmp/x", "fd::17", "::x", "a::b"),
        *("file:///etc", "FILE:///etc", "ftp://h.example/r", "javascript://x/y", "rsync://h.example/r", "s3://b/r"),
        *("https://", "https:///r", "https://h.example", "https://h.example/", "https://h.example/r?x=1"),
        *("https://h.example/r#x", "https://-h.example/r", "https://h.example:0/r", "https://h.example:99999/r"),
        *("https://h.example:x/r", "https://127.1/r", "https://0x7f.0.0.1/r", "https://2130706433/r", "https://h%2e/r"),
        *("https://h.example/r\nx", "https://h.example/r\0", "https://h.example/\x1b[2J", "https://h.example/\x85"),
        *(
            "C:\\repo",
            "C:/repo",
            "c:",
            "C:repo",
            "C:ext::x",
            "\\\\host\\share",
            "//host/share",
            "https://h.example\\@evil.example/r",
        ),
        *("git@-oProxyCommand=x:r", "git@h.example:-x", "-oProxyCommand=x@h.example:r", "h.example:", "user@:r"),
        *("https://a b@h.example/r", "https://h.example/\ud800", "nothing-like-a-repository", "/no/such/directory"),
        *("./nothing", "~nobody-here/x", "https://u:p@/r", "ssh://h.example", "git://"),
        "https://h.example/" + "x" * 5_000,
    ],
)
def test_what_could_be_a_trick_is_refused(text: str) -> None:
    with pytest.raises(BadLocation) as refusal:
        parse_location(text)
    assert [field.field for field in refusal.value.fields] == ["location"]


def test_credentials_in_a_url_are_split_off_and_not_kept() -> None:
    location, credentials = split_credentials("https://robot:s3cret%40x@h.example/r.git")
    assert location.text == "https://h.example/r.git"
    assert "s3cret" not in repr(location)
    assert credentials is not None
    assert (credentials.username, credentials.token) == ("robot", credential("s3cret@x", "https://h.example/r"))
    assert "s3cret" not in repr(credentials)


def test_a_token_in_the_place_of_a_user_name_is_a_secret_too() -> None:
    location, credentials = split_credentials("https://ghp_0123456789abcdefghijkl@github.com/o/r.git")
    assert "ghp_" not in repr(location)
    assert credentials is not None
    assert credentials.token == credential("ghp_0123456789abcdefghijkl", "https://github.com/r")


def test_no_refusal_repeats_a_password() -> None:
    for text in (
        "https://u:hunter2hunter2@h.example:x/r",
        "https://u:hunter2hunter2@/r",
        "ftp://u:hunter2@h.example/r",
    ):
        with pytest.raises(BadLocation) as refusal:
            parse_location(text)
        assert "hunter2" not in refusal.value.message + refusal.value.fields[0].message


def test_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "with:colon").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for text in (str(tmp_path / "repo"), "repo", "./repo", "~/repo", "repo/../repo"):
        location = parse_location(text)
        assert (location.is_local, location.path, location.text) == (True, str(tmp_path / "repo"), location.path)
        assert (location.scheme, location.host, location.port) == ("", "", None)
    assert parse_location("with:colon").is_local
    (tmp_path / "file").touch()
    with pytest.raises(BadLocation):
        parse_location("./file")
    assert [is_path(text) for text in ("/x", "./x", "~", "x", "https://x/y")] == [True, True, True, False, False]


_WORDS = (
    "https:// http:// git:// ssh:// ext:: file:// git@ user:pass@ h.example 127.0.0.1 :22 : / // - -- .. %2f é ?x #y"
)
_PIECES = st.sampled_from([*_WORDS.split(), "[::1]", "r.git", "@", "C:", "\\", "\n", "\0", " "])


@examples(400)
@given(st.one_of(st.lists(_PIECES, max_size=8).map("".join), st.text(max_size=60)))
def test_any_text_is_refused_or_understood_for_good(text: str) -> None:
    try:
        location, credentials = split_credentials(text)
    except BadLocation:
        return
    assert parse_location(location.text) == location or location.username
    assert "\n" not in location.text
    assert "\0" not in location.text
    if not location.is_local:
        assert location.scheme in ("http", "https", "git", "ssh")
        assert location.host
        assert not location.host.startswith("-")
        assert not location.text.startswith("-")
        assert "::" not in location.text.partition("/")[0].partition("[")[0]
        if credentials is not None and credentials.token:
            assert f":{credentials.token}@" not in location.text
