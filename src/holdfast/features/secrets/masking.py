"""Owns that nobody reads the secrets that servers and agents were given: their values are masked in what those tell."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

LEAST = 6
"""A shorter value stands in too many innocent texts; a secret that short is no secret."""
_LEAST_LINE = 16


class SecretMask:
    """The secret values that servers or an agent were started with, by the names that people know.

    A value is found as it is, as JSON has it, in base64, percent-encoded and in hexadecimal digits, and line by line
    where it has several. Who means to smuggle a secret out that they were given can, in any other form: a server is
    chosen by an admin and trusted with it, and so is an agent that was granted one.
    """

    def __init__(self, secrets: Iterable[tuple[str, str]], key: str = "") -> None:
        """`key` is what opens the session's model, which is nobody's secret by name."""
        found: dict[str, str] = {}
        for name, value in secrets:
            for form in _forms(value):
                found.setdefault(form, f"[secret {name}]")
        for form in _forms(key):
            found.setdefault(form, "[the session's model key]")
        # The longest first: a line of a key must not be masked before the key as a whole.
        self._forms = sorted(found.items(), key=lambda pair: -len(pair[0]))
        self._signs = [orjson.dumps(form)[1:-1] for form, _ in self._forms]

    def __bool__(self) -> bool:
        """Whether there is anything to mask."""
        return bool(self._forms)

    def text(self, text: str) -> str:
        """The text without the values."""
        for form, mask in self._forms:
            if form in text:
                text = text.replace(form, mask)
        return text

    def named(self, text: str) -> list[str]:
        """What stands in place of the values that a text has, each once."""
        return sorted({mask for form, mask in self._forms if form in text})

    def settled(self, text: str) -> tuple[str, str]:
        """A text that goes on, without the values: what can be told, and an end in which one may have begun."""
        text = self.text(text)
        held = 0
        for form, _ in self._forms:
            for length in range(min(len(form) - 1, len(text)), held, -1):
                if text.endswith(form[:length]):
                    held = length
                    break
        return text[: len(text) - held], text[len(text) - held :]

    def occurs(self, raw: bytes) -> bool:
        """Whether JSON has a value in it."""
        return any(sign in raw for sign in self._signs)

    def value(self, value: Any) -> Any:
        """JSON without the values, whether they are texts, parts of texts, names of members or numbers."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self.value(item) for item in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            shown = self.text(str(value))
            return value if shown == str(value) else shown
        return value


def _forms(value: str) -> Iterable[str]:
    bare = value.strip()
    if len(bare) < LEAST:
        return
    raw = bare.encode("utf-8", "surrogatepass")
    yield bare
    for ascii in (True, False):
        yield json.dumps(bare, ensure_ascii=ascii)[1:-1]
    yield base64.b64encode(raw).decode().rstrip("=")
    yield base64.urlsafe_b64encode(raw).decode().rstrip("=")
    yield quote(bare, safe="")
    yield raw.hex()
    lines = [line.strip() for line in bare.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _LEAST_LINE)
