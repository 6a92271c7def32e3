"""Owns reading events that only add text, by the bytes around it: a run of them is read and parsed at once."""

import re
from collections.abc import Callable

import orjson

from holdfast.core.text.jsontext import loads_mended
from holdfast.engines.llm.messages.chat_chunks import message_text
from holdfast.engines.llm.messages.message_events import chunk_text
from holdfast.engines.llm.model import Json

_PROBE = "\ue000 is it here? \ue001"
_MOST_LESSONS = 8
"""What changes with every event, as a stamp or padding, is not learned for ever."""
_LONGEST_LESSON = 16 * 1024
"""Looking for the text in an event of megabytes takes longer than anything learned from it saves."""
_WINDOW_BYTES = 16 * 1024
"""How far a run is looked for at once, so that many short ones do not each cost all that came."""


class Texts:
    """The texts of one stream. Most of its events differ in nothing but that, so that one of them, understood once,
    tells where the others have theirs."""

    def __init__(self, key: str, plain_text: Callable[[Json], str | None]) -> None:
        """`plain_text` gives the text of an event that has nothing else to tell; it stands there under `key`."""
        self._key = key.encode()
        self._plain_text = plain_text
        self._lessons = 0
        self._behind = b""
        self.before = b""
        """What an event that only adds text begins with; empty until one was seen."""

    def learn(self, framing: bytes | None, data: bytes, event: Json) -> str | None:
        """The text of an event that has nothing else to tell, and where the next ones have theirs.

        `framing` is what stood before the data on the wire, where that was usual.
        """
        text = self._plain_text(event)
        if text is None or framing is None or self._lessons == _MOST_LESSONS or len(data) > _LONGEST_LESSON:
            return text
        self._lessons += 1
        found = re.search(rb'"%b"\s*:\s*("(?:[^"\\]|\\.)*")' % self._key, data)
        if found is not None:
            before, behind = data[: found.start(1)], data[found.end(1) :]
            # The same key may stand elsewhere too, or twice.
            if self._plain_text(loads_mended(before + orjson.dumps(_PROBE) + behind)) == _PROBE:
                self.before, self._behind = framing + before, behind + b"\n\n"
        return text

    def take(self, whole: bytes, at: int) -> tuple[list[str], int]:
        """The texts of the events in a row that begin at a place, and where the next one begins; none where they only
        look so. `whole` ends with an event's end."""
        parts = whole[at + len(self.before) : at + _WINDOW_BYTES].split(self._behind + self.before)
        last, end, rest = parts[-1].partition(self._behind)
        if end:
            parts[-1] = last
        else:
            # Cut by the window, or another kind of event.
            rest = self.before + parts.pop()
        try:
            # No text holds a line break as such, so that each part is one text or the list is none.
            texts = orjson.loads(b"[%b]" % b",\n".join(parts))
        except orjson.JSONDecodeError:
            return [], at
        if len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
            return [], at
        return texts, min(len(whole), at + _WINDOW_BYTES) - len(rest)


def chat_texts() -> Texts:
    """For a stream of Chat Completions."""
    return Texts("content", chunk_text)


def messages_texts() -> Texts:
    """For a stream of Anthropic's wire."""
    return Texts("text", message_text)


def no_texts() -> Texts:
    """For who wants to see every chunk as it is."""
    return Texts("", lambda event: None)
