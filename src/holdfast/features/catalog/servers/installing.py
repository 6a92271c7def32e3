"""Owns the installation of what an entry runs: fetched once, pinned, started to see its tools; never at a call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal, principal_from, principal_text
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs import Job, JobEngine, JobRun
from holdfast.engines.runtime.images import Images
from holdfast.engines.runtime.packages import Packages, read_command
from holdfast.engines.runtime.readme import readme_of
from holdfast.features.catalog import store
from holdfast.features.catalog.guessing import guessed, names_in_readme
from holdfast.features.catalog.manifest import manifest_of
from holdfast.features.catalog.model import CatalogEntry, InstallState, PackagePin
from holdfast.features.identity.standing import as_it_stands
from holdfast.storage.database import Tx

Probe = Callable[[Principal, str, str], Awaitable[object]]
"""Starts the named server of a workspace and pins its tools."""

KIND = "catalog.install"
TOPIC = "catalog"


_FROM_README = "named in its README"


@dataclass(frozen=True, slots=True)
class _Installed:
    """What an installation found; nothing of it where it failed."""

    pin: PackagePin | None = None
    manifest: object = None
    """What an image says that it expects."""
    wants: Sequence[str] = ()
    """The variables that a package's README names."""


class Installations:
    """Installs in background jobs, whose progress people follow."""

    def __init__(self, jobs: JobEngine, events: EventBus, clock: Clock, packages: Packages, images: Images) -> None:
        self._jobs = jobs
        self._events = events
        self._clock = clock
        self._packages = packages
        self._images = images

    def queue(self, tx: Tx, principal: Principal, entry: CatalogEntry) -> CatalogEntry:
        """The entry while its package is on its way; as it is where it has none. Invalid for what cannot be read."""
        spec = entry.spec
        if spec.shape == "remote":
            return entry
        if spec.shape == "command" and read_command(spec.command or "", spec.args) is None:
            return entry
        installing = replace(entry, install="installing", installed=None, problem=None)
        return replace(installing, job_id=self._enqueue(tx, principal, entry))

    def queue_probe(self, tx: Tx, principal: Principal, entry: CatalogEntry) -> CatalogEntry:
        """The entry, to be started once where it is installed and its tools were never seen."""
        if entry.install != "installed" or entry.probed_at is not None or not entry.spec.enabled:
            return entry
        return replace(entry, problem=None, job_id=self._enqueue(tx, principal, entry))

    async def run(self, job: JobRun, probe: Probe) -> None:
        """The handler of the job."""
        server_id, revision = str(job.payload["server_id"]), int(job.payload["revision"])
        entry = await job.write(lambda tx: store.by_id(tx, server_id))
        if entry is None or entry.revision != revision:
            return
        if entry.install == "installing":
            try:
                done = await self._installed(entry, job)
            except HoldfastError as problem:
                said = problem.message[:2_000]
                await job.write(lambda tx: self._put(tx, server_id, revision, _Installed(), said))
                return
            await job.write(lambda tx: self._put(tx, server_id, revision, done, None))
        await self._probed(job, server_id, revision, probe)

    def ended(self, tx: Tx, job: Job) -> None:
        """Within the transaction that ends a job: whatever it was, nothing is still being installed."""
        if job.state != "succeeded":
            problem = job.error or "The installation was cancelled."
            self._put(tx, str(job.payload["server_id"]), int(job.payload["revision"]), _Installed(), problem)

    def _enqueue(self, tx: Tx, principal: Principal, entry: CatalogEntry) -> str:
        payload = {"server_id": entry.id, "revision": entry.revision, "principal": principal_text(principal)}
        return self._jobs.enqueue(tx, KIND, payload, workspace_id=entry.workspace_id)

    async def _probed(self, job: JobRun, server_id: str, revision: int, probe: Probe) -> None:
        """Start what is installed to see its tools, as whoever registered it would; what fails is said on the entry."""
        entry = await job.write(lambda tx: store.by_id(tx, server_id))
        if entry is None or entry.revision != revision or entry.install != "installed" or not entry.spec.enabled:
            return
        await job.progress(0, None, f"Starting {entry.name} to see its tools")
        asked = principal_from(str(job.payload["principal"]))
        try:
            principal = await job.write(lambda tx: as_it_stands(tx, asked, self._clock.now()))
            await probe(principal, entry.workspace_id, entry.name)
        except HoldfastError as problem:
            said = " ".join([problem.message, *(f"{each.field}: {each.message}." for each in problem.fields)])[:2_000]
            await job.write(lambda tx: self._note(tx, server_id, revision, f"Its tools are not known yet. {said}"))

    def _note(self, tx: Tx, server_id: str, revision: int, problem: str) -> None:
        entry = store.by_id(tx, server_id)
        if entry is not None and entry.revision == revision and entry.probed_at is None:
            store.update(tx, replace(entry, problem=problem))
            payload = {"id": entry.id, "name": entry.name, "action": "not_probed"}
            self._events.publish(tx, f"{TOPIC}.not_probed", payload, workspace_id=entry.workspace_id)

    async def _installed(self, entry: CatalogEntry, job: JobRun) -> "_Installed":
        spec = entry.spec
        if spec.shape == "image":
            await job.progress(0, None, f"Unpacking {spec.image}")
            image = await self._images.unpack(spec.image or "")
            return _Installed(PackagePin("image", spec.image or "", image.digest, image.digest), image.manifest)
        wanted = read_command(spec.command or "", spec.args)
        assert wanted is not None

        async def tell(line: str) -> None:
            await job.progress(0, None, line[:500])

        made = await self._packages.install(wanted, tell)
        pin = PackagePin(made.ecosystem, made.name, made.version, made.integrity)
        return _Installed(pin, wants=names_in_readme(await asyncio.to_thread(readme_of, made)))

    def _put(self, tx: Tx, server_id: str, revision: int, done: "_Installed", problem: str | None) -> None:
        entry = store.by_id(tx, server_id)
        if entry is None or entry.revision != revision or entry.install != "installing":
            return
        spec, pin, manifest = entry.spec, done.pin, done.manifest
        if done.wants:
            spec = replace(spec, manifest=guessed(spec.manifest, spec.env, done.wants, label=_FROM_README))
        if manifest is not None and not spec.manifest.env and not spec.manifest.tool_scopes:
            # What the image says of itself; an admin's own words would have come first.
            try:
                spec = replace(spec, manifest=manifest_of(manifest))
            except HoldfastError as wrong:
                problem = f"Its /mcp-manifest.json cannot be used: {wrong.fields[0].field if wrong.fields else ''}"
        state: InstallState = "installed" if pin is not None and problem is None else "failed"
        store.update(
            tx,
            replace(entry, spec=spec, install=state, installed=pin, problem=problem, updated_at=self._clock.now()),
        )
        payload = {"id": entry.id, "name": entry.name, "action": state}
        self._events.publish(tx, f"{TOPIC}.{state}", payload, workspace_id=entry.workspace_id)
