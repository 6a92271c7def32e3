"""Measures what `ask` without a model answers: questions about outside repositories whose answers are known.

ask.json has the questions. `says` are patterns that the answer has to have, all of them; `first` is one for its first
source or quotation (a how-to is answered by a document, an introduction by its author and day); an `absent` one asks
for what is not so, and the right answer is that nothing was found. Half of the questions, chosen by a hash, were held
out when rules were adjusted; those of the first three repositories say themselves which half they are in.

An answer is correct when it has all that; useful when it has at least one of the patterns, or names it among its
sources; cited when each of its quotations has the number of a source that is listed.

    python -m bench.ask --clones DIRECTORY [--embed]    (with DIRECTORY/encode/httpx, …; what is missing is left out)
    python -m bench.ask [--data-dir DIRECTORY] [--words] [--show tuned|"held out"]
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from bench.report import Figure, finish, options
from holdfast.core.settings import load
from holdfast.engines.search import SearchEngine
from holdfast.features.ask.model import CitedAnswer
from holdfast.features.ask.service import Ask
from holdfast.features.repositories.service import Repositories
from holdfast.server.start import open_local

Json = dict[str, Any]

QUESTIONS: list[Json] = json.loads((Path(__file__).parent / "ask.json").read_text())
HALVES = ("tuned", "held out")
TARGET = 83.0
"""40 of 48."""
_SOURCES = "\n## Sources\n"
_NUMBER = re.compile(r"\[(\d+)\]")
_CODE = re.compile(r"^(`{3,}).*?^\1", re.M | re.S)
_NOT_FOUND = ("Nothing that was found", "No source that was found")


class Judged(NamedTuple):
    """What was asked, and how good the answer was."""

    half: str
    kind: str
    slug: str
    is_correct: bool
    is_useful: bool
    is_cited: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """How to ask, and what to print."""

    data_dir: Path | None
    words_only: bool
    show: str


def half_of(asked: Json) -> str:
    """Which half a question is in; nobody chose it."""
    spelled = f"{asked['repository']} {asked['question']}"
    return str(asked.get("half") or HALVES[sha256(spelled.encode()).digest()[0] % 2])


def is_right(asked: Json, answer: CitedAnswer) -> bool:
    """Whether the answer has what it has to have."""
    body = answer.markdown.partition(_SOURCES)[0]
    if asked.get("absent"):
        return any(said in body for said in _NOT_FOUND)
    if body.startswith(_NOT_FOUND) or not all(re.search(said, body) for said in asked.get("says", ())):
        return False
    return "first" not in asked or re.search(asked["first"], _first(asked, answer, body)) is not None


def is_useful(asked: Json, answer: CitedAnswer) -> bool:
    """Whether somebody comes nearer to the answer by it."""
    if asked.get("absent"):
        return is_right(asked, answer)
    wanted = [*asked.get("says", ()), *([asked["first"]] if "first" in asked else ())]
    return any(re.search(said, answer.markdown) for said in wanted)


def is_cited(answer: CitedAnswer) -> bool:
    """Whether every quotation has a number that is listed."""
    listed = {str(citation.number) for citation in answer.citations}
    body = _CODE.sub("", answer.markdown.partition(_SOURCES)[0])
    quoted = [line for line in body.splitlines() if line.startswith("- ")]
    return all((numbers := _NUMBER.findall(line)) and listed.issuperset(numbers) for line in quoted)


def _first(asked: Json, answer: CitedAnswer, body: str) -> str:
    if asked["kind"] == "who":
        return next((line for line in body.splitlines() if line.startswith("- ")), "")
    return answer.citations[0].address.partition(":")[2] if answer.citations else ""


async def measure(how: Asked) -> list[Figure]:
    """Ask all that are about repositories that are there."""
    judged: list[Judged] = []
    async with open_local(load(data_dir=how.data_dir)) as (parts, principal):
        ask = parts[Ask]
        known = {each.slug for each in (await parts[Repositories].list(principal, limit=100)).items}
        if how.words_only:
            setattr(parts[SearchEngine], "_query_vector", _no_vector)  # noqa: B010 – as before vectors are there
        asked_of = [each for each in QUESTIONS if each["repository"].partition("/")[2] in known]
        began = time.process_time()
        for asked in asked_of:
            slug = asked["repository"].partition("/")[2]
            answer = await ask.ask(principal, [slug], asked["question"], source="cli")
            right = is_right(asked, answer)
            useful = right or is_useful(asked, answer)
            judged.append(Judged(half_of(asked), asked["kind"], slug, right, useful, is_cited(answer)))
            if how.show == half_of(asked):
                _print(asked, answer, is_good=right)
        cpu = (time.process_time() - began) / max(1, len(asked_of))
    state = "words alone, " if how.words_only else ""
    figures = [Figure(f"{state}{half}, {name}", share, "%", goal) for half, name, share, goal in _shares(judged)]
    return [*figures, Figure(f"{state}CPU of an answer, git's left out", 1000 * cpu, "ms", better="lower")]


def _shares(judged: Sequence[Judged]) -> Iterator[tuple[str, str, float, float | None]]:
    """By kind, by repository and of all, for each half."""
    groups: tuple[Callable[[Judged], str], ...] = (lambda each: each.kind, lambda each: each.slug)
    for half in HALVES:
        own = [each for each in judged if each.half == half]
        for group in groups:
            for name in dict.fromkeys(map(group, own)):
                of_it = [each for each in own if group(each) == name]
                yield half, f"{name} ({len(of_it)})", _share(each.is_correct for each in of_it), None
        if own:
            yield half, f"all ({len(own)}), correct", _share(each.is_correct for each in own), TARGET
            yield half, f"all ({len(own)}), useful", _share(each.is_useful for each in own), None
            yield half, f"all ({len(own)}), cited", _share(each.is_cited for each in own), None


def _share(outcomes: Iterator[bool]) -> float:
    listed = list(outcomes)
    return 100 * sum(listed) / len(listed)


def _print(asked: Json, answer: CitedAnswer, *, is_good: bool) -> None:
    slug = asked["repository"].partition("/")[2]
    print(f"{'ok  ' if is_good else 'MISS'} {asked['kind']:8} {slug:10} {asked['question']}")
    if not is_good:
        print("     | " + answer.markdown.partition(_SOURCES)[0][:700].replace("\n", "\n     | "))


async def _no_vector(text: str) -> None:
    """In the place of the query's vector."""


