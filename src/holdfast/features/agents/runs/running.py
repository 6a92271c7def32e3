"""Owns one run of a session: the sandbox made ready, the agent started in it, watched, and everything taken away."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, HoldfastError, Unauthenticated
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs import Job, JobRun
from holdfast.engines.runners.base import HOME, MODEL_PORT, WORKTREE, AgentRunner, Assignment, LaunchPlan, Runners
from holdfast.engines.runtime.base import KeptAt, Mounted, RunLimits, RunSpec, Runtime
from holdfast.features.agents.definitions import store as definition_store
from holdfast.features.agents.gate.base import PROGRAMS, GatedSession, OpenGate, SessionGates
from holdfast.features.agents.runs.attending import WAIT_MILLIS, Attended, Attending, SessionEnding, failed
from holdfast.features.agents.runs.finishing import Finishing
from holdfast.features.agents.runs.live import LiveSession, LiveSessions
from holdfast.features.agents.runs.models import OpenModel, SessionModels
from holdfast.features.agents.runs.places import SessionPlace, used_bytes, write_below
from holdfast.features.agents.runs.worktrees import OUT, Worktrees
from holdfast.features.agents.sessions import store
from holdfast.features.agents.sessions.base import SessionBase
from holdfast.features.agents.sessions.freezing import Freezing, granted_values, told
from holdfast.features.agents.sessions.model import AgentSession, NotStartable
from holdfast.features.identity.standing import as_it_stands
from holdfast.features.repositories import store as repository_store
from holdfast.features.repositories.model import Repository
from holdfast.features.secrets.masking import SecretMask
from holdfast.features.secrets.references import Resolved
from holdfast.storage.database import Tx

_PATH = f"/usr/local/bin:/usr/bin:/bin:{PROGRAMS}"
_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a run knows once everything was checked again."""

    session: AgentSession
    env: Resolved
    repository: Repository | None
    resumed: str | None
    """What its runner called the conversation that it goes on with."""


