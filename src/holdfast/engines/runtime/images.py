"""Owns servers that come as container images: unpacking a layout or an archive, and reading its manifest."""

import asyncio
import hashlib
import ipaddress
import json
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.errors import FieldError, Invalid, Unavailable, UpstreamFailed
from holdfast.engines.fetch.network.addresses import closed_because
from holdfast.engines.fetch.network.url import parse_url

_MANIFEST = "mcp-manifest.json"
_RECORD = "holdfast-image.json"
_MAX_MANIFEST = 1 << 20
_MAX_BYTES = 8 << 30
_SECONDS = 900.0
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class UnpackerMissing(Unavailable):
    """Nothing on this machine can unpack an image."""

    code = "unpacker_missing"


class UnpackFailed(UpstreamFailed):
    """The image could not be unpacked; the message ends with what the unpacker said."""

    code = "unpack_failed"


@dataclass(frozen=True, slots=True)
class UnpackedImage:
    """An image as a directory that a sandbox can live in."""

    digest: str
    """Of the image's own manifest: what was approved is what runs."""
    root: Path
    command: tuple[str, ...]
    env: dict[str, str]
    directory: str
    manifest: dict[str, Any] | None
    """`/mcp-manifest.json`, where it has one."""


class Images:
    """Unpacks images below one directory, each once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = asyncio.Lock()

    def find(self, digest: str) -> UnpackedImage | None:
        """An image that was unpacked before."""
        return _load(self._directory / digest.replace(":", "-"))

    async def unpack(self, image: str) -> UnpackedImage:
        """`oci:PATH[:TAG]`, `oci-archive:PATH[:TAG]`, `docker-archive:PATH`, or a name that podman knows or fetches."""
        kind, _, rest = image.partition(":")
        async with self._lock:
            await asyncio.to_thread(self._directory.mkdir, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(
                dir=self._directory, prefix="unpacking-", ignore_cleanup_errors=True
            ) as making:
                if kind in ("oci", "oci-archive", "docker-archive"):
                    made = await self._from_files(kind, rest, Path(making))
                else:
                    made = await self._from_podman(image, Path(making))
                return await asyncio.to_thread(self._keep, made, Path(making))

    async def _from_files(self, kind: str, rest: str, making: Path) -> UnpackedImage:
        path, tag = _path_and_tag(rest)
        if not path.exists():
            raise _wrong(f"there is nothing at {path}")
        layout = path
        if kind != "oci":
            layout = making / "layout"
            await asyncio.to_thread(_extract if kind == "oci-archive" else _convert, path, layout)
        umoci = shutil.which("umoci")
        if umoci is None:
            raise UnpackerMissing(
                "Images need umoci here. On Debian: apt-get install umoci. Or install podman and name the image."
            )
        digest, tag = await asyncio.to_thread(_described, layout, tag)
        kept = self.find(digest)
        if kept is not None:
            return kept
        bundle = making / "bundle"
        rootless = ("--rootless",) if os.geteuid() != 0 else ()
        await _run((umoci, "unpack", *rootless, "--image", f"{layout}:{tag}", str(bundle)), making)
        config = await asyncio.to_thread(_configuration, layout, digest)
        return _read(digest, bundle / "rootfs", config)

    async def _from_podman(self, image: str, making: Path) -> UnpackedImage:
        podman = shutil.which("podman")
        if podman is None:
            raise UnpackerMissing(
                f"The image {image!r} has to be fetched, and podman is not on this machine. "
                "On Debian: apt-get install podman; or save it elsewhere and name it as oci-archive:/path."
            )
        if image.startswith("-"):
            raise _wrong("a name of an image does not begin with a dash")
        if (await _run((podman, "image", "exists", "--", image), making, may_fail=True)) is None:
            _check_registry(image)
            await _run((podman, "pull", "--quiet", "--", image), making)
        described = json.loads(await _run((podman, "image", "inspect", "--", image), making) or "[]")[0]
        kept = self.find(f"sha256:{described['Id'].removeprefix('sha256:')}")
        if kept is not None:
            return kept
        container = (await _run((podman, "create", "--", image), making) or "").strip().splitlines()[-1]
        try:
            archive = making / "root.tar"
            await _run((podman, "export", "--output", str(archive), container), making)
        finally:
            await _run((podman, "rm", "--force", container), making, may_fail=True)
        root = making / "rootfs"
        await asyncio.to_thread(_extract, archive, root)
        digest = f"sha256:{described['Id'].removeprefix('sha256:')}"
        return _read(digest, root, described.get("Config") or {})

    def _keep(self, made: UnpackedImage, making: Path) -> UnpackedImage:
        place = self._directory / made.digest.replace(":", "-")
        if not made.root.is_relative_to(making):
            return made
        whole = making / "kept"
        whole.mkdir(mode=0o755)
        made.root.rename(whole / "rootfs")
        _open_up(whole / "rootfs")
        record = {"digest": made.digest, "command": made.command, "env": made.env, "directory": made.directory}
        (whole / _RECORD).write_text(json.dumps(record | {"manifest": made.manifest}))
        with suppress(OSError):
            # Where it lies already it is the same, by its digest.
            whole.rename(place)
        kept = _load(place)
        if kept is None:
            raise UnpackFailed(f"The image was unpacked, but is not found at {place}.")
        return kept


def _load(place: Path) -> UnpackedImage | None:
    try:
        record = json.loads((place / _RECORD).read_text())
    except FileNotFoundError:
        return None
    return UnpackedImage(**(record | {"command": tuple(record["command"])}), root=place / "rootfs")


def _read(digest: str, root: Path, config: dict[str, Any]) -> UnpackedImage:
    args = [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
    env = dict(entry.partition("=")[::2] for entry in config.get("Env") or [])
    if not args:
        raise _wrong("it says neither an entrypoint nor a command to run")
    manifest = root / _MANIFEST
    found: dict[str, Any] | None = None
    # A link would be followed on our machine, not in the image.
    if manifest.is_file() and not manifest.is_symlink():
        try:
            found = json.loads(manifest.read_bytes()[:_MAX_MANIFEST])
        except ValueError:
            raise _wrong(f"its /{_MANIFEST} is not JSON") from None
        if not isinstance(found, dict):
            raise _wrong(f"its /{_MANIFEST} is not an object")
    return UnpackedImage(digest, root, tuple(args), env, config.get("WorkingDir") or "/", found)


def _described(layout: Path, tag: str) -> tuple[str, str]:
    """The digest of the image's manifest, and the tag by which the layout calls it."""
    try:
        index = json.loads((layout / "index.json").read_text())
    except (OSError, ValueError):
        raise _wrong(f"{layout} is not an OCI layout: it has no index.json") from None
    named = {
        each.get("annotations", {}).get("org.opencontainers.image.ref.name", ""): each for each in index["manifests"]
    }
    if tag not in named and (tag == "latest" and len(named) == 1):
        tag = next(iter(named))
    if tag not in named:
        raise _wrong(f"it has no tag {tag!r}; it has: {', '.join(sorted(named)) or 'none'}")
    return str(named[tag]["digest"]), tag


