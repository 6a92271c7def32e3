"""Owns what the server's tools gave in a turn that the client's own tools interrupt, until the client goes on with it.

A client knows nothing of calls that ran here: it sends back its own call and the result, and the model would not see
what it had found before. So the rounds are kept and put where they belong when the call comes back.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.text import jsontext
from holdfast.engines.llm.model import Done, Json
from holdfast.features.chat import store
from holdfast.features.chat.turn.tools import TurnPlace
from holdfast.features.chat.turn.trail import calls_of, text_of
from holdfast.storage.database import Database, Tx

KEPT_MILLIS = 86_400_000
"""How long outside of a chat; in one as long as the chat."""
MAX_BYTES = 512 * 1024
"""Of one turn; of longer ones the middle of the longest results is left out, and what long calls were given."""
MAX_WORKSPACE_BYTES = 64 * 1024 * 1024
MAX_RESTORED = 20
"""How many of a conversation's turns, the last ones first."""
_END_CHARACTERS = 200
"""A result's end is kept: it holds the mark behind which text is no data of others any more."""


class Continuations:
    """Keeps and restores the rounds that only the server knows."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def keep(self, place: TurnPlace, said: Sequence[Json], done: Done, before: Sequence[Json] = ()) -> None:
        """Keep what ran in a turn that ends with the client's calls. `said` is the conversation as the client sent it,
        `before` what only the server knew of it already."""
        theirs, rounds = done.message.get("tool_calls"), [*before, *done.added]
        if not theirs or not any(message["role"] == "tool" for message in rounds):
            return
        kept = _bounded(rounds, theirs)
        if kept is None:
            return
        text = jsontext.dumps(kept).decode()
        digest = _digest(place, _asked(said), done.message)
        now = self._clock.now()

        def work(tx: Tx) -> None:
            store.keep_continuation(tx, place.workspace_id, digest, place.chat_id, text, now)
            store.trim_continuations(tx, place.workspace_id, now - KEPT_MILLIS, MAX_WORKSPACE_BYTES)

        await self._database.write(work)

    async def restore(self, place: TurnPlace, messages: Sequence[Json]) -> list[Json]:
        """The messages with every kept round in its place."""
        digests: dict[int, str] = {}
        asked: list[str] = []
        for number, message in enumerate(messages):
            if message.get("role") == "user":
                asked.append(text_of(message).strip())
            elif message.get("role") == "assistant" and isinstance(message.get("tool_calls"), list):
                digests[number] = _digest(place, asked, message)
        wanted = list(digests.values())[-MAX_RESTORED:]
        if not wanted:
            return list(messages)
        oldest = self._clock.now() - KEPT_MILLIS
        kept = await self._database.read(lambda tx: store.continuations(tx, place.workspace_id, wanted, oldest))
        restored: list[Json] = []
        for number, message in enumerate(messages):
            found = kept.get(digests.get(number, ""))
            restored += [message] if found is None else json.loads(found)
        return restored


def _asked(said: Sequence[Json]) -> list[str]:
    return [text_of(message).strip() for message in said if message.get("role") == "user"]


def _digest(place: TurnPlace, asked: Sequence[str], message: Json) -> str:
    """Who went on from what. Some upstreams number their calls alike in every answer, so ids alone are not enough."""
    ids = [call.get("id") for call in message["tool_calls"] if isinstance(call, dict)]
    parts = [place.principal.actor, place.chat_id, list(asked), ids, calls_of(message)]
    return hashlib.sha256(jsontext.dumps(parts)).hexdigest()


def _bounded(messages: list[Json], theirs: Sequence[Json]) -> list[Json] | None:
    """The messages within the limit; None where the client's own calls are longer."""
    ids = {call["id"] for call in theirs}
    allowed = MAX_BYTES
    while len(jsontext.dumps(messages)) > MAX_BYTES:
        if allowed <= 2 * _END_CHARACTERS:
            return None
        allowed //= 2
        messages = [_shortened(message, allowed, ids) for message in messages]
    return messages


def _shortened(message: Json, characters: int, theirs: Collection[str]) -> Json:
    content: Any = message.get("content")
    if message["role"] == "tool" and isinstance(content, str) and len(content) > characters:
        begin = content[: characters - _END_CHARACTERS]
        return {**message, "content": f"{begin}\n[… left out …]\n{content[-_END_CHARACTERS:]}"}
    if message.get("tool_calls"):
        calls = [
            _plain(call) if call["id"] not in theirs and _length(call) > characters else call
            for call in message["tool_calls"]
        ]
        return {**message, "tool_calls": calls}
    return message


def _length(call: Json) -> int:
    return len(call["function"]["arguments"])


def _plain(call: Json) -> Json:
    """A call that ran here without what it was given: the history has to stay JSON."""
    told = jsontext.dumps({"left_out": f"{_length(call)} characters"}).decode()
    return {**call, "function": {**call["function"], "arguments": told}}
