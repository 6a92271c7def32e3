"""Owns counting what a model used, also when its answer is cut or given up."""

from collections.abc import AsyncGenerator
from typing import Any

from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.assembly import tally_of
from holdfast.engines.llm.budget import CHARACTERS_PER_TOKEN, hearing
from holdfast.engines.llm.model import Json, LanguageModel, Tally


class Metered:
    """A model whose tokens are counted: by its own word, or by about four characters each where it says nothing."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.tally = Tally()

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        """The model's chunks."""
        usage: Json = {}
        heard = written = 0
        try:
            async with hearing(self._model, body) as chunks:
                async for chunk in chunks:
                    heard += 1
                    written += _written(chunk)
                    usage = chunk["usage"] if isinstance(chunk.get("usage"), dict) else usage
                    yield chunk
        finally:
            if usage:
                told = tally_of(usage)
                self.tally.input_tokens += told.input_tokens
                self.tally.output_tokens += told.output_tokens
            elif heard:
                self.tally.input_tokens += len(dumps([body.get("messages"), body.get("tools")])) // CHARACTERS_PER_TOKEN
                self.tally.output_tokens += written // CHARACTERS_PER_TOKEN + 1


def _written(chunk: Json) -> int:
    choices: Any = chunk.get("choices")
    return len(dumps(choices)) // 2 if choices else 0
