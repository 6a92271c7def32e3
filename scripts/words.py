"""Owns the catalogues of words: finds every text of the pages, keeps `locale/*.po` complete and compiles it.

.venv/bin/python -m scripts.words          add what is missing to the .po files, drop what is gone, compile
.venv/bin/python -m scripts.words --check  say what is missing, and change nothing
"""

import ast
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from holdfast.core.principal import ROLES
from holdfast.features.audit import model as audit
from holdfast.features.cases.model import LINK_TYPES
from holdfast.features.cases.proofs import model as proofs
from holdfast.features.cases.states import Kind
from holdfast.features.client_bundles.service import CLIENTS
from holdfast.features.documents import model as documents
from holdfast.features.execution.model import APPROVAL_STATES
from holdfast.features.intelligence import model as intelligence
from holdfast.features.intelligence.graph.vocabulary import INVERSES
from holdfast.features.memory import model as memory
from holdfast.features.memory.writing.likeness import CHANGED, NEGATED, OTHER_VALUE
from holdfast.features.repositories import model as repositories
from holdfast.server.features import features
from holdfast.surfaces.dashboard.shell.templates import environment
from holdfast.surfaces.dashboard.shell.words import LANGUAGES
from holdfast.surfaces.dashboard.views.memory import CATEGORIES
from holdfast.surfaces.dashboard.views.repositories import FULL_SCORE

ROOT = Path(__file__).parents[1] / "src/holdfast/surfaces/dashboard"
HEADER = "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"
_BETWEEN = "\x00"
_CALLS = {"page": 1, "go": 1, "NavRow": 0, "N_": 0, "text": 0}
"""Functions whose argument at that place is a text that people read."""
_SAID_BY_SERVICES = (
    ROLES,
    get_args(memory.Status),
    get_args(memory.Trust),
    get_args(audit.Outcome),
    get_args(documents.State),
    get_args(repositories.State),
    get_args(repositories.Trigger),
    tuple(each.lower() for each in get_args(repositories.SyncStatus)),
    intelligence.STATUSES,
    CATEGORIES,
    get_args(proofs.Verdict),
    get_args(proofs.TestOutcome),
    ("no proof", *LINK_TYPES, *get_args(Kind)),
    tuple(name.replace("_", " ") for name in (*FULL_SCORE, *INVERSES)),
    APPROVAL_STATES,
    (NEGATED, OTHER_VALUE, CHANGED),
    tuple(client.place for client in CLIENTS.values()),
    tuple(
        each.name.replace("_", " ")
        for feature in features()
        if feature.entities
        for each in feature.module("entities").ENTITIES
    ),
)
"""Words that pages show as the services say them: roles, states, kinds."""


def texts() -> list[str]:
    """Every text of the pages in English, in order; singular and plural with a zero byte between them."""
    found = {word for words in _SAID_BY_SERVICES for word in words}
    made = environment("en")
    for file in sorted((ROOT / "templates").rglob("*.html")):
        for _, _, message in made.extract_translations(file.read_text()):  # type: ignore[attr-defined]
            pieces = message if isinstance(message, tuple) else (message,)
            # A text that is worked out while the page is made is none that can be listed: whoever makes it lists it.
            found.add(_BETWEEN.join(each for each in pieces if each))
    for file in sorted(file for folder in ("views", "signing") for file in (ROOT / folder).rglob("*.py")):
        found |= set(_in_code(ast.parse(file.read_text())))
    return sorted(found - {""})


def _in_code(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        at = _CALLS.get(name)
        if at is None or len(node.args) <= at:
            continue
        given = node.args[at]
        # Of a choice both are shown.
        for said in (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,):
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                yield said.value


def read(language: str) -> dict[str, str]:
    """What a catalogue has: each text with its translation, plurals with a zero byte between their forms."""
    words: dict[str, str] = {}
    key = ""
    forms: list[str] = []
    for line in [*(ROOT / f"locale/{language}.po").read_text().splitlines(), 'msgid ""']:
        kind, _, rest = line.partition(" ")
        if kind == "msgid":
            if key:
                words[key] = _BETWEEN.join(forms)
            key, forms = json.loads(rest), []
        elif kind == "msgid_plural":
            key += _BETWEEN + json.loads(rest)
        elif kind.startswith("msgstr") and key:
            forms.append(json.loads(rest))
    return words


def write(language: str, words: dict[str, str]) -> None:
    """The catalogue as people edit it, and compiled."""
    lines = ['msgid ""', f"msgstr {json.dumps(HEADER)}"]
    for text, translation in sorted(words.items()):
        one, _, many = text.partition(_BETWEEN)
        lines += ["", f"msgid {json.dumps(one, ensure_ascii=False)}"]
        if many:
            forms = (translation or _BETWEEN).split(_BETWEEN)
            lines.append(f"msgid_plural {json.dumps(many, ensure_ascii=False)}")
            lines += [f"msgstr[{at}] {json.dumps(form, ensure_ascii=False)}" for at, form in enumerate(forms)]
        else:
            lines.append(f"msgstr {json.dumps(translation, ensure_ascii=False)}")
    (ROOT / f"locale/{language}.po").write_text("\n".join(lines) + "\n")
    (ROOT / f"locale/{language}.mo").write_bytes(compiled(words))


def compiled(words: dict[str, str]) -> bytes:
    """The binary form that gettext reads."""
    rows = [(text.encode(), words[text].encode()) for text in sorted(words) if words[text].strip(_BETWEEN)]
    rows.insert(0, (b"", HEADER.encode()))
    start = 28 + 16 * len(rows)
    keys = b"".join(key + b"\0" for key, _ in rows)
    values = b"".join(value + b"\0" for _, value in rows)
    return (
        struct.pack("<7I", 0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0)
        + _table([key for key, _ in rows], start)
        + _table([value for _, value in rows], start + len(keys))
        + keys
        + values
    )


def _table(pieces: list[bytes], at: int) -> bytes:
    made = b""
    for piece in pieces:
        made += struct.pack("<2I", len(piece), at)
        at += len(piece) + 1
    return made


def missing(language: str) -> list[str]:
    """Texts that a catalogue does not translate."""
    words = read(language)
    return [text for text in texts() if not words.get(text, "").strip(_BETWEEN)]


def main() -> int:
    """Complete the catalogues, or only say what they lack."""
    lacking = 0
    for language in LANGUAGES:
        if language == "en":
            continue
        if "--check" not in sys.argv:
            known = read(language)
            write(language, {text: known.get(text, "") for text in texts()})
        for text in missing(language):
            lacking += 1
            print(f"{language}: {text!r} has no translation")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
