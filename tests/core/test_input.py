"""Ids, cursors, settings and times: whatever comes in, it is read one way or refused with a name."""

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from holdfast.core.clock import iso, parse_time
from holdfast.core.errors import Invalid
from holdfast.core.ids import is_id, new_id, workspace_id_of
from holdfast.core.paging import decode_cursor, encode_cursor
from holdfast.core.settings import Settings, SettingsError, load, rows
from holdfast.core.text.fields import invalid
from holdfast.core.text.slugs import is_slug, slug_of


class Named(BaseModel):
    name: str


def test_ids_sort_by_the_time_they_were_made() -> None:
    made = [new_id("mem") for _ in range(3)]
    assert all(is_id("mem", id) for id in made)
    assert len(set(made)) == 3
    assert uuid.UUID(made[0].removeprefix("mem_")).version == 7


@given(st.uuids())
def test_both_spellings_of_a_workspace_are_one(id: uuid.UUID) -> None:
    assert workspace_id_of(str(id)) == workspace_id_of(f"ws_{id.hex}") == f"ws_{id.hex}"


@given(st.text(max_size=60))
def test_no_other_text_is_a_workspace(text: str) -> None:
    found = workspace_id_of(text)
    assert found is None or (is_id("ws", found) and text.lower().replace("-", "").endswith(found[3:]))


@given(st.lists(st.one_of(st.text(max_size=50), st.integers(-(2**62), 2**62)), min_size=1, max_size=4))
def test_a_cursor_comes_back_as_it_was(position: list[str | int]) -> None:
    cursor = encode_cursor(*position)
    assert decode_cursor(cursor, *(type(value) for value in position)) == position


@given(st.text(max_size=200))
def test_any_other_cursor_is_refused_by_name(text: str) -> None:
    try:
        assert isinstance(decode_cursor(text, str)[0], str)
    except Invalid as refused:
        assert [wrong.field for wrong in refused.fields] == ["cursor"]


@given(st.text(max_size=200))
def test_a_slug_is_a_slug_whatever_the_title(text: str) -> None:
    assert is_slug(slug_of(text, fallback="x"))


@given(st.integers(0, 4_102_444_800_000))
def test_a_time_is_read_as_it_is_written(millis: int) -> None:
    assert parse_time(iso(millis), "at") == millis


@given(st.text(max_size=40))
def test_any_other_time_is_refused_by_name(text: str) -> None:
    try:
        parse_time(text, "at")
    except Invalid as refused:
        assert [wrong.field for wrong in refused.fields] == ["at"]


def test_settings_come_from_a_file_and_the_environment_wins(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('port = 9000\nallowed_hosts = ["a.example", "b.example"]\nmcp_enabled = false\n')
    loaded = load({"HOLDFAST_CONFIG": str(file), "HOLDFAST_PORT": "9001"})
    assert (loaded.port, loaded.allowed_hosts, loaded.mcp_enabled) == (9001, ("a.example", "b.example"), False)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"HOLDFAST_PROT": "1"}, "HOLDFAST_PROT"),
        ({"HOLDFAST_PORT": "many"}, "HOLDFAST_PORT"),
        ({"HOLDFAST_PORT": "70000"}, "HOLDFAST_PORT"),
        ({"XEROTIER_MCP_TRANSPORT": "pigeon"}, "XEROTIER_MCP_TRANSPORT"),
        ({"XEROTIER_MCP_SESSION_TTL_SECONDS": "0"}, "XEROTIER_MCP_SESSION_TTL_SECONDS"),
        ({"HOLDFAST_DATABASE_URL": "mysql://x"}, "HOLDFAST_DATABASE_URL"),
        ({"HOLDFAST_JWT_SECRET": "short"}, "HOLDFAST_JWT_SECRET"),
        ({"HOLDFAST_CONFIG": "/nonexistent/holdfast.toml"}, "/nonexistent/holdfast.toml"),
        ({"HOLDFAST_WEB_SEARCH": "brave"}, "HOLDFAST_WEB_SEARCH_KEY"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_is_named(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environ)
    assert named in refused.value.message


@given(st.dictionaries(st.sampled_from([row.env for row in rows()]), st.text(max_size=20)))
def test_settings_are_read_or_refused_never_half(environ: dict[str, str]) -> None:
    try:
        assert isinstance(load(environ), Settings)
    except SettingsError as refused:
        assert any(name in refused.message for name in environ)


@pytest.mark.parametrize("text", ["0007-03-02", "0999-12-31T23:59:59.999Z", "9999-12-31"])
def test_early_and_late_years_are_shown_as_they_were_written(text: str) -> None:
    assert iso(parse_time(text, "at")).startswith(text.removesuffix("Z"))


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_moment_beyond_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_time(text, "at")


def test_a_value_that_is_no_object_is_told_so_in_plain_words() -> None:
    with pytest.raises(ValidationError) as wrong:
        Named.model_validate([])
    assert [field.message for field in invalid(wrong.value).fields] == ["write a JSON object"]
