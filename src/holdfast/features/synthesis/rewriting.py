"""Owns the better words: a model's summary of a page, written from its facts and held to its citations."""

import asyncio
import logging
from contextlib import aclosing
from dataclasses import replace

from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.engines.llm.assembly import tally_of
from holdfast.engines.llm.calls import Marker
from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.cited.markdown import tidied, without_html
from holdfast.engines.llm.cited.review import Reviewed, review
from holdfast.engines.llm.model import Json
from holdfast.features.endpoints.model import DEFAULT
from holdfast.features.endpoints.models import Connected, EndpointModels
from holdfast.features.repositories.model import Repository
from holdfast.features.synthesis.findings.page import YOURS
from holdfast.features.synthesis.model import FindingDraft, digest_of
from holdfast.features.synthesis.sources.quoting import is_fit
from holdfast.features.usage.service import Usage

SECONDS = 120.0
MAX_WRITTEN = 8_000
_MATERIAL = 30_000
_INSTRUCTIONS = (
    "You describe a software project for engineers who are new to it. Write at most 250 words of Markdown prose from "
    "the facts below: what matters most, in plain sentences, no headings, no list of sources. After every statement "
    'name its source as [3], or better with a few words copied from it, as [3 "copied words"]. A sentence without a '
    "source of its own is removed, and so is one with a number, name, version or negation that its source does not "
    "have. "
    "Stay close to the words of the sources, and state nothing that is not in them."
)

_log = logging.getLogger(__name__)


class Rewriting:
    """Asks the project's model, where it has one."""

    def __init__(self, models: EndpointModels, usage: Usage) -> None:
        self._models = models
        self._usage = usage

    async def connect(self, repository: Repository) -> Connected | None:
        """The model behind the project's `default` endpoint; None where no upstream is named or its key is missing."""
        try:
            connected = await self._models.connect(repository.project_id, DEFAULT)
        except HoldfastError as problem:
            _log.warning("%s is summed up without a model: %s", repository.slug, problem.message)
            return None
        return connected if connected.upstreams is not None else None

    async def rewrite(
        self, principal: Principal, repository: Repository, draft: FindingDraft, connected: Connected
    ) -> FindingDraft:
        """The page with a summary on top, if its citations hold; without `made_of` when the model failed."""
        sources = {
            number: ReadSource(number, label, label, words) for number, (label, words) in enumerate(draft.sources, 1)
        }
        try:
            async with asyncio.timeout(SECONDS):
                written = await self._ask(principal, repository, draft, connected)
        except (HoldfastError, TimeoutError) as problem:
            _log.warning("%s of %s is summed up without its model: %s", draft.kind, repository.slug, problem)
            return draft
        # Off the event loop: every sentence is held against every source that it cites.
        found = await asyncio.to_thread(checked, written, sources)
        summary = found.markdown
        asked = replace(draft, made_of=by_model(draft, connected.model_name))
        if not summary or not is_fit(summary):
            # Its answer was of no use; the same facts would bring no other.
            return asked
        head, mark, rest = draft.body.partition(YOURS)
        body = f"{head}{mark}\n## In short\n\n{summary}{_left_out(found)}\n{rest}"
        return replace(asked, body=body)

    async def _ask(
        self, principal: Principal, repository: Repository, draft: FindingDraft, connected: Connected
    ) -> str:
        assert connected.upstreams is not None
        listed = "\n".join(f"[{number}] {label}: {words}" for number, (label, words) in enumerate(draft.sources, 1))
        facts = f"{draft.body[: _MATERIAL // 2]}\n\nWhat the sources say:\n{listed[: _MATERIAL // 2]}"
        body: Json = {
            "messages": [
                {"role": "system", "content": _INSTRUCTIONS},
                {"role": "user", "content": f"{draft.title}\n\n{Marker().mark('the repository', facts)}"},
            ]
        }
        pieces: list[str] = []
        usage: Json = {}
        async with aclosing(connected.upstreams.stream(body)) as chunks:
            async for chunk in chunks:
                usage = chunk["usage"] if isinstance(chunk.get("usage"), dict) else usage
                for choice in chunk.get("choices") or ():
                    pieces.append((choice.get("delta") or {}).get("content") or "")
                if sum(map(len, pieces)) > MAX_WRITTEN:
                    break
        tally = tally_of(usage)
        name = connected.upstreams.name
        self._usage.log(
            principal,
            source="synthesis",
            operation="synthesis",
            model=name,
            tokens_in=tally.input_tokens,
            tokens_out=tally.output_tokens,
            cost=connected.endpoint.cost(name, tally.input_tokens, tally.output_tokens),
            workspace_id=repository.workspace_id,
            project_id=repository.project_id,
        )
        return "".join(pieces)


def checked(written: str, sources: dict[int, ReadSource]) -> Reviewed:
    """What of a summary its sources support, sentence by sentence."""
    found = review(tidied(written[:MAX_WRITTEN], {}, frozenset()), "", sources)
    found.markdown = without_html(found.markdown)
    return found


def _left_out(found: Reviewed) -> str:
    if not found.dropped and not found.removed:
        return ""
    cited = f"{found.dropped} citation{'' if found.dropped == 1 else 's'}"
    said = f"{found.removed} statement{'' if found.removed == 1 else 's'}"
    return f"\n\n*Left out, because no source bears it out: {cited}, {said}.*"


def by_model(draft: FindingDraft, model: str) -> str:
    """The digest of a page that a model summed up: another model, or the first one, writes it anew."""
    return digest_of(draft.digest, model)
