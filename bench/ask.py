"""Measures what `ask` without a model answers: questions about outside repositories whose answers are known.

ask.json has the questions. `says` are patterns that the answer has to have, all of them; `first` is one for its first
source or quotation (a how-to is answered by a document, an introduction by its author and day); an `absent` one asks
for what is not so, and the right answer is that nothing was found. Every second one was held out when rules were
adjusted.

    holdfast repos add CLONE_OF_STARLETTE --slug starlette --embed   (httpx and click likewise)
    python -m bench.ask [--data-dir DIRECTORY] [--words] [--show tuned|"held out"]
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from bench.report import Figure, finish, options
from holdfast.core.settings import load
from holdfast.engines.search import SearchEngine
from holdfast.features.ask.model import CitedAnswer
from holdfast.features.ask.service import Ask
from holdfast.server.start import open_local

Json = dict[str, Any]

QUESTIONS: list[Json] = json.loads((Path(__file__).parent / "ask.json").read_text())
HALVES = ("tuned", "held out")
TARGET = 80.0
_SOURCES = "\n## Sources\n"


def is_right(asked: Json, answer: CitedAnswer) -> bool:
    """Whether the answer has what it has to have."""
    body = answer.markdown.partition(_SOURCES)[0]
    if asked.get("absent"):
        return "Nothing that was found" in body or "No source that was found" in body
    if not all(re.search(said, body) for said in asked.get("says", ())):
        return False
    return "first" not in asked or re.search(asked["first"], _first(asked, answer, body)) is not None


def _first(asked: Json, answer: CitedAnswer, body: str) -> str:
    if asked["kind"] == "who":
        return next((line for line in body.splitlines() if line.startswith("- ")), "")
    return answer.citations[0].address.partition(":")[2] if answer.citations else ""


async def measure(data_dir: Path | None, show: str, *, words_only: bool) -> list[Figure]:
    """Ask them all."""
    right: dict[tuple[str, str], list[bool]] = {}
    async with open_local(load(data_dir=data_dir)) as (parts, principal):
        ask = parts[Ask]
        if words_only:
            setattr(parts[SearchEngine], "_query_vector", _no_vector)  # noqa: B010 – as before vectors are there
        for asked in QUESTIONS:
            slug = asked["repository"].partition("/")[2]
            answer = await ask.ask(principal, [slug], asked["question"], source="cli")
            is_good = is_right(asked, answer)
            right.setdefault((asked["half"], asked["kind"]), []).append(is_good)
            if show == asked["half"]:
                print(f"{'ok  ' if is_good else 'MISS'} {asked['kind']:8} {slug:10} {asked['question']}")
                if not is_good:
                    print("     | " + answer.markdown.partition(_SOURCES)[0][:700].replace("\n", "\n     | "))
    state = "words alone, " if words_only else ""
    figures = []
    for half in HALVES:
        of_half = {kind: outcomes for (name, kind), outcomes in right.items() if name == half}
        for kind, outcomes in of_half.items():
            figures.append(Figure(f"{state}{half}, {kind} ({len(outcomes)})", 100 * sum(outcomes) / len(outcomes), "%"))
        every = [each for outcomes in of_half.values() for each in outcomes]
        figures.append(Figure(f"{state}{half}, all ({len(every)})", 100 * sum(every) / len(every), "%", TARGET))
    return figures


async def _no_vector(text: str) -> None:
    """In the place of the query's vector."""


def main() -> None:
    """From the command line."""
    parser = options(__doc__ or "")
    parser.add_argument("--data-dir", type=Path, help="where the three repositories were added")
    parser.add_argument("--words", action="store_true", help="as right after adding, before anything is embedded")
    parser.add_argument("--show", choices=HALVES, default="", help="print each question of a half")
    given = parser.parse_args()
    finish(asyncio.run(measure(given.data_dir, given.show, words_only=given.words)), as_json=given.json)


if __name__ == "__main__":
    main()