class SessionRuns:
    """Runs sessions. Whatever runs one is killed at any moment: a later run goes on where the runner can."""

    def __init__(
        self,
        base: SessionBase,
        freezing: Freezing,
        runtime: Runtime,
        runners: Runners,
        gates: SessionGates,
        models: SessionModels,
        worktrees: Worktrees,
        finishing: Finishing,
        live: LiveSessions,
        events: EventBus,
        clock: Clock,
        *,
        directory: Path,
        quiet_seconds: float,
    ) -> None:
        """`directory` is where sessions live."""
        self._base = base
        self._freezing = freezing
        self._runtime = runtime
        self._runners = runners
        self._gates = gates
        self._models = models
        self._worktrees = worktrees
        self._finishing = finishing
        self._live = live
        self._events = events
        self._clock = clock
        self._directory = directory
        self._quiet_seconds = quiet_seconds

    async def run(self, job: JobRun) -> object:
        """The handler of the job that a session is run by."""
        session_id = str(job.payload["session_id"])
        session = await self._base.database.read(lambda tx: store.find(tx, session_id))
        if session is None or session.is_over:
            return None
        place = SessionPlace(self._directory / session.id)
        # As they are now: a run that was killed had its agent started with them.
        secrets = await self._base.database.read(partial(self._freezing.known, session=session))
        try:
            try:
                ending = await self._ran(job, session, place, secrets)
            except HoldfastError as problem:
                ending = SessionEnding("failed", told(problem))
            await self._finishing.finish(job, session_id, place, ending, SecretMask(secrets))
        finally:
            await self._runtime.release(session.id)
        return {"session_id": session_id, "state": ending.state}

    def ended(self, tx: Tx, job: Job) -> None:
        """Within the transaction that ends a job: a session that it leaves unfinished ends with it."""
        session = store.find(tx, str(job.payload["session_id"]))
        if session is None or session.is_over or session.job_id != job.id:
            return
        if job.state == "cancelled":
            error = {"code": "cancelled", "message": "It was cancelled."}
            self._base.end(tx, session, "cancelled", error=error)
        else:
            message = job.error or "It ended without a result."
            self._base.end(tx, session, "failed", error={"code": "failed", "message": message})

    async def _ran(
        self, job: JobRun, session: AgentSession, place: SessionPlace, secrets: list[tuple[str, str]]
    ) -> SessionEnding:
        """Run the agent to its end; the secrets that it is started with are added to those that are known."""
        ended = await self._gone_on(session, place)
        if ended is not None:
            return ended
        begun = await job.write(lambda tx: self._begin(tx, session))
        session = begun.session
        secrets += granted_values(session.frozen.spec.env, begun.env.values)
        await self._runtime.check()
        runner = self._runners.get(session.frozen.spec.runner, session.frozen.spec.words, session.frozen.runner)
        if await asyncio.to_thread(place.begin):
            await self._worktrees.begin(session, place, begun.repository)
        async with AsyncExitStack() as stack:
            live = stack.enter_context(self._live.living(session.id, session.frozen.limits.disk_mb))
            model = await stack.enter_async_context(self._models.open(session, live.touch, live.reach))
            known = replace(gated(session, place, secrets, self._runtime), keep=live.keep)
            gate = await stack.enter_async_context(self._gates.open(known, place.gate))
            messages = await self._base.database.read(lambda tx: store.undelivered(tx, session.id))
            assignment = Assignment(
                prompt=session.prompt if begun.resumed is None else _next_prompt([each.text for each in messages]),
                instructions=session.frozen.spec.instructions,
                model=session.frozen.model,
                model_url=model.url,
                model_key=model.token,
                servers=gate.servers,
                env=begun.env.values,
                resume=begun.resumed,
            )
            attended = await stack.enter_async_context(
                self._started(
                    session,
                    place,
                    runner,
                    assignment,
                    begun.env.kept,
                    gate,
                    model,
                    live,
                    SecretMask(secrets, model.token),
                )
            )
            if begun.resumed is not None:
                now = self._clock.now()
                for each in messages:
                    await self._base.database.write(partial(store.deliver, id=each.id, now=now))
            await job.write(
                lambda tx: self._base.move(
                    tx, session, "running", ("starting",), started_at=session.started_at or self._clock.now()
                )
            )
            attending = Attending(self._base, self._events, self._clock, attended, quiet_seconds=self._quiet_seconds)
            renewing = asyncio.create_task(self._finishing.renew(session))
            try:
                return await attending.until_over()
            finally:
                renewing.cancel()
                with suppress(asyncio.CancelledError):
                    await renewing

    async def _gone_on(self, session: AgentSession, place: SessionPlace) -> SessionEnding | None:
        """How a session ends that an earlier run left in the middle, where it cannot be gone on with."""
        is_here = session.state == "pending" or await self._runtime.recover(_left(session, place))
        if session.stop_by is not None:
            return SessionEnding("cancelled", {"code": "cancelled", "message": f"Stopped by {session.stop_by}."})
        if session.started_at is None or session.state == "pending" or session.resume_token is not None:
            if is_here or session.started_at is None:
                return None
            # A pod that was taken away; or the disk of another replica, where programs run as processes.
            said = "The place that the agent worked in cannot be reached from here, nor what it wrote there last."
            return failed("interrupted", said)
        return failed(
            "interrupted",
            f"Holdfast was stopped while the agent worked, and the runner {session.frozen.spec.runner} had given "
            "nothing to go on with. What it wrote until then is kept.",
        )

    def _begin(self, tx: Tx, session: AgentSession) -> _Begun:
        """Check everything again, and note that the session starts."""
        try:
            as_it_stands(tx, session.started_by, self._clock.now())
        except Unauthenticated:
            problem = "Whoever started it may no longer: the key or the person is gone."
            raise HoldfastError(problem, code="starter_gone") from None
        self._base.move(tx, session, "starting")
        agent = definition_store.by_id(tx, session.agent_id)
        env = self._freezing.env(tx, session.workspace_id, agent, session.frozen)
        named = session.frozen.repository_id
        repository = repository_store.by_id(tx, named) if named is not None else None
        current = store.find(tx, session.id) or session
        return _Begun(current, env, repository, current.resume_token)

    @asynccontextmanager
    async def _started(
        self,
        session: AgentSession,
        place: SessionPlace,
        runner: AgentRunner,
        assignment: Assignment,
        kept: Mapping[str, KeptAt],
        gate: OpenGate,
        model: OpenModel,
        live: LiveSession,
        mask: SecretMask,
    ) -> AsyncIterator[Attended]:
        """The agent at work; nothing of it is left afterwards."""
        plan = runner.plan(assignment)
        limits = session.frozen.limits
        if limits.memory_mb << 20 < plan.least_memory_bytes:
            problem = f"the runner {runner.name} needs at least {plan.least_memory_bytes >> 20} MiB to start"
            raise NotStartable([FieldError("limits.memory_mb", problem)])
        for path, content in plan.home_files.items():
            await asyncio.to_thread(write_below, place.home, path, content)
        disk = await asyncio.to_thread(used_bytes, place.home, place.work)
        running = await self._runtime.start(_spec(session, place, plan, assignment, kept, gate, model))
        try:
            driving = await runner.drive(running, assignment)
            yield Attended(session, driving, running, live, place, mask, disk_before=disk)
        except HoldfastError as problem:
            if live.limit is None:
                ending = await running.stop(_GRACE_SECONDS)
                if ending.how in ("memory", "processes", "disk", "processor"):
                    raise HoldfastError(ending.said, code="limit_reached") from None
            # It may hold the last words of a program that never got so far as to be attended.
            raise HoldfastError(mask.text(problem.message), code=problem.code) from None
        finally:
            await asyncio.shield(running.stop(_GRACE_SECONDS))


