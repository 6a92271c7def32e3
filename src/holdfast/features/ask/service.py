"""Owns asking: find sources, let a model answer from them or quote them, check every citation, count what it took."""

import asyncio
import logging
import math
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from holdfast.core.errors import RateLimited, Unavailable, UpstreamFailed
from holdfast.core.principal import Principal
from holdfast.core.tools.gateway import Gateway
from holdfast.engines.llm.cited.markdown import cited_in, tidied, without_html
from holdfast.engines.llm.cited.review import Reviewed, names_in, review
from holdfast.engines.llm.extractive.embedded import HINT
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.metering import Metered
from holdfast.engines.llm.model import Done, LoopRequest, Tally
from holdfast.engines.llm.offered import turning_away
from holdfast.engines.search.model import VectorCount
from holdfast.features.ask.answering.extracting import MOST_PASSAGES, extract
from holdfast.features.ask.answering.writing import asked
from holdfast.features.ask.confirming import Confirmation
from holdfast.features.ask.finding import FoundFor, SourceFinding
from holdfast.features.ask.live_tools import live_call, live_tools
from holdfast.features.ask.model import OPERATION, CitedAnswer, checked_question
from holdfast.features.ask.sources import Evidence, Ledger, evidence_of, source_list, source_of
from holdfast.features.endpoints.model import DEFAULT, EMBEDDED_MODEL
from holdfast.features.endpoints.models import Connected, EndpointModels
from holdfast.features.repositories.finding.search import LEAST_SIMILARITY, RepositoryFinding
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.model import Repository
from holdfast.features.repositories.service import Repositories
from holdfast.features.secrets.model import SecretNotSet
from holdfast.features.usage.service import Usage
from holdfast.storage.database import Database

SECONDS = 90.0
"""How long an answer may take in all."""
MODEL_SECONDS = 70.0
"""How long a model may take over all its rounds; what is left is enough to quote."""
MAX_ROUNDS = 6
SHOWN_SOURCES = 20
HINTED_FILES = 8
MOST_WRITTEN = 40_000
"""Characters of an answer; no question needs more."""

NOTHING_ALIKE = "Nothing that was found is similar enough to this question to answer it."
NOTHING_FOUND = "Nothing that was found answers this question."

_AWAY = "The model could not be asked, so this answer is quoted by plain rules."
_SLOW = "The model took too long, so this answer is quoted by plain rules."
_EMPTY = "Nothing of the model's answer was supported by a source, so this answer is quoted by plain rules."
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Inquiry:
    """A question under way."""

    principal: Principal
    repositories: Sequence[Repository]
    question: str
    found: Sequence[FoundFor]
    vectors: Sequence[VectorCount]
    """How far those of each repository are, as its sources were looked for."""

    @property
    def slugs(self) -> list[str]:
        return [repository.slug for repository in self.repositories]


