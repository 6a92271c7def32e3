"""Proves what items say of the request that they are in, and which tools a choice leaves."""

from typing import Any

import pytest

from holdfast.core.errors import Invalid
from holdfast.features.responses.items import input_items, translate

Json = dict[str, Any]
LOOK: Json = {"type": "function", "name": "look"}
FIND: Json = {"type": "function", "name": "find", "description": "Old."}
SPACE: Json = {"type": "namespace", "name": "files", "tools": [{"type": "function", "name": "read"}]}
SEARCH: Json = {"type": "web_search_preview"}
USER: Json = {"role": "user", "content": "Hi"}


def asked(*items: Json, history: tuple[Json, ...] = (), **request: Any) -> Json:
    return translate(request, input_items([*items, USER]), history).body


def names(body: Json) -> list[str]:
    return [tool["function"]["name"] if tool["type"] == "function" else tool["type"] for tool in body["tools"]]


def test_tools_that_items_add_are_offered() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [{**FIND, "description": "New."}, SPACE]}
    body = asked(added, tools=[FIND, LOOK])

    assert names(body) == ["look", "find", "files.read"]
    assert body["tools"][1]["function"]["description"] == "New."
    assert names(asked(history=(added,))) == ["find", "files.read"]
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_the_last_change_of_a_setting_holds() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {}}
    changes = [
        {"type": "configuration_update", "reasoning": {"effort": "low"}, "text": {"format": form}},
        {"type": "configuration_update", "reasoning": {"effort": "high"}},
    ]
    body = asked(*changes, reasoning={"effort": "medium", "summary": "auto"}, text={"verbosity": "low"})

    assert (body["reasoning_effort"], body["verbosity"]) == ("high", "low")
    assert body["response_format"]["json_schema"] == {"name": "n", "schema": {}}


@pytest.mark.parametrize(
    ("named", "left"),
    [
        ([{"type": "function", "name": "look"}], ["look"]),
        ([{"type": "function", "name": "read", "namespace": "files"}, {"type": "web_search"}], ["files.read", "web"]),
        ([{"type": "namespace", "name": "files"}], ["files.read"]),
    ],
)
def test_only_tools_that_are_allowed_are_offered(named: list[Json], left: list[str]) -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": named}
    body = asked(tools=[LOOK, FIND, SPACE, SEARCH], tool_choice=choice)

    assert [name.partition("_")[0] for name in names(body)] == left
    assert body["tool_choice"] == "required"


def test_a_choice_that_leaves_no_tool_is_refused_by_its_name() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "read"}]}
    with pytest.raises(Invalid) as wrong:
        asked(tools=[LOOK, SPACE], tool_choice=choice)

    assert wrong.value.fields[0].field == "tool_choice.tools"


def test_a_choice_of_nothing_holds_for_what_runs_here_too() -> None:
    assert asked(tools=[SEARCH], tool_choice="none")["tool_choice"] == "none"
    assert "tool_choice" not in asked(tools=[SEARCH], tool_choice="auto")


def test_what_only_responses_knows_reaches_no_chat() -> None:
    own: Json = {
        "context_management": [{"type": "compaction"}],
        "moderation": {},
        "prompt_cache_options": {"ttl": "12h"},
    }

    assert set(asked(**own, top_p=0.5)) == {"messages", "top_p"}
