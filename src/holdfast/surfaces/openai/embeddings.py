"""Owns `/embeddings`: the upstream's where there is one, otherwise those of the embedder that search uses."""

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import FieldError, Invalid
from holdfast.surfaces.http.endpoint.relay import TokensUsed
from holdfast.surfaces.openai.passthrough import Passthrough
from holdfast.surfaces.openai.request import OpenAiRequest, json_object

MAX_INPUTS = 2048
MAX_CHARACTERS = 32_768
MAX_TOTAL_CHARACTERS = 1_200_000

Embed = Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]]


class Embeddings:
    """Vectors for texts."""

    def __init__(self, passthrough: Passthrough, embed: Embed, model: str) -> None:
        self._passthrough = passthrough
        self._embed = embed
        self._model = model

    async def create(self, request: OpenAiRequest) -> None:
        """One vector for each text. An upstream gets the client's bytes: the model there is the client's to name."""
        raw = await request.read()
        body = json_object(raw)
        upstreams = request.connected.upstreams
        # Anthropic's wire has no embeddings.
        if upstreams is not None and upstreams.speak("openai"):
            await self._passthrough.relay(request, upstreams, "/embeddings", body, raw=raw)
            return
        texts = _texts(body.get("input"))
        as_text = _encoding(body.get("encoding_format"))
        vectors = await self._embed(texts)
        if body.get("dimensions") not in (None, vectors.shape[1]):
            raise _wrong("dimensions", f"leave it out: these vectors have {vectors.shape[1]}")
        tokens = sum(len(text) for text in texts) // 4 + 1
        data = [
            {"object": "embedding", "index": index, "embedding": _coded(vector, as_text)}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        await request.answer({"object": "list", "data": data, "model": self._model, "usage": usage})
        self._passthrough.count(request, self._model, TokensUsed(tokens, 0))


def _texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise _wrong("input", "write a text or a list of texts, none of them empty; tokens are not taken")
    if len(texts) > MAX_INPUTS:
        raise _wrong("input", f"write at most {MAX_INPUTS} texts at once")
    if any(len(text) > MAX_CHARACTERS for text in texts) or sum(map(len, texts)) > MAX_TOTAL_CHARACTERS:
        raise _wrong("input", f"write at most {MAX_CHARACTERS} characters a text, {MAX_TOTAL_CHARACTERS} in all")
    return texts


def _encoding(wanted: Any) -> bool:
    if wanted not in (None, "float", "base64"):
        raise _wrong("encoding_format", "use float or base64")
    return bool(wanted == "base64")


def _coded(vector: NDArray[np.float32], as_text: bool) -> str | list[float]:
    if as_text:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return [float(value) for value in vector]


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid("The embeddings can't be made.", fields=[FieldError(field, problem)])
