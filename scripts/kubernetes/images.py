"""Owns the images that tests of pods run: made of this machine's files, without a daemon.

images.py BUSYBOX DIRECTORY [RUNNERS]    RUNNERS is a directory for /opt/agent/node_modules
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
INSIDE = HERE / "src/holdfast/engines/runtime/kubernetes/inside"
SKIPPED = (
    "test",
    "tests",
    "__pycache__",
    "idlelib",
    "tkinter",
    "dist-packages",
    "site-packages",
    "ensurepip",
    "lib2to3",
)

# Whatever starts in a pod would compile its modules anew each time: what is compiled already comes along.
CODE_SKIPPED = tuple(each for each in SKIPPED if each != "__pycache__")


class Layer:
    """One layer of an image."""

    def __init__(self) -> None:
        self._data = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._data, mode="w")
        self._there: set[str] = set()
        for name in ("bin", "tmp", "etc", "dev", "proc", "sys", "run", "var", "work", "home", "opt", "usr/bin"):
            self._directories(f"{name}/x")
        self.text("etc/passwd", "root:x:0:0:root:/:/bin/sh\n")
        self.text("etc/group", "root:x:0:\n")
        self.text("etc/gitconfig", "[safe]\n\tdirectory = *\n")

    def text(self, name: str, text: str, mode: int = 0o644) -> None:
        """A file of these words."""
        self._file(name, text.encode(), mode)

    def link(self, name: str, to: str) -> None:
        """A symbolic link."""
        if name not in self._there:
            self._directories(name)
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, to
            self._add(info)

    def copy(self, source: str | Path, name: str | None = None) -> None:
        """A file of this machine, at its own place where none is given."""
        path = Path(source)
        at = (name or str(path)).lstrip("/")
        if at not in self._there:
            # Compiled modules count only beside sources of the very second that they were compiled from.
            moment = int(path.stat().st_mtime)
            self._file(at, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644, moment)

    def program(self, source: str | Path, name: str | None = None) -> None:
        """A program, with the libraries that it is linked with."""
        self.copy(source, name)
        self.libraries(source)

    def libraries(self, of: str | Path) -> None:
        """What the loader finds for a file."""
        said = subprocess.run(["ldd", str(of)], capture_output=True, text=True).stdout
        for word in said.split():
            if word.startswith("/") and Path(word).exists():
                self.copy(Path(word).resolve(), word)

    def tree(self, source: str | Path, name: str | None = None, skipped: tuple[str, ...] = ()) -> None:
        """A directory."""
        for directory, names, files in os.walk(source):
            names[:] = [each for each in names if each not in skipped]
            for each in files:
                if each.endswith((".opt-1.pyc", ".opt-2.pyc")):
                    continue
                path = Path(directory, each)
                inner = f"{(name or str(source)).lstrip('/')}/{path.relative_to(source)}"
                if path.is_symlink() and not path.resolve().is_relative_to(source):
                    self.copy(path.resolve(), inner) if path.exists() else None
                elif path.is_symlink():
                    self.link(inner, str(path.readlink()))
                else:
                    self.copy(path, inner)
                    if path.suffix == ".so":
                        self.libraries(path)

    def python(self) -> None:
        """The interpreter that runs this, with its library."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        base = Path(sys.base_prefix)
        program = (base / "bin" / version).resolve()
        stdlib = sysconfig.get_path("stdlib")
        self.program(program, f"usr/bin/{version}")
        self.link("usr/bin/python3", version)
        self.link("usr/local/bin/python3", f"/usr/bin/{version}")
        self.tree(
            stdlib,
            f"usr/lib/{version}",
            (*CODE_SKIPPED, f"config-{sys.version_info.major}.{sys.version_info.minor}-x86_64-linux-gnu"),
        )

    def busybox(self, source: str) -> None:
        """A shell and the usual small programs."""
        self.copy(source, "bin/busybox")
        for applet in subprocess.run([source, "--list"], capture_output=True, text=True).stdout.split():
            if applet != "busybox":
                self.link(f"bin/{applet}", "busybox")
        self.link("usr/bin/env", "/bin/busybox")

    def git(self) -> None:
        """git, without the programs of it that sessions do not use."""
        self.program("/usr/bin/git")
        for name in ("git", "git-upload-pack", "git-receive-pack", "git-index-pack", "git-remote-http"):
            path = Path("/usr/lib/git-core", name)
            if path.exists():
                self.link(str(path).lstrip("/"), "/usr/bin/git") if path.resolve() == Path(
                    "/usr/bin/git"
                ).resolve() or path.is_symlink() else self.program(path)
        self.text("usr/share/git-core/templates/x", "")

    def write(self, out: Path, tag: str, **config: object) -> None:
        """The image as an archive that a runtime imports."""
        self._tar.close()
        layer = self._data.getvalue()
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
        about = json.dumps({"architecture": "amd64", "os": "linux", "config": config, "rootfs": rootfs}).encode()
        name = hashlib.sha256(about).hexdigest() + ".json"
        manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
        out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(out, "w") as image:
            for file, data in (("layer.tar", layer), (name, about), ("manifest.json", manifest)):
                info = tarfile.TarInfo(file)
                info.size = len(data)
                image.addfile(info, io.BytesIO(data))

    def _file(self, name: str, data: bytes, mode: int, moment: int = 0) -> None:
        self._directories(name)
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(data), mode, moment
        self._add(info, data)

    def _directories(self, name: str) -> None:
        parts = name.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            at = "/".join(parts[:count])
            if at not in self._there:
                info = tarfile.TarInfo(at)
                info.type, info.mode = tarfile.DIRTYPE, 0o1777 if at == "tmp" else 0o755
                self._add(info)

    def _add(self, info: tarfile.TarInfo, data: bytes | None = None) -> None:
        self._there.add(info.name)
        self._tar.addfile(info, None if data is None else io.BytesIO(data))


