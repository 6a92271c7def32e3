"""Owns the proof that cases move like a small model of them, whatever is tried in whatever order."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Forbidden, Invalid
from holdfast.features.cases.model import Held
from holdfast.features.cases.service import NotProven
from holdfast.features.cases.states import STATES, IllegalMove, Kind, State
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.cases import CaseStage, case_stage
from tests.support.properties import examples

ACTIVE = {"OPEN", "REPRODUCING", "PLANNING", "IMPLEMENTING", "VERIFYING"}
CHAIN = {
    "bug": ["OPEN", "REPRODUCING", "PLANNING", "IMPLEMENTING", "VERIFYING", "DONE"],
    "task": ["OPEN", "PLANNING", "IMPLEMENTING", "VERIFYING", "DONE"],
}


@dataclass
class Model:
    """What the contract says of one case, written down a second time."""

    kind: Kind
    state: str = "OPEN"
    before: str = ""
    holder: str = ""
    has_word: bool = False
    moves: list[tuple[str, str]] = field(default_factory=list)

    def expected(self, to: str, who: str, reason: str) -> type[Exception] | None:
        """What a move is answered with."""
        if self.holder and who == "agent" and self.holder != who:
            return Held
        chain = CHAIN[self.kind]
        forward = self.state in ACTIVE and chain[chain.index(self.state) + 1] == to
        back = self.state == "VERIFYING" and to in ("IMPLEMENTING", "PLANNING")
        aside = (self.state in ACTIVE and to in ("BLOCKED", "CANCELLED")) or (
            self.state == "BLOCKED" and to in (self.before, "CANCELLED")
        )
        reopened = self.state == "DONE" and to == "OPEN"
        if not (forward or back or aside or reopened):
            return IllegalMove
        if to in ("BLOCKED", "CANCELLED") and not reason:
            return Invalid
        if reopened and who == "agent":
            return Forbidden
        return NotProven if to == "DONE" and not self.has_word else None

    def move(self, to: str) -> None:
        self.moves.append((self.state, to))
        self.before = self.state if to == "BLOCKED" else ""
        self.state = to
        if to not in ACTIVE:
            self.holder = ""


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("move"), st.sampled_from(STATES), st.sampled_from(["ada", "agent"]), st.sampled_from(["", "why"])
        ),
        st.tuples(st.just("forward"), st.just(""), st.sampled_from(["ada", "agent"]), st.just("why")),
        st.tuples(st.sampled_from(["claim", "word", "expire"]), st.just(""), st.just("other"), st.just("")),
    ),
    max_size=25,
)


@given(kind=st.sampled_from(["bug", "task"]), steps=STEPS)
@examples(60)
def test_every_sequence_of_moves_is_answered_as_the_model_says(
    sqlite_template: Path, kind: Kind, steps: list[tuple[str, str, str, str]]
) -> None:
    asyncio.run(_played(sqlite_template, kind, steps))


async def _played(template: Path, kind: Kind, steps: list[tuple[str, str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "case.db"
        shutil.copy(template, path)
        database = SqliteDatabase(path)
        try:
            await _play(await case_stage(database, MovableClock()), kind, steps)
        finally:
            await database.close()


async def _play(at: CaseStage, kind: Kind, steps: list[tuple[str, str, str, str]]) -> None:
    case, model = await at.add(kind=kind), Model(kind)
    people = {"ada": at.ada, "agent": at.agent, "other": at.another(2)}
    for what, to, who, reason in steps:
        if what == "claim" and model.state in ACTIVE and not model.holder:
            await at.claim(case.id, by=people["other"])
            model.holder = "other"
        elif what == "expire":
            at.clock.advance(days=1)
            model.holder = ""
        elif what == "word":
            await at.prove(case.id, by=at.ada, kind="word", claim="I looked.")
            model.has_word = True
        elif what in ("move", "forward"):
            chain = CHAIN[kind]
            goal: State = to  # type: ignore[assignment]
            if what == "forward":
                goal = chain[chain.index(model.state) + 1] if model.state in ACTIVE else "OPEN"  # type: ignore[assignment]
            wrong = model.expected(goal, who, reason)
            try:
                await at.move(case.id, goal, by=people[who], reason=reason)
                got: type[Exception] | None = None
                model.move(goal)
            except (Held, IllegalMove, NotProven, Forbidden, Invalid) as error:
                got = type(error)
            assert got is wrong, (model, goal, who, reason)
    detail = await at.cases.detail(at.ada, at.workspace, case.id)
    assert detail.case.state == model.state
    assert [(each.from_state, each.to_state) for each in detail.history if each.action == "move"] == model.moves
    versions = [each.version for each in detail.history]
    assert versions == sorted(versions)