def remember(clones: Path, data_dir: Path, *, embed: bool) -> None:
    """Add the clones that questions are about, as a person does."""
    for name in dict.fromkeys(asked["repository"] for asked in QUESTIONS):
        clone = (clones / name).resolve()
        if clone.is_dir():
            slug = name.partition("/")[2]
            command = ["repos", "add", str(clone), "--slug", slug, "--name", slug, "--embed" if embed else "--wait"]
            environment = os.environ | {"HOLDFAST_DATA_DIR": str(data_dir)}
            subprocess.run([sys.executable, "-m", "holdfast", *command], check=True, env=environment)


def main() -> None:
    """From the command line."""
    parser = options(__doc__ or "")
    parser.add_argument("--clones", type=Path, help="directory of clones, owner/name; they are added to a new store")
    parser.add_argument("--embed", action="store_true", help="with --clones: wait until all is found by meaning too")
    parser.add_argument("--data-dir", type=Path, help="where the repositories were added")
    parser.add_argument("--words", action="store_true", help="as right after adding, before anything is embedded")
    parser.add_argument("--show", choices=HALVES, default="", help="print each question of a half")
    given = parser.parse_args()
    if given.clones is None:
        figures = asyncio.run(measure(Asked(given.data_dir, given.words, given.show)))
    else:
        with tempfile.TemporaryDirectory() as directory:
            remember(given.clones, Path(directory), embed=given.embed)
            figures = asyncio.run(measure(Asked(Path(directory), given.words or not given.embed, given.show)))
    finish(figures, as_json=given.json)


if __name__ == "__main__":
    main()
