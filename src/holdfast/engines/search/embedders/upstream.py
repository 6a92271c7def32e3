"""Owns the embedder of somebody else's server: the OpenAI-compatible /embeddings of Ollama, vLLM, OpenAI and others."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpcore
import numpy as np
import orjson
from numpy.typing import NDArray

from holdfast.core.errors import UpstreamFailed
from holdfast.engines.fetch.network.guard import FAILURES, system_trust
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.search.embedders.base import unit

BATCH = 64
TIMEOUT_SECONDS = 60
ATTEMPTS = 3
LONGEST_CHARACTERS = 24_000


class UpstreamEmbedder:
    """Asks `base_url`/embeddings. Its dimensions are those configured; an answer of another length is refused."""

    def __init__(self, base_url: str, model: str, dimensions: int, *, api_key: str | None = None) -> None:
        self.id = f"{model}@{base_url.rstrip('/')}#{dimensions}"
        self.dimensions = dimensions
        url = parse_url(f"{base_url.rstrip('/')}/embeddings")
        self._url = httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        self._model = model
        self._headers = {"Host": url.authority, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, asked for in batches; UpstreamFailed when the server does not do its part."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for start in range(0, len(texts), BATCH):
            # Servers refuse an empty input.
            batch = [text[:LONGEST_CHARACTERS] or " " for text in texts[start : start + BATCH]]
            vectors[start : start + len(batch)] = self._unit(await self._ask(batch), len(batch))
        return vectors

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None

    async def _ask(self, batch: list[str]) -> Any:
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(ssl_context=system_trust(), keepalive_expiry=15)
        body = orjson.dumps({"model": self._model, "input": batch, "encoding_format": "float"})
        for attempt in range(ATTEMPTS):
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    answer = await self._pool.request(
                        "POST", self._url, headers=list(self._headers.items()), content=body
                    )
                if answer.status == 200:
                    return orjson.loads(answer.content)
                if answer.status not in (429, 500, 502, 503, 504) or attempt == ATTEMPTS - 1:
                    raise UpstreamFailed(f"The embeddings server answered {answer.status}.")
            except (*FAILURES, TimeoutError, ValueError) as problem:
                if attempt == ATTEMPTS - 1:
                    raise UpstreamFailed(f"The embeddings server failed ({type(problem).__name__}).") from problem
            await asyncio.sleep(0.2 * 2**attempt)
        raise AssertionError("unreachable")

    def _unit(self, answer: Any, count: int) -> NDArray[np.float32]:
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (KeyError, TypeError, ValueError) as problem:
            raise UpstreamFailed("The embeddings server's answer could not be read.") from problem
        if vectors.shape != (count, self.dimensions) or not np.isfinite(vectors).all():
            raise UpstreamFailed(
                f"The embeddings server sent vectors of shape {vectors.shape}; expected ({count}, {self.dimensions})."
            )
        return unit(vectors)
