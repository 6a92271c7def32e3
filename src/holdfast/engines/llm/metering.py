"""Owns counting what a model used, also when its answer is cut or given up."""

from collections.abc import AsyncGenerator, Iterable

from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.assembly import tally_of
from holdfast.engines.llm.budget import CHARACTERS_PER_TOKEN, hearing, written
from holdfast.engines.llm.model import Heard, Json, LanguageModel, Tally


class Meter:
    """Counts one answer as its chunks are heard: by the model's own word, or by about four characters a token."""

    def __init__(self, body: Json) -> None:
        self._body = body
        self._usage: Json = {}
        self._heard = self._written = 0

    def hear_all(self, chunks: Iterable[Heard]) -> None:
        """Take in chunks that came together."""
        for chunk in chunks:
            if isinstance(chunk, dict):
                self.hear(chunk)
            else:
                self._heard += len(chunk)
                self._written += sum(map(len, chunk))

    def hear(self, chunk: Json) -> None:
        """Take in the next chunk."""
        self._heard += 1
        self._written += written(chunk)
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]

    def hear_usage(self, usage: Json) -> None:
        """Take in the model's own word on an answer that came at once."""
        self._usage = usage

    def estimate(self) -> Json | None:
        """What an answer took whose model told nothing of it, as it would have told it."""
        if self._usage or not self._heard:
            return None
        told = self.tally()
        return {
            "prompt_tokens": told.input_tokens,
            "completion_tokens": told.output_tokens,
            "total_tokens": told.total,
        }

    def tally(self) -> Tally:
        """What the answer took, as far as it came."""
        if self._usage:
            return tally_of(self._usage)
        if not self._heard:
            return Tally()
        asked = dumps([self._body.get("messages"), self._body.get("tools")])
        return Tally(len(asked) // CHARACTERS_PER_TOKEN, self._written // CHARACTERS_PER_TOKEN + 1)


class Metered:
    """A model whose tokens are counted."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.tally = Tally()

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        """The model's chunks, with an estimate of its usage behind them where it told none."""
        meter = Meter(body)
        try:
            async with hearing(self._model, body) as chunks:
                async for chunk in chunks:
                    meter.hear(chunk)
                    yield chunk
            if (estimate := meter.estimate()) is not None:
                yield {"choices": [], "usage": estimate}
        finally:
            told = meter.tally()
            self.tally.input_tokens += told.input_tokens
            self.tally.output_tokens += told.output_tokens