def main() -> None:
    busybox, out = sys.argv[1], Path(sys.argv[2])
    env = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]}
    session = Layer()
    # Before the small ones, whose shell runs its own `find` and `realpath` whatever else there is.
    session.program("/bin/dash", "bin/sh")
    session.busybox(busybox)
    session.python()
    session.git()
    # The last two as Debian has them: what looks at a worktree asks them for more than the small ones know.
    for name in ("socat", "bash", "realpath", "find"):
        session.program(f"/usr/bin/{name}")
    session.tree(INSIDE, "opt/holdfast/inside", SKIPPED)
    session.tree("/etc/ssl/certs", skipped=("java",))
    if len(sys.argv) > 3:
        session.tree(sys.argv[3], "opt/agent/node_modules")
        session.copy("/lib/x86_64-linux-gnu/libgcc_s.so.1")
        session.copy("/lib/x86_64-linux-gnu/libstdc++.so.6") if Path(
            "/lib/x86_64-linux-gnu/libstdc++.so.6"
        ).exists() else None
        for library in (
            "libm.so.6",
            "libdl.so.2",
            "libpthread.so.0",
            "librt.so.1",
            "libresolv.so.2",
            "libnss_files.so.2",
        ):
            path = Path("/lib/x86_64-linux-gnu", library)
            session.copy(path.resolve(), str(path)) if path.exists() else None
    session.write(out / "session.tar", "localhost/holdfast/session:test", **env)
    server = Layer()
    server.busybox(busybox)
    server.python()
    node = shutil.which("node")
    if node:
        server.program(Path(node).resolve(), "usr/local/bin/node")
    server.tree(INSIDE, "opt/holdfast/inside", SKIPPED)
    server.write(out / "server.tar", "localhost/holdfast/mcp-runner:test", **env)
    plain = Layer()
    plain.busybox(busybox)
    plain.write(out / "plain.tar", "localhost/holdfast/plain:test", Env=["PATH=/bin"], Cmd=["/bin/sh"])
    pause = Layer()
    pause.busybox(busybox)
    script = "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done"
    pause.write(out / "pause.tar", "localhost/holdfast/pause:test", Entrypoint=["/bin/sh", "-c", script])


if __name__ == "__main__":
    main()
