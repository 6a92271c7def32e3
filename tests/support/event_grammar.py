"""The grammar of a Chat Completions stream: each event a letter, the whole stream one sentence, fields by type."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

Event = dict[str, Any] | str

_BEGINS = ("searching", "reading", "code_searching", "calculating", "tool_call")
_LETTERS = {
    **{f"x_research.{name}": "B" for name in _BEGINS},
    "x_research.result": "R",
    "x_research.complete": "C",
    "x_artifact.created": "A",
    "x_artifact.updated": "A",
    "x_ask_user.question": "Q",
    "x_ask_user.pending_state": "P",
    "x_chat.metadata": "M",
    "x_deep_think.discovery_started": "d",
    "x_deep_think.discovery_completed": "D",
    "x_deep_think.plan_created": "p",
    "x_deep_think.subtask_started": "s",
    "x_deep_think.subtask_completed": "c",
    "x_deep_think.artifact_created": "a",
    "x_deep_think.synthesizing": "y",
    "x_deep_think.completed": "z",
    "x_deep_think.error": "e",
}
_FIELDS = {
    "x_research.tool_call": {"tool_name", "message"},
    "x_research.result": {"name", "tool_call_id"},
    "x_research.complete": {"elapsed_ms", "input_tokens", "output_tokens", "iterations", "sources"},
    "x_artifact.created": {"identifier", "title", "version"},
    "x_artifact.updated": {"identifier", "version"},
    "x_ask_user.question": {"question", "options", "correlation_id"},
    "x_chat.metadata": {"usage"},
    "x_deep_think.plan_created": {"title", "total_subtasks"},
    "x_deep_think.subtask_started": {"subtask_id", "subtask_query", "subtask_index", "total_subtasks"},
    "x_deep_think.subtask_completed": {"subtask_id", "subtask_index"},
    "x_deep_think.synthesizing": {"message"},
    "x_deep_think.completed": {"title", "artifact_name"},
    "x_deep_think.error": {"message"},
    "x_deep_think.discovery_started": {"mode", "message"},
    "x_deep_think.discovery_completed": {"pages_fetched", "site_map", "message"},
    "x_deep_think.artifact_created": {"artifact_type", "artifact_title", "message"},
}
# T: text; H: a call handed to the client; F: the finish; U: usage, where no M tells it; .: [DONE].
_TURN = r"(?:C?T*[BRAQ]+)*C?T*(?:H+[BRA]*C?)?T*P?FU?M?"
_DEEP = r"(?:dB*R*[BR]*D|p|s[BRAC]*c|a)*(?:(?:d[BR]*|s[BRAC]*|yT*(?:FU?)?)?e|yT*FU?[aA]*z)M?"
_STREAM = re.compile(rf"(?:{_TURN}|{_DEEP})\.?")


def letters(stream: Sequence[Event]) -> str:
    """The stream as a sentence."""
    return "".join(_letter(event) for event in stream)


def check(stream: Sequence[Event]) -> str:
    """The sentence, after the whole stream was read by the grammar; AssertionError says what is out of order."""
    sentence = letters(stream)
    assert _STREAM.fullmatch(sentence), f"out of order: {sentence}"
    told = [event for event in stream if isinstance(event, dict) and event.get("usage")]
    assert len(told) <= 1, f"usage is told {len(told)} times, and clients add it up"
    begun: Counter[str] = Counter()
    untold = 0
    for event in stream:
        if isinstance(event, str):
            continue
        missing = _FIELDS.get(event.get("type", ""), set()) - event.keys()
        assert not missing, f"{event['type']} lacks {sorted(missing)}"
        letter = _letter(event)
        if letter == "B":
            assert isinstance(event["arguments"], str)
            begun[event["name"]] += 1
        elif letter == "R":
            begun[event["name"]] -= 1
            assert begun[event["name"]] >= 0, f"a result without a beginning: {event}"
            untold += 1
        elif letter == "C":
            # A research in depth that is taken up again may have been through with its tools before.
            assert untold or "s" in sentence, "research was complete before there was any"
            assert not +begun, f"research was complete while {+begun} ran"
            untold = 0
        elif letter == "F" and "s" not in sentence:
            assert not untold, "the answer ended before research was told complete"
    return sentence


def _letter(event: Event) -> str:
    if isinstance(event, str):
        assert event == "[DONE]", event
        return "."
    if "type" in event:
        return _LETTERS[event["type"]]
    if not event["choices"]:
        assert event["usage"]
        return "U"
    choice = event["choices"][0]
    if choice.get("finish_reason"):
        return "F"
    return "H" if choice["delta"].get("tool_calls") else "T"