def gated(
    session: AgentSession, place: SessionPlace, secrets: Sequence[tuple[str, str]], runtime: Runtime
) -> GatedSession:
    """A session as its gate knows it, with the secrets of its agent's own environment."""
    return GatedSession(
        id=session.id,
        workspace_id=session.workspace_id,
        agent_id=session.agent_id,
        agent_slug=session.agent_slug,
        principal=replace(session.principal, name=f"{session.principal.name} ({session.id})"),
        user_id=session.user_id,
        parent_id=session.parent_id,
        attachments=tuple(each.attachment for each in session.frozen.servers),
        worktree=place.work,
        secrets=secrets,
        refresh=lambda: runtime.refresh(session.id),
    )


def _left(session: AgentSession, place: SessionPlace) -> RunSpec:
    """What an earlier run of the session may have left: its agent, with home and worktree."""
    mounts = (Mounted(place.home, HOME, writable=True), Mounted(place.work, WORKTREE, writable=True))
    return RunSpec(
        name=f"session {session.id}",
        command=("true",),
        mounts=mounts,
        limits=RunLimits(file_bytes=session.frozen.limits.disk_mb << 20),
        role="agent",
        tenant=session.workspace_id,
        group=session.id,
    )


def _spec(
    session: AgentSession,
    place: SessionPlace,
    plan: LaunchPlan,
    assignment: Assignment,
    kept: Mapping[str, KeptAt],
    gate: OpenGate,
    model: OpenModel,
) -> RunSpec:
    limits = session.frozen.limits
    ours = {
        "PATH": _PATH,
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "GIT_AUTHOR_NAME": session.principal.name,
        "GIT_AUTHOR_EMAIL": f"{session.agent_slug}@holdfast.invalid",
        "GIT_COMMITTER_NAME": session.principal.name,
        "GIT_COMMITTER_EMAIL": f"{session.agent_slug}@holdfast.invalid",
        "HOLDFAST_SESSION": session.id,
    }
    path = ":".join(dict.fromkeys([*plan.env.get("PATH", "").split(":"), *_PATH.split(":")])).strip(":")
    env = {**ours, **assignment.env, **plan.env, "PATH": path, "HOME": HOME}
    return RunSpec(
        name=f"session {session.id}",
        command=plan.command,
        env=env,
        # A runner may want another value under the name.
        kept={name: at for name, at in kept.items() if env[name] == assignment.env[name]},
        directory=WORKTREE,
        mounts=(
            Mounted(place.home, HOME, writable=True),
            Mounted(place.work, WORKTREE, writable=True),
            *gate.mounts,
            *plan.mounts,
        ),
        listeners={MODEL_PORT: model.listener},
        limits=RunLimits(
            memory_bytes=limits.memory_mb << 20,
            processes=limits.processes,
            file_bytes=limits.disk_mb << 20,
            lifetime_seconds=limits.minutes * 60 + WAIT_MILLIS / 1000,
            # Waiting costs no minutes; who only says that it waits works no longer for that.
            processor_seconds=limits.minutes * 60.0 * (os.cpu_count() or 1),
        ),
        secrets=frozenset(value for _, value in granted_values(session.frozen.spec.env, assignment.env)),
        role="agent",
        tenant=session.workspace_id,
        group=session.id,
        companions=gate.companions,
        later=(OUT,),
    )


def _next_prompt(said: list[str]) -> str:
    return "\n\n".join(said) or "Holdfast was restarted in between. Go on where you were."
