"""Owns how a session's events become what a person reads: pieces joined, calls with their ends, the failing step."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.features.agents.sessions.model import SessionEvent

_SAID_BY_OTHERS = frozenset({"state", "result", "turn_over"})
"""What the page shows in other places."""


@dataclass(frozen=True, slots=True)
class SessionMoment:
    """One thing that happened in a session."""

    seq: int
    at: int
    kind: str
    title: str = ""
    text: str = ""
    detail: str = ""
    """What is shown when somebody asks for it: arguments, results."""
    failed: bool = False
    link: str = ""
    """The artifact or session that it is about."""
    goes_on: bool = False
    """Whether the next piece of text belongs to it."""


def moments(events: Iterable[SessionEvent]) -> list[SessionMoment]:
    """What happened, oldest first."""
    found: list[SessionMoment] = []
    calls: dict[str, int] = {}
    for event in events:
        data = event.data
        if event.kind in _SAID_BY_OTHERS:
            continue
        if event.kind == "text" and found and found[-1].goes_on and found[-1].kind == "text":
            found[-1] = replace(found[-1], text=found[-1].text + _text(data, "text"), goes_on=_goes_on(data))
        elif event.kind == "thought" and found and found[-1].goes_on and found[-1].kind == "thought":
            found[-1] = replace(found[-1], detail=found[-1].detail + _text(data, "text"), goes_on=_goes_on(data))
        elif event.kind == "tool_ended" and str(data.get("call_id")) in calls:
            at = calls[str(data.get("call_id"))]
            text = _text(data, "text")
            found[at] = replace(found[at], text=text[:500], detail=_both(found[at].detail, text), failed=not data["ok"])
        else:
            if event.kind == "tool_started":
                calls[str(data.get("call_id"))] = len(found)
            found.append(_moment(event))
    return found


def failing_step(found: Iterable[SessionMoment]) -> SessionMoment | None:
    """What went wrong last: why a session failed, most of the time."""
    return next((each for each in reversed(list(found)) if each.failed), None)


def _moment(event: SessionEvent) -> SessionMoment:
    made = SessionMoment(event.seq, event.at, event.kind)
    data = event.data
    match event.kind:
        case "prompt" | "message" | "posted":
            return replace(made, title=_text(data, "from", "channel"), text=_text(data, "text"))
        case "text":
            return replace(made, text=_text(data, "text"), goes_on=_goes_on(data))
        case "thought":
            return replace(made, detail=_text(data, "text"), goes_on=_goes_on(data))
        case "tool_started":
            return replace(made, title=_text(data, "name"), detail=_text(data, "arguments"))
        case "tool_ended":
            return replace(made, kind="tool_started", text=_text(data, "text"), failed=not data.get("ok"))
        case "tool_called":
            needs = _text(data, "permission_required")
            failed = data.get("status") in ("failed", "denied")
            title = f"{data.get('name')}.{data.get('tool')}"
            kind = "tool_refused" if data.get("status") == "denied" else event.kind
            return replace(
                made, kind=kind, title=title, text=needs, failed=failed, detail=f"{data.get('duration_ms')} ms"
            )
        case "status":
            return replace(made, title=_text(data, "status"), text=_text(data, "detail"))
        case "artifact" | "shared":
            return replace(made, title=_text(data, "title"), link=_text(data, "artifact_id"))
        case "question":
            return replace(made, title=_right(data), text=_text(data, "question"))
        case "answer":
            return replace(made, title=_text(data, "by"), text=_text(data, "answer") or _decision(data))
        case "spawned":
            return replace(made, title=_text(data, "agent"), link=_text(data, "session_id"))
        case "message_out":
            return replace(made, title=_text(data, "summary"), text=_text(data, "body"))
        case "error":
            return replace(made, text=_text(data, "message"), failed=True)
        case "ended":
            return replace(made, text=_text(data, "summary"))
        case "quiet":
            return replace(made, title=f"{data.get('seconds')} s", text=_text(data, "reason"))
        case _:
            return replace(made, detail=json.dumps(dict(data), indent=2, ensure_ascii=False, default=str))


def _text(data: Mapping[str, Any], *names: str) -> str:
    return next((str(data[name]) for name in names if data.get(name)), "")


def _right(data: Mapping[str, Any]) -> str:
    """The right that is asked for, where one is."""
    wanted = data.get("details", {}).get("details", {})
    return ", ".join(f"{name} {value}" for name, value in wanted.items())


def _decision(data: Mapping[str, Any]) -> str:
    state = _text(data, "state")
    return "granted" if data.get("grant_id") and state == "answered" else state


def _goes_on(data: Mapping[str, Any]) -> bool:
    return not data.get("whole", True)


def _both(arguments: str, result: str) -> str:
    return f"{arguments}\n\n{result}" if arguments and result else arguments or result