def _configuration(layout: Path, digest: str) -> dict[str, Any]:
    """What the image says of itself: what to run, with which environment, and where."""

    def blob(digest: str) -> dict[str, Any]:
        kind, _, name = digest.partition(":")
        if not name.isalnum() or not kind.isalnum():
            raise _wrong(f"{digest[:100]!r} is not a digest")
        read: dict[str, Any] = json.loads((layout / "blobs" / kind / name).read_bytes())
        return read

    try:
        manifest = blob(digest)
        if "config" not in manifest:
            raise _wrong("it is for several platforms; save the one of this machine alone")
        return dict(blob(manifest["config"]["digest"]).get("config") or {})
    except (OSError, ValueError, KeyError) as problem:
        raise _wrong(f"its description can't be read: {problem}") from None


def _check_registry(image: str) -> None:
    """podman fetches by itself, so what it would ask is judged here: no machine of an internal network."""
    host = image.partition("/")[0] if "/" in image else ""
    if "." not in host and ":" not in host and host != "localhost":
        return
    url = parse_url(f"https://{host}")
    with suppress(ValueError):
        if closed_because(ipaddress.ip_address(url.host)) is not None:
            raise _wrong(f"{url.host} is not on the public internet; load the image with podman first")
    if url.is_local_name:
        raise _wrong(f"{url.host} is not on the public internet; load the image with podman first")