class Ask:
    """Answers questions about the repositories that a principal sees, in Markdown, each statement with its source."""

    def __init__(
        self,
        database: Database,
        repositories: Repositories,
        finding: RepositoryFinding,
        files: LiveFiles,
        models: EndpointModels,
        usage: Usage,
        loop: Loop,
        gateway: Gateway,
        *,
        weekly_tokens: int,
        model_seconds: float = MODEL_SECONDS,
        seconds: float = SECONDS,
    ) -> None:
        self._repositories = repositories
        self._finding = finding
        self._sources = SourceFinding(database, finding, files)
        self._models = models
        self._usage = usage
        self._loop = loop
        self._gateway = gateway
        self._confirmation = Confirmation(database, files)
        self._weekly_tokens = weekly_tokens
        self._model_seconds = model_seconds
        self._seconds = seconds

    async def ask(self, principal: Principal, slugs: Sequence[str], question: str, *, source: str) -> CitedAnswer:
        """The answer to a question about some repositories; `source` is the way it came: `mcp`, `rest` or `cli`."""
        principal.require("inference")
        tidy = checked_question(question)
        repositories = await self._repositories.named(principal, slugs)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._answered(principal, repositories, tidy, source)
        except TimeoutError:
            raise Unavailable(f"No answer was found within {self._seconds:g} seconds; ask again later.") from None

    async def _answered(
        self, principal: Principal, repositories: Sequence[Repository], tidy: str, source: str
    ) -> CitedAnswer:
        connected, note = await self._connected(repositories[0])
        if connected is not None:
            await self._usage.check_budget(principal, self._weekly_tokens)
        vectors = await self._repositories.vectors(repositories)
        found = await self._sources.find(principal, repositories, tidy)
        inquiry = _Inquiry(principal, repositories, tidy, found, vectors)
        if connected is None:
            self._count(inquiry, source, EMBEDDED_MODEL, Tally())
            return await self._extracted(inquiry, note)
        return await self._modelled(inquiry, connected, source)

    async def _connected(self, repository: Repository) -> tuple[Connected | None, str]:
        """The model of the repository's project; none where the embedded one answers or its key is missing."""
        try:
            connected = await self._models.connect(repository.project_id, DEFAULT)
        except SecretNotSet as problem:
            _log.warning("A question is answered without a model: %s", problem.message)
            return None, _AWAY
        return (connected if connected.upstreams is not None else None), ""

    # With a model.

    async def _modelled(self, inquiry: _Inquiry, connected: Connected, source: str) -> CitedAnswer:
        assert connected.upstreams is not None
        model = Metered(connected.upstreams)
        reviewed: Reviewed | None = None
        ledger = _numbered(inquiry)
        note = _EMPTY
        try:
            async with asyncio.timeout(self._model_seconds):
                written = await self._written(inquiry, model, ledger)
            reviewed, confirmed = await self._reviewed(inquiry, written, ledger)
        except (UpstreamFailed, RateLimited, Unavailable) as problem:
            _log.warning("A question is answered without its model: %s", problem.message)
            note = _AWAY
        except TimeoutError:
            _log.warning("A question is answered without its model: it took over %g seconds.", self._model_seconds)
            note = _SLOW
        finally:
            # Also when whoever asked has gone: what was used is used.
            self._count(inquiry, source, model.name, model.tally, connected)
        if reviewed is None or not reviewed.markdown:
            answer = await self._extracted(inquiry, note, reviewed)
        else:
            answer = _finished(inquiry, reviewed, confirmed, model.name, [])
        return replace(answer, tokens_in=model.tally.input_tokens, tokens_out=model.tally.output_tokens)

    async def _written(self, inquiry: _Inquiry, model: Metered, ledger: Ledger) -> str:
        """What the model says in the end."""
        hints = await self._hints(inquiry, ledger)
        call = live_call(inquiry.principal, inquiry.repositories, ledger)
        tools = live_tools(self._gateway, call)
        body = asked(inquiry.question, inquiry.repositories, ledger, hints)
        request = LoopRequest(body, tools, MAX_ROUNDS, turning_away(self._gateway, call))
        async with aclosing(self._loop.run(model, request)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return _last_words(event)
        return ""

    async def _hints(self, inquiry: _Inquiry, ledger: Ledger) -> list[str]:
        shown = {(evidence.repository.slug, evidence.key) for _, evidence in ledger}
        files = await self._finding.files(inquiry.principal, inquiry.slugs, inquiry.question, limit=HINTED_FILES)
        return [
            f"{file.repository.slug}:{file.path}" for file in files if (file.repository.slug, file.path) not in shown
        ]

    async def _reviewed(self, inquiry: _Inquiry, written: str, ledger: Ledger) -> tuple[Reviewed, dict[int, Evidence]]:
        """The answer held against the repositories as they are."""
        urls = frozenset(evidence.url for _, evidence in ledger if evidence.url)
        tidy = tidied(written[:MOST_WRITTEN], ledger.numbers(), urls)
        wanted = {number: there for number in cited_in(tidy) if (there := ledger.get(number)) is not None}
        confirmed = await self._confirmation.confirmed(inquiry.principal, wanted)
        sources = {number: source_of(number, evidence) for number, evidence in confirmed.items()}
        said = " ".join([*(source.text for source in sources.values()), *urls, inquiry.question])
        strange = [name for name in names_in(tidy) if name not in said]
        unknown = await self._confirmation.unknown([each.id for each in inquiry.repositories], strange)
        reviewed = await asyncio.to_thread(review, tidy, inquiry.question, sources, unknown)
        reviewed.markdown = without_html(reviewed.markdown)
        return reviewed, confirmed

    # Without a model.

    async def _extracted(self, inquiry: _Inquiry, note: str, before: Reviewed | None = None) -> CitedAnswer:
        """The answer in quotations, from sources that are really there; `before` is what was left of a model's."""
        wanted = {
            (part, place): evidence
            for part, found in enumerate(inquiry.found)
            for place, evidence in enumerate(found.best[: MOST_PASSAGES + 3])
        }
        numbered = dict(enumerate(wanted.values()))
        confirmed = await self._confirmation.confirmed(inquiry.principal, numbered)
        there = {key: confirmed[number] for number, key in enumerate(wanted) if number in confirmed}
        chosen = [
            (found.aspect, [evidence for (of, _), evidence in there.items() if of == part])
            for part, found in enumerate(inquiry.found)
        ]
        made = await asyncio.to_thread(extract, chosen)
        notes = [note] if note else [HINT]
        reviewed = Reviewed(made.markdown, dropped=made.dropped + len(wanted) - len(there))
        if before is not None:
            reviewed.dropped += before.dropped
            reviewed.removed += before.removed
        if not len(made.ledger):
            return replace(await self._nothing(inquiry, reviewed, notes), note=note)
        reviewed.cited = [number for number, _ in made.ledger]
        answer = _finished(inquiry, reviewed, dict(made.ledger), EMBEDDED_MODEL, notes)
        return replace(answer, note=note)

    async def _nothing(self, inquiry: _Inquiry, reviewed: Reviewed, notes: Sequence[str]) -> CitedAnswer:
        """A plain word that nothing was found, what was searched, and what comes nearest."""
        searched = ", ".join(_searched(repository) for repository in inquiry.repositories)
        nearest = await self._finding.search(inquiry.principal, inquiry.slugs, inquiry.question, limit=1, least=0.0)
        confirmed = await self._confirmation.confirmed(inquiry.principal, dict(enumerate(map(evidence_of, nearest), 1)))
        # Rounded down: 0.299 is below 0.3 and has to look so.
        similarity = math.floor(confirmed[1].similarity * 100) / 100 if confirmed else 0.0
        is_alike = similarity >= LEAST_SIMILARITY
        said = [f"{NOTHING_FOUND if is_alike else NOTHING_ALIKE} Searched: {searched}."]
        if confirmed:
            but = "but does not tell this" if is_alike else f"below {LEAST_SIMILARITY:g}"
            said.append(f"The nearest has a similarity of {similarity:.2f}, {but}: [1].")
        reviewed.markdown, reviewed.cited = " ".join(said), list(confirmed)
        return _finished(inquiry, reviewed, confirmed, EMBEDDED_MODEL, notes)

    def _count(
        self, inquiry: _Inquiry, source: str, model: str, tally: Tally, connected: Connected | None = None
    ) -> None:
        tokens_in, tokens_out = tally.input_tokens, tally.output_tokens
        self._usage.log(
            inquiry.principal,
            source=source,
            operation=OPERATION,
            model=model,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=connected.endpoint.cost(model, tokens_in, tokens_out) if connected else 0.0,
            workspace_id=inquiry.repositories[0].workspace_id,
            project_id=inquiry.repositories[0].project_id,
        )


def _last_words(done: Done) -> str:
    """The answer without what the model remarked before its calls."""
    said = str(done.message.get("content") or "").strip()
    for message in done.added:
        remark = message.get("content") if message.get("role") == "assistant" else None
        if isinstance(remark, str) and remark.strip():
            said = said.removeprefix(remark.strip()).strip()
    return said


def _numbered(inquiry: _Inquiry) -> Ledger:
    """The sources for the model: the best of every aspect first, then the next of every aspect."""
    ledger = Ledger()
    listed = [found.all for found in inquiry.found]
    for place in range(max(map(len, listed), default=0)):
        for found in listed:
            if place < len(found) and len(ledger) < SHOWN_SOURCES:
                ledger.add(found[place])
    return ledger


def _finished(
    inquiry: _Inquiry, reviewed: Reviewed, confirmed: dict[int, Evidence], model: str, notes: Sequence[str]
) -> CitedAnswer:
    cited = [(number, confirmed[number]) for number in reviewed.cited if number in confirmed]
    remarks = [*notes, *_left_out(reviewed), *_unread(inquiry.repositories), *_waiting(inquiry)]
    parts = [reviewed.markdown, *(f"*{remark}*" for remark in remarks)]
    if cited:
        parts.append(source_list(cited, several=len(inquiry.repositories) > 1))
    return CitedAnswer(
        markdown="\n\n".join(parts),
        citations=tuple(evidence.citation(number) for number, evidence in cited),
        dropped=reviewed.dropped,
        model=model,
        removed=reviewed.removed,
        waiting=sum(each.waiting for each in inquiry.vectors),
    )


def _left_out(reviewed: Reviewed) -> list[str]:
    remarks = []
    if reviewed.dropped:
        noun = "citation was" if reviewed.dropped == 1 else "citations were"
        remarks.append(f"{reviewed.dropped} {noun} left out: not confirmed in the repositories.")
    if reviewed.removed:
        noun, them = ("statement was", "it") if reviewed.removed == 1 else ("statements were", "them")
        remarks.append(f"{reviewed.removed} {noun} left out: no source supports {them}.")
    return remarks


def _unread(repositories: Sequence[Repository]) -> list[str]:
    return [
        f"{each.slug} has not been read yet, so nothing of it is in this." for each in repositories if not each.ingested
    ]


def _waiting(inquiry: _Inquiry) -> list[str]:
    """What a search by meaning could not find yet."""
    counted = zip(inquiry.repositories, inquiry.vectors, strict=True)
    return [f"{repository.slug}: {count.said}" for repository, count in counted if count.said]


def _searched(repository: Repository) -> str:
    if not repository.ingested:
        return f"{repository.slug} (not read yet)"
    counted = (
        ("commits", repository.commits),
        ("files", repository.files),
        ("pull requests, issues", repository.items),
    )
    return f"{repository.slug} ({'; '.join(f'{name}: {count:,}' for name, count in counted)})"
