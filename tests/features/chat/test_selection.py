"""Which tools a request asks for: the x_tools table row by row, and the fields around it."""

from typing import Any

import pytest

from holdfast.core.errors import Invalid
from holdfast.features.chat.turn.selection import RESEARCH, SELECTABLE, selected, tool_options, upstream_body

ALL = SELECTABLE


@pytest.mark.contract("XS-2")
@pytest.mark.parametrize(
    ("asked", "available", "offered"),
    [
        # Omitted or empty: the defaults.
        ((), ALL, ("web_search", "fetch_url")),
        # web_search brings fetch_url along, wherever it stands.
        (("web_search",), ALL, ("web_search", "fetch_url")),
        (("calculator", "web_search"), ALL, ("calculator", "web_search", "fetch_url")),
        (("fetch_url", "web_search"), ALL, ("fetch_url", "web_search")),
        (("fetch_url",), ALL, ("fetch_url",)),
        # Invalid names are ignored; all of them invalid is the defaults.
        (("bing", "calculator"), ALL, ("calculator",)),
        (("bing", "yahoo"), ALL, ("web_search", "fetch_url")),
        # Code search where it is enabled.
        (("code_search",), ALL, ("code_search",)),
        (("code_search", "calculator"), ALL - {"code_search"}, ("calculator",)),
        (("code_search",), ALL - {"code_search"}, ("web_search", "fetch_url")),
        (("gitlab_code_search",), ALL, ("gitlab_code_search",)),
        (("gitlab_code_search", "calculator"), ALL - {"gitlab_code_search"}, ("calculator",)),
        # File search where there are documents.
        (("file_search",), ALL, ("file_search",)),
        (("file_search", "calculator"), ALL - {"file_search"}, ("calculator",)),
        # The calculator is always there, and nothing is offered twice.
        (("calculator", "calculator"), ALL, ("calculator",)),
    ],
)
def test_the_x_tools_table_holds_row_by_row(
    asked: tuple[str, ...], available: frozenset[str], offered: tuple[str, ...]
) -> None:
    assert selected(asked, available) == offered


@pytest.mark.contract("XS-2")
def test_options_are_read_from_web_search_options_and_from_hosted_tools() -> None:
    assert not tool_options({"messages": []}).research
    plain = tool_options({"web_search_options": {}})
    assert (plain.research, plain.names, plain.context_size, plain.max_rounds) == (True, (), "medium", 5)
    asked = {"search_context_size": "high", "max_iterations": 8, "x_tools": ["calculator", 7, None]}
    for body in ({"web_search_options": asked}, {"tools": [{"type": "web_search_preview", **asked}]}):
        read = tool_options(body)
        assert (read.research, read.names, read.context_size, read.max_rounds) == (True, ("calculator",), "high", 8)
    files = tool_options({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1", "vs_2"]}]})
    assert (files.research, files.file_search, files.vector_store_ids) == (False, True, ("vs_1", "vs_2"))


@pytest.mark.contract("XS-4")
def test_a_request_may_ask_for_rounds_up_to_the_operators_cap() -> None:
    assert tool_options({"web_search_options": {"max_iterations": 8}}, max_rounds=6).max_rounds == 6
    assert tool_options({"web_search_options": {"max_iterations": 1}}).max_rounds == 1


def test_deep_think_enables_every_research_tool() -> None:
    read = tool_options({"web_search_options": {"x_deep_think": True, "x_tools": ["calculator"]}})
    assert read.deep_think
    assert read.names == RESEARCH


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"web_search_options": True}, "web_search_options"),
        ({"web_search_options": {"search_context_size": "huge"}}, "web_search_options.search_context_size"),
        ({"web_search_options": {"search_context_size": ["low"]}}, "web_search_options.search_context_size"),
        ({"web_search_options": {"max_iterations": 0}}, "web_search_options.max_iterations"),
        ({"web_search_options": {"max_iterations": True}}, "web_search_options.max_iterations"),
        ({"web_search_options": {"x_tools": "calculator"}}, "web_search_options.x_tools"),
        ({"web_search_options": {"x_deep_think": "yes"}}, "web_search_options.x_deep_think"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "file_search", "vector_store_ids": "vs_1"}]}, "tools[0].vector_store_ids"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(body: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        tool_options(body)
    assert caught.value.fields[0].field == field


@pytest.mark.contract("XS-3")
def test_the_clients_own_tools_go_upstream_and_ours_do_not() -> None:
    own = {"type": "function", "function": {"name": "mine"}}
    body = {
        "model": "m",
        "messages": [],
        "x_chat_id": "c",
        "x_unknown": 1,
        "web_search_options": {},
        "tools": [{"type": "web_search_preview"}, own, {"type": "file_search"}],
    }
    assert upstream_body(body) == {"model": "m", "messages": [], "x_unknown": 1, "tools": [own]}
    assert upstream_body({"tools": [{"type": "file_search"}]}) == {}