def _path_and_tag(rest: str) -> tuple[Path, str]:
    path, colon, tag = rest.rpartition(":")
    if colon and "/" not in tag:
        if _TAG.fullmatch(tag) is None:
            raise _wrong(f"{tag!r} is not a tag")
        return Path(path), tag
    return Path(rest), "latest"


def _extract(archive: Path, into: Path) -> None:
    into.mkdir()
    size = 0
    try:
        with tarfile.open(archive) as tar:
            # Python's own filters came with 3.11.4, and Debian has 3.11.2; `_tame` does what they would.
            tar.extraction_filter = lambda member, path: member
            for member in tar:
                size += member.size
                if size > _MAX_BYTES:
                    raise _wrong(f"it is larger than {_MAX_BYTES >> 30} GiB")
                # Devices are nobody's need in a sandbox.
                if not (member.ischr() or member.isblk() or member.isfifo()):
                    _tame(member, into)
                    tar.extract(member, into)
    except (tarfile.TarError, OSError) as problem:
        raise _wrong(f"the archive can't be read: {problem}") from None


def _open_up(root: Path) -> None:
    """Let its program, whom no file of an image names, read and run all of it; it lies where nobody else comes."""
    root.chmod(0o755)
    # By descriptors and without following links: an image may hold a link to a file of this machine.
    for _, directories, files, directory in os.fwalk(root):
        for name in (*directories, *files):
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if not stat.S_ISLNK(mode):
                may = (mode & 0o500) >> 6
                os.chmod(name, (mode & 0o777) | may << 3 | may, dir_fd=directory)


def _tame(member: tarfile.TarInfo, into: Path) -> None:
    """Keep an entry below the directory, whatever links were unpacked before it, and make it our own."""
    member.name = member.name.lstrip("/")
    place = into / member.name
    # A link is put in the place of what is there; everything else would be written through it.
    _check_below(place.parent if member.issym() or member.islnk() else place, into)
    if member.islnk():
        member.linkname = member.linkname.lstrip("/")
        _check_below(into / member.linkname, into)
    member.mode &= 0o777
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""


def _check_below(path: Path, directory: Path) -> None:
    """A name in an archive, with every link followed, must not lead to a file of this machine."""
    if not path.resolve().is_relative_to(directory.resolve()):
        raise _wrong(f"it holds a link to {path.resolve()}, outside of itself")


def _convert(archive: Path, layout: Path) -> None:
    """Make an OCI layout of what `docker save` wrote."""
    with tempfile.TemporaryDirectory(dir=layout.parent) as plain:
        source = Path(plain) / "archive"
        _extract(archive, source)
        try:
            saved = json.loads((source / "manifest.json").read_text())[0]
            for name in (saved["Config"], *saved["Layers"]):
                _check_below(source / name, source)
            config = _blob(layout, (source / saved["Config"]).read_bytes())
            layers = [_blob(layout, (source / layer).read_bytes()) for layer in saved["Layers"]]
        except (OSError, ValueError, KeyError, IndexError):
            raise _wrong(f"{archive} is not what `docker save` writes") from None
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", **config},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar", **layer} for layer in layers],
    }
    described = _blob(layout, json.dumps(manifest).encode())
    named = {"mediaType": f"{kind}.manifest.v1+json", **described}
    named["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))


def _blob(layout: Path, data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    place = layout / "blobs" / "sha256"
    place.mkdir(parents=True, exist_ok=True)
    (place / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def _wrong(problem: str) -> Invalid:
    return Invalid(f"The image can't be used: {problem}.", fields=[FieldError("image", problem)])


async def _run(command: Sequence[str], directory: Path, *, may_fail: bool = False) -> str | None:
    """What a program printed; None where it failed and may."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env={"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", str(directory)), "LANG": "C.UTF-8"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            out, said = await process.communicate()
    except TimeoutError:
        raise UnpackFailed(f"The image was not unpacked within {_SECONDS:g} seconds.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return out.decode("utf-8", "replace")
    if may_fail:
        return None
    raise UnpackFailed(f"The image could not be unpacked: {said.decode('utf-8', 'replace').strip()[-1_000:]}")
