"""Owns the installation of what an entry runs: packages and images are fetched once, pinned, and never at a call."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs import Job, JobEngine, JobRun
from holdfast.engines.runtime.images import Images
from holdfast.engines.runtime.packages import Packages, read_command
from holdfast.engines.runtime.readme import readme_of
from holdfast.features.catalog import store
from holdfast.features.catalog.guessing import guessed, names_in_readme
from holdfast.features.catalog.manifest import manifest_of
from holdfast.features.catalog.model import CatalogEntry, InstallState, PackagePin
from holdfast.storage.database import Tx

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

    def queue(self, tx: Tx, entry: CatalogEntry) -> CatalogEntry:
        """The entry while its package is on its way; as it is where it has none. Invalid for what cannot be read."""
        spec = entry.spec
        if spec.shape == "remote":
            return entry
        if spec.shape == "command" and read_command(spec.command or "", spec.args) is None:
            return entry
        payload = {"server_id": entry.id, "revision": entry.revision}
        job_id = self._jobs.enqueue(tx, KIND, payload, workspace_id=entry.workspace_id)
        return replace(entry, install="installing", installed=None, problem=None, job_id=job_id)

    async def run(self, job: JobRun) -> None:
        """The handler of the job."""
        server_id, revision = str(job.payload["server_id"]), int(job.payload["revision"])
        entry = await job.write(lambda tx: store.by_id(tx, server_id))
        if entry is None or entry.revision != revision:
            return
        try:
            done = await self._installed(entry, job)
        except HoldfastError as problem:
            said = problem.message[:2_000]
            await job.write(lambda tx: self._put(tx, server_id, revision, _Installed(), said))
            return
        await job.write(lambda tx: self._put(tx, server_id, revision, done, None))

    def ended(self, tx: Tx, job: Job) -> None:
        """Within the transaction that ends a job: whatever it was, nothing is still being installed."""
        if job.state != "succeeded":
            problem = job.error or "The installation was cancelled."
            self._put(tx, str(job.payload["server_id"]), int(job.payload["revision"]), _Installed(), problem)

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
