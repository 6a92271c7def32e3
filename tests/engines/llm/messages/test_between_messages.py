"""Proves what is said between the messages of a conversation: instructions, tools that come and go, ends of caches."""

from typing import Any

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.llm.messages.chat_request import chat_body
from holdfast.engines.llm.messages.messages_request import messages_body
from holdfast.engines.llm.messages.words import chat_usage, messages_usage
from tests.fakes.llm.messages import check as check_messages

Json = dict[str, Any]
HELLO: Json = {"role": "user", "content": "Hi"}
ANSWER: Json = {"role": "assistant", "content": "Hello"}
MARK: Json = {"cache_control": {"type": "ephemeral"}}


def tool(name: str) -> Json:
    return {"name": name, "input_schema": {"type": "object", "properties": {}}}


def change(kind: str, **said: Any) -> Json:
    return {"type": f"tool_{kind}", "tool": said}


def asked(*messages: Json, **more: Any) -> Json:
    return chat_body({"max_tokens": 9, "messages": list(messages), **more})


def names(body: Json) -> list[str]:
    return [each["function"]["name"] for each in body.get("tools", [])]


def system(*blocks: Json, **more: Any) -> Json:
    return {"role": "system", "content": list(blocks), **more}


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ([change("removal", type="tool_reference", name="look")], ["find"]),
        (
            [
                change("removal", type="tool_reference", name="look"),
                change("addition", type="tool_reference", name="look"),
            ],
            ["find", "look"],
        ),
        ([change("addition", type="tool_definition", definition=tool("write"))], ["look", "find", "write"]),
        ([change("addition", type="tool_reference", name="unknown")], ["look", "find"]),
        ([change("removal", type="mcp_tool_reference", server_name="s", name="look")], ["look", "find"]),
        ([{"type": "tool_addition", "tool": None}], ["look", "find"]),
    ],
)
def test_tools_that_come_and_go_are_offered_as_they_are_in_the_end(changes: list[Json], offered: list[str]) -> None:
    tools = [tool("look"), tool("find")]
    made = asked(HELLO, system(*changes), ANSWER, HELLO, tools=tools)
    summary = {"role": "assistant", "content": [{"type": "compaction", "content": "Hi.", "tool_changes": changes}]}

    assert names(made) == offered
    assert [message["role"] for message in made["messages"]] == ["user", "assistant", "user"]
    assert names(asked(HELLO, summary, HELLO, tools=tools)) == offered


def test_the_last_tool_that_goes_leaves_no_empty_list() -> None:
    made = asked(HELLO, system(change("removal", type="tool_reference", name="look")), tools=[tool("look")])

    assert "tools" not in made


def test_a_tool_that_only_anthropic_knows_is_refused_where_it_is_defined() -> None:
    added = change("addition", type="tool_definition", definition={"type": "bash_20250124", "name": "bash"})
    with pytest.raises(Invalid, match=r"messages\.1\.content\.1\.tool\.definition\.type"):
        asked(HELLO, system({"type": "text", "text": "You may run it."}, added))


def test_instructions_for_one_turn_are_gone_with_the_next_question() -> None:
    for_now = system({"type": "text", "text": "Be short."}, clear_at="next_user_message")
    kept = system({"type": "text", "text": "Be kind."}, clear_at="never")

    def told(*messages: Json) -> list[str]:
        return [each["content"] for each in asked(*messages)["messages"] if each["role"] == "system"]

    assert told(HELLO, for_now, kept) == ["Be short.", "Be kind."]
    assert told(HELLO, for_now, kept, ANSWER, HELLO) == ["Be kind."]


def test_an_effort_that_is_said_between_messages_holds_for_its_turn() -> None:
    more: Json = {"role": "system", "output_config": {"effort": "high"}}
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    low: Json = {"output_config": {"effort": "low"}, "tools": [tool("look")]}

    assert asked(HELLO, more, **low)["reasoning_effort"] == "high"
    assert asked(HELLO, more, called, result, **low)["reasoning_effort"] == "high"
    assert asked(HELLO, more, ANSWER, HELLO, **low)["reasoning_effort"] == "low"
    assert [each["role"] for each in asked(HELLO, more, **low)["messages"]] == ["user"]


def test_a_cache_cannot_be_filled_where_no_model_has_one() -> None:
    with pytest.raises(Invalid, match="max_tokens"):
        asked(HELLO, max_tokens=0)


def test_tokens_of_thought_are_told_on_both_wires() -> None:
    chat = {"prompt_tokens": 5, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}
    told = messages_usage(chat)

    assert told["output_tokens_details"] == {"thinking_tokens": 7}
    assert chat_usage(told)["completion_tokens_details"] == {"reasoning_tokens": 7}
    assert "output_tokens_details" not in messages_usage({"completion_tokens": 9, "completion_tokens_details": None})


@pytest.mark.parametrize(
    "mark", [MARK, {"prompt_cache_breakpoint": {"mode": "explicit"}}], ids=["Anthropic's word", "OpenAI's"]
)
def test_where_a_cache_ends_is_told_to_a_model_that_has_one(mark: Json) -> None:
    made = messages_body(
        {
            "messages": [
                {
                    "role": "system",
                    "content": [{"type": "text", "text": "Long rules.", **mark}, {"type": "text", "text": ""}],
                },
                {"role": "user", "content": [{"type": "text", "text": "Hi", **mark}]},
            ],
            "tools": [{"type": "function", "function": {"name": "look"}, **MARK}],
        }
    )

    assert made["system"] == [{"type": "text", "text": "Long rules.", **MARK}]
    assert made["messages"][0]["content"] == [{"type": "text", "text": "Hi", **MARK}]
    assert made["tools"][0]["cache_control"] == MARK["cache_control"]
    assert check_messages({**made, "model": "m"}) == ""


def test_who_asks_is_told_by_the_new_name_too() -> None:
    assert messages_body({"messages": [HELLO], "safety_identifier": "u1"})["metadata"] == {"user_id": "u1"}


def test_blanks_beside_a_picture_are_left_out() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    made = messages_body({"messages": [{"role": "user", "content": [{"type": "text", "text": " "}, picture]}]})

    assert [block["type"] for block in made["messages"][0]["content"]] == ["image"]
