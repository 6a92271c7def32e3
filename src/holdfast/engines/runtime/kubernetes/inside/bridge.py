"""Owns the first process of a container: it binds the stdio of the container's program to a socket.

    bridge.py SOCKET [-- COMMAND...]

Each connection to the socket begins with one line of JSON that says what it is for; the connection of a run is the
program's own stdin and stdout from then on. Whoever is in the container can reach the socket, and with it no more than
they can do anyway.
"""

import base64
import ctypes
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import threading
from contextlib import suppress
from typing import Any

_MOST_ORDER = 4 << 20
_PIECE = 65_536
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_libc = ctypes.CDLL(None, use_errno=True)


class _SockFilter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


class Run:
    """One run of a program; a watcher hears its stderr and its end."""

    def __init__(self) -> None:
        self.pid = 0
        self.changed = threading.Condition()
        self.said: list[bytes] = []
        self.end: dict[str, Any] | None = None

    def tell(self, said: bytes) -> None:
        with self.changed:
            self.said.append(said)
            self.changed.notify_all()

    def finish(self, end: "dict[str, Any]") -> None:
        with self.changed:
            self.end = end
            self.changed.notify_all()


class Bridge:
    """The runs of one container."""

    def __init__(self, command: "list[str]") -> None:
        self._command = command
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._ended: dict[int, int] = {}
        self._started = threading.Condition()
        threading.Thread(target=self._reap, daemon=True).start()

    def serve(self, path: str) -> None:
        """Take connections for good."""
        with suppress(FileNotFoundError):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        # The sidecar is another user; the directory is its own and this container's alone.
        os.chmod(path, 0o666)
        listener.listen(64)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        try:
            order = json.loads(_line(connection))
            getattr(self, f"do_{order.pop('do')}")(connection, **order)
        except (OSError, ValueError, AttributeError, TypeError, tarfile.TarError) as problem:
            with suppress(OSError):
                _say(connection, {"problem": f"{type(problem).__name__}: {problem}"})
        finally:
            with suppress(OSError):
                connection.close()

    def do_run(self, connection: socket.socket, id: str, argv: Any, env: "dict[str, str]", **more: Any) -> None:
        """Run the program with this connection as its stdin and stdout."""
        run = self._run(id)
        environ = {**{name: os.environ[name] for name in more.get("keep", ()) if name in os.environ}, **env}
        try:
            with self._started:
                process = subprocess.Popen(
                    argv or self._command,
                    env=environ,
                    cwd=more.get("directory") or "/",
                    stdin=connection.fileno(),
                    stdout=connection.fileno(),
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    preexec_fn=_confine(more),
                )
                run.pid = process.pid
                self._started.notify_all()
        except OSError as problem:
            run.finish({"problem": f"{problem.strerror}: {problem.filename}"})
            return
        # The child's are the only descriptors now, so that its end is the connection's.
        connection.close()
        assert process.stderr is not None
        while piece := os.read(process.stderr.fileno(), _PIECE):
            run.tell(piece)
        with self._started:
            while process.pid not in self._ended:
                self._started.wait()
            status = self._ended.pop(process.pid)
        process.returncode = 0
        run.finish({"code": os.waitstatus_to_exitcode(status), "out_of_memory": _out_of_memory()})

    def do_watch(self, connection: socket.socket, id: str) -> None:
        """Tell of a run; when whoever watches is gone, the run ends."""
        run = self._run(id)
        threading.Thread(target=self._guard, args=(connection, run), daemon=True).start()
        while True:
            with run.changed:
                while not run.said and run.end is None:
                    run.changed.wait()
                said, run.said = run.said, []
                end = run.end
            if said:
                _say(connection, {"stderr": base64.b64encode(b"".join(said)).decode()})
            elif end is not None:
                _say(connection, {"end": end})
                return

    def do_greet(self, connection: socket.socket) -> None:
        """Say that the container is up."""
        _say(connection, {"ok": True})

    def do_signal(self, connection: socket.socket, id: str, name: str) -> None:
        """Send a run a signal; KILL goes to everything in the container."""
        pid = self._run(id).pid
        with suppress(ProcessLookupError):
            if name == "KILL":
                self._kill()
            elif pid:
                os.killpg(pid, getattr(signal, f"SIG{name}"))
        _say(connection, {"ok": True})

    def do_put(self, connection: socket.socket, path: str) -> None:
        """Empty a directory and fill it from an archive."""
        for each in os.scandir(path):
            _remove(each.path)
        with connection.makefile("rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _extract(archive, member, path)
        _say(connection, {"ok": True})

    def do_get(self, connection: socket.socket, path: str) -> None:
        """A directory as an archive."""
        with (
            connection.makefile("wb") as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            _pack(archive, path, "")
        connection.shutdown(socket.SHUT_WR)

    def do_end(self, connection: socket.socket) -> None:
        """End the container."""
        self._kill()
        os._exit(0)

    def _run(self, id: str) -> Run:
        with self._lock:
            return self._runs.setdefault(id, Run())

    def _guard(self, connection: socket.socket, run: Run) -> None:
        with suppress(OSError):
            while connection.recv(1):
                pass
        if run.end is None:
            self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            # As the container's first process: everybody else in it.
            os.kill(-1, signal.SIGKILL)

    def _reap(self) -> None:
        """Collect every process that ends, also those whose parents are gone."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                with self._started:
                    self._started.wait(1)
                continue
            with self._started:
                if any(run.pid == pid for run in self._runs.values()):
                    self._ended[pid] = status
                self._started.notify_all()


def _confine(more: "dict[str, Any]") -> Any:
    """What the child does to itself before it becomes the program."""
    limits = {resource.RLIMIT_NPROC: more.get("processes"), resource.RLIMIT_FSIZE: more.get("file_bytes")}
    code = base64.b64decode(more.get("filter") or "")
    program = _SockFilter(len(code) // 8, code)

    def confine() -> None:
        os.umask(0o022)
        for what, most in limits.items():
            if most:
                resource.setrlimit(what, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if code:
            _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
                raise OSError(ctypes.get_errno(), "the filter of system calls is refused")

    return confine


def _out_of_memory() -> bool:
    """Whether the kernel killed something of this container for want of memory."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with suppress(OSError), open(path) as file:
            return any(int(line.split()[1]) > 0 for line in file if line.startswith("oom_kill "))
    return False


def _line(connection: socket.socket) -> bytes:
    """The first line and not a byte more: what follows belongs to the program."""
    line = bytearray()
    while not line.endswith(b"\n"):
        seen = connection.recv(_PIECE, socket.MSG_PEEK)
        if not seen or len(line) > _MOST_ORDER:
            raise ValueError("no order")
        end = seen.find(b"\n")
        line += connection.recv(len(seen) if end < 0 else end + 1)
    return bytes(line)


def _say(connection: socket.socket, message: "dict[str, Any]") -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        with suppress(OSError):
            os.chmod(path, 0o700)
        for each in os.scandir(path):
            _remove(each.path)
        os.rmdir(path)
    else:
        os.unlink(path)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, root: str) -> None:
    target = os.path.join(root, member.name)
    if member.isdir():
        os.makedirs(target, exist_ok=True)
        os.chmod(target, member.mode | 0o700)
    elif member.issym():
        os.symlink(member.linkname, target)
    elif member.isreg():
        source = archive.extractfile(member)
        assert source is not None
        with open(target, "wb") as file:
            while piece := source.read(_PIECE):
                file.write(piece)
        os.chmod(target, member.mode)
        os.utime(target, (member.mtime, member.mtime))


def _pack(archive: tarfile.TarFile, path: str, name: str) -> None:
    """Plain files, directories and links; what else may lie there is nobody's business."""
    with suppress(PermissionError):
        if not os.access(path, os.R_OK | os.X_OK):
            os.chmod(path, 0o700)
    for each in os.scandir(path):
        inner = f"{name}/{each.name}" if name else each.name
        info = tarfile.TarInfo(inner)
        facts = each.stat(follow_symlinks=False)
        info.mode, info.mtime = stat.S_IMODE(facts.st_mode), int(facts.st_mtime)
        if each.is_symlink():
            info.type, info.linkname = tarfile.SYMTYPE, os.readlink(each.path)
            archive.addfile(info)
        elif each.is_dir(follow_symlinks=False):
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
            _pack(archive, each.path, inner)
        elif stat.S_ISREG(facts.st_mode):
            if not os.access(each.path, os.R_OK):
                os.chmod(each.path, 0o600)
            with open(each.path, "rb") as file:
                info.size = os.fstat(file.fileno()).st_size
                archive.addfile(info, file)


def main() -> None:
    """Serve until the container ends."""
    if os.getpid() != 1:
        # It ends everything around it when it is told to.
        sys.exit("bridge: this is the first process of a container and of nothing else")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    words = sys.argv[2:]
    Bridge(words[1:] if words[:1] == ["--"] else words).serve(sys.argv[1])


if __name__ == "__main__":
    main()
