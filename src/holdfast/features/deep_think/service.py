"""Owns Deep Think as a turn of a chat: the engine with a notebook in the store, and its reports as artifacts."""

import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.text import jsontext
from holdfast.engines.llm.model import Json, LanguageModel, LoopEvent, LoopRequest
from holdfast.engines.llm.research.deep_think import DeepThink, WrittenArtifact
from holdfast.features.artifacts.model import IdentifierTaken, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.chat.turn.tools import TurnPlace
from holdfast.features.deep_think import store
from holdfast.features.deep_think.store import RunKey
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

KEPT_MILLIS = 24 * 60 * 60 * 1000
"""How long an unfinished research can be taken up again."""

_NAMES = 60
_MOST_TITLE = 200

REPORT_PREFIX = "deep-think-"
"""How the identifiers of reports begin."""


class DeepThinkService:
    """Takes a turn like the loop does; an unfinished one goes on when the same is asked in the same place."""

    def __init__(
        self, database: Database, workspaces: Workspaces, artifacts: ArtifactService, engine: DeepThink, clock: Clock
    ) -> None:
        self._database = database
        self._workspaces = workspaces
        self._artifacts = artifacts
        self._engine = engine
        self._clock = clock

    async def __call__(
        self, place: TurnPlace, model: LanguageModel, request: LoopRequest
    ) -> AsyncGenerator[LoopEvent, None]:
        """The events of one research, `Done` last."""
        place.principal.require("inference")
        notebook = _StoredNotebook(
            self._database, self._workspaces, self._artifacts, self._clock, place, _digest(place, request.body)
        )
        async with aclosing(self._engine.run(model, request, notebook)) as events:
            async for event in events:
                yield event


class _StoredNotebook:
    """The notebook of one research; each method is one transaction."""

    def __init__(
        self,
        database: Database,
        workspaces: Workspaces,
        artifacts: ArtifactService,
        clock: Clock,
        place: TurnPlace,
        question: str,
    ) -> None:
        self._database = database
        self._workspaces = workspaces
        self._artifacts = artifacts
        self._clock = clock
        self._place = place
        self._key = RunKey(place.workspace_id, place.principal.actor, question)
        self._started_at = clock.now()

    async def resume(self) -> Json | None:
        """The saved state of this question, if it is recent."""
        since = self._clock.now() - KEPT_MILLIS

        def work(tx: Tx) -> tuple[str, int] | None:
            self._workspaces.check(tx, self._place.principal, self._place.workspace_id)
            return store.find(tx, self._key, since)

        found = await self._database.read(work)
        if found is None:
            return None
        self._started_at = found[1]
        state: Json = json.loads(found[0])
        return state

    async def save(self, state: Json) -> None:
        """Keep how far the research is."""
        text, now = jsontext.dumps(_storable(state)).decode(), self._clock.now()

        def work(tx: Tx) -> None:
            self._workspaces.check(tx, self._place.principal, self._place.workspace_id)
            store.remove_old(tx, now - KEPT_MILLIS)
            store.put(tx, self._key, self._place.chat_id, text, self._started_at, now)

        await self._database.write(work)

    async def keep(self, part: str, title: str, content: str) -> WrittenArtifact:
        """Write an artifact, named by the moment at which the research began, or the next one that is free."""
        principal, workspace_id = self._place.principal, self._place.workspace_id
        title, content = _storable(title)[:_MOST_TITLE] or "Deep Think", _storable(content)
        for second in range(_NAMES):
            name = _name(self._started_at + second * 1000, part)
            new = NewArtifact(name, title, "text/markdown", content, None, self._place.chat_id)
            try:
                made = await self._artifacts.create(principal, workspace_id, new)
            except IdentifierTaken:
                if second == _NAMES - 1:
                    raise
                continue
            return WrittenArtifact(made.identifier, made.title, made.version)
        raise AssertionError("the loop above returns or raises")

    async def finish(self) -> None:
        """Forget how far the research was."""
        await self._database.write(lambda tx: store.remove(tx, self._key))


def _name(moment: int, part: str) -> str:
    stamp = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y%m%d-%H%M%S")
    return f"{REPORT_PREFIX}{stamp}{f'-{part}' if part else ''}.md"


def _storable(value: Any) -> Any:
    """A state that every database keeps: PostgreSQL takes no NUL, none takes half a character."""
    if isinstance(value, str):
        return value.replace("\x00", "").encode(errors="replace").decode()
    if isinstance(value, list):
        return [_storable(each) for each in value]
    return {key: _storable(each) for key, each in value.items()} if isinstance(value, dict) else value


def _digest(place: TurnPlace, body: Json) -> str:
    """What was asked and where, whoever answers: reminders and other models do not make it another question."""
    messages = body.get("messages")
    asked = [each.get("content") for each in messages if each.get("role") == "user"] if messages else []
    return hashlib.sha256(jsontext.dumps([place.chat_id, asked])).hexdigest()
