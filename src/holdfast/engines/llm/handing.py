"""Owns handing a client's own calls over while the model still writes them."""

from collections.abc import Collection, Iterator

from holdfast.engines.llm.assembly import Assembly, GrowingCall
from holdfast.engines.llm.model import Json


class Handing:
    """The client's calls of one round, as deltas of `tool_calls`. Calls that run here are not among them."""

    def __init__(self, names: Collection[str | None]) -> None:
        self._names = names
        self._handed: dict[int, _Handed] = {}

    def hear(self, answer: Assembly) -> Iterator[Json]:
        """What the last chunk added to calls of the client's."""
        for call in answer.grown:
            yield from self._grow(call, is_whole=False)

    def finish(self, answer: Assembly) -> Iterator[Json]:
        """What is left when no more comes: a call without arguments, or one whose id never came."""
        for call in answer.growing:
            yield from self._grow(call, is_whole=True)

    def _grow(self, call: GrowingCall, *, is_whole: bool) -> Iterator[Json]:
        if call.function.text("name") not in self._names:
            return
        handed = self._handed.get(id(call))
        arguments, pieces = call.function.news("arguments", handed.pieces if handed else 0)
        if handed is None:
            # A name may come before its id; the id that is told first is the one that the client answers to.
            if not (call.told_id or arguments or is_whole):
                return
            handed = self._handed[id(call)] = _Handed(len(self._handed))
            function = {"name": call.function.text("name"), "arguments": arguments}
            yield {**call.head.whole(), "index": handed.index, "id": call.id, "type": "function", "function": function}
        elif arguments:
            yield {"index": handed.index, "function": {"arguments": arguments}}
        handed.pieces = pieces


class _Handed:
    def __init__(self, index: int) -> None:
        self.index = index
        self.pieces = 0
