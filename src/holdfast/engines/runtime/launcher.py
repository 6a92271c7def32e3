"""Owns the small program between Holdfast and a sandbox: it makes namespaces, drops rights, watches, and never lets go.

Run by its path, as `python -I -S launcher.py CONTROL_FD`, so it imports nothing of ours. The order comes over the
control socket, never by arguments or environment; the end of that socket, whatever the cause, is the end of the
program. The program lives in a pid namespace whose first process is our child, so the kernel leaves nothing behind.
"""

import base64
import contextlib
import ctypes
import errno
import fcntl
import json
import math
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from typing import Any, NoReturn

_NEW_MOUNTS, _NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x0002_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000
_BIND_WHOLE, _PRIVATE_WHOLE = 0x1000 | 0x4000, 0x4_0000 | 0x4000
_DEATH_SIGNAL, _DUMPABLE = 1, 4
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_NICENESS = 5
_CALM_SECONDS, _WATCHFUL_SECONDS = 0.25, 0.03
_KEPT_SECONDS = 1.0
_FULL_SECONDS = 3.0
_SMALLEST_FILE = 1024
_PAGE = resource.getpagesize()

_libc = ctypes.CDLL(None, use_errno=True)


class CannotConfine(Exception):
    """A step failed; its text is what a person reads."""


def main() -> None:
    """Take the order, start the program, and stay until nothing of it is left."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    _close_all_but(control.fileno())
    order = _received(control)
    try:
        first, alive = _start(order, control)
    except CannotConfine as problem:
        _tell(control, {"cannot": str(problem)})
        return
    _tell(control, {"started": True})
    ending = _watch(first, order["limits"], order.get("group", {}).get("met", ""), control)
    os.close(alive)
    _tell(control, ending)


def _close_all_but(kept: int) -> None:
    """Not every event loop closes what children do not need: copies of their streams, whatever the server was given."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _start(order: dict[str, Any], control: socket.socket) -> tuple[int, int]:
    """The first process of the namespace, and what tells it that we are still there."""
    failed_read, failed_write = os.pipe()
    alive_read, alive_write = os.pipe()
    if order["uid"] is None:
        uid, gid = os.getuid(), os.getgid()
        _step("make a user namespace", _libc.unshare(_NEW_USER | _NEW_PIDS))
        _map_to_itself(uid, gid)
    else:
        _step("make a pid namespace", _libc.unshare(_NEW_PIDS))
    first = os.fork()
    if first == 0:
        os.close(alive_write)
        os.close(failed_read)
        _become_program(order, control, alive_read, failed_write)
    os.close(alive_read)
    os.close(failed_write)
    # Ours would otherwise keep the pipes open after the program has closed them.
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    with os.fdopen(failed_read, "rb") as failed:
        problem = failed.read()
    if problem:
        os.waitpid(first, 0)
        raise CannotConfine(problem.decode())
    return first, alive_write


def _become_program(order: dict[str, Any], control: socket.socket, alive: int, failed: int) -> NoReturn:
    try:
        _join(order.get("group", {}).get("join", []))
        if order["uid"] is None:
            _step("make a network namespace", _libc.unshare(_NEW_NETWORK))
        else:
            _stage(order["stage_at"], order["staged"])
            _drop(order["uid"])
            _step("make a user and a network namespace", _libc.unshare(_NEW_USER | _NEW_NETWORK))
            _map_to_itself(order["uid"], order["uid"])
        _step("follow our end", _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
        if select.select([alive], [], [], 0)[0]:
            os._exit(1)
        if order["ports"]:
            _raise_loopback()
        for port in order["ports"]:
            _send_listener(port, control)
        _limit(order["limits"])
        args = _memory_file("\0".join(_filled(order)).encode())
        os.execve(_placed(order["bwrap"], order), ["bwrap", "--args", str(args), "--", *order["command"]], {})
    except (CannotConfine, OSError) as problem:
        os.write(failed, str(problem).encode())
    os._exit(1)


def _join(groups: list[str]) -> None:
    """Everything that the program starts is in its control group from the beginning; we who watch it are not."""
    for path in groups:
        try:
            with open(path, "w") as file:
                file.write("0")
        except OSError as problem:
            raise CannotConfine(f"could not enter the control group {path}: {problem.strerror}") from None


def _step(what: str, result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise CannotConfine(f"could not {what}: {os.strerror(code)} ({errno.errorcode.get(code, code)})")


def _map_to_itself(uid: int, gid: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError as problem:
            raise CannotConfine(f"could not write /proc/self/{name}: {problem.strerror}") from None


def _stage(at: str, sources: list[str]) -> None:
    """Put what is mounted where the program's user can reach it, in a mount namespace of its own."""
    _step("make a mount namespace", _libc.unshare(_NEW_MOUNTS))
    _step("keep mounts private", _libc.mount(b"none", b"/", None, _PRIVATE_WHOLE, None))
    _step("mount a staging area", _libc.mount(b"none", at.encode(), b"tmpfs", 0, b"mode=0711"))
    for index, source in enumerate(sources):
        target = f"{at}/{index}"
        if os.path.isdir(source):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        _step(f"mount {source}", _libc.mount(source.encode(), target.encode(), None, _BIND_WHOLE, None))


def _drop(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # A change of user makes /proc/self root's; the maps below are written there.
    _step("own /proc/self again", _libc.prctl(_DUMPABLE, 1, 0, 0, 0))


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as any_socket:
        request = bytearray(struct.pack("16sH14x", b"lo", 0))
        fcntl.ioctl(any_socket, _GET_FLAGS, request)
        flags = struct.unpack("16xH14x", request)[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def _send_listener(port: int, control: socket.socket) -> None:
    """A socket in the sandbox's own network, answered by Holdfast outside; there is no other way out."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        socket.send_fds(control, [b'{"port":%d}\n' % port], [listener.fileno()])


def _limit(limits: dict[str, Any]) -> None:
    memory = limits["memory_bytes"]
    os.nice(_NICENESS)
    for kind, most in (
        (resource.RLIMIT_NPROC, limits["processes"] if _counts_within_namespaces() else resource.RLIM_INFINITY),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 4096),
        # Node reserves gigabytes of addresses that it never uses, so what counts is what it could write to; one
        # process can't outrun the watch below by more than this.
        (resource.RLIMIT_DATA, memory + (512 << 20)),
        (resource.RLIMIT_MEMLOCK, 8 << 20),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        # Infinity is a negative number.
        value = min((each for each in (most, hard) if each != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY)
        resource.setrlimit(kind, (value, value))


def _counts_within_namespaces() -> bool:
    """Whether the kernel counts a user's processes for each namespace; before, those outside would count as well."""
    release = os.uname().release.split(".")
    return release[0].isdecimal() and (int(release[0]), int(release[1])) >= (5, 14)


def _filled(order: dict[str, Any]) -> list[str]:
    """bwrap's arguments, with descriptors and staged paths where the order left their places open."""
    filled: list[str] = []
    for argument in order["args"]:
        if isinstance(argument, dict) and "data" in argument:
            filled.append(str(_memory_file(base64.b64decode(argument["data"]))))
        else:
            filled.append(_placed(argument, order))
    return filled


def _placed(path: str | dict[str, Any], order: dict[str, Any]) -> str:
    if isinstance(path, str):
        return path
    index = path["staged"]
    place = order["staged"][index] if order["uid"] is None else f"{order['stage_at']}/{index}"
    return f"{place}{path.get('below', '')}"


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("holdfast", 0)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    return descriptor


def _watch(first: int, limits: dict[str, Any], met: str, control: socket.socket) -> dict[str, Any]:
    """How the program ended, once nothing of it is left. `met` is where the kernel says that it met its hard cap."""
    ended = os.pidfd_open(first)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(control, select.POLLIN)
    deadline = None if limits["seconds"] is None else time.monotonic() + limits["seconds"]
    how, peak, pause, look_at = "exited", 0, _WATCHFUL_SECONDS, time.monotonic() + _KEPT_SECONDS
    full_since, spent = math.inf, 0.0
    while True:
        left = pause if deadline is None else max(0.0, min(pause, deadline - time.monotonic()))
        ready = {descriptor for descriptor, _ in poll.poll(left * 1000)}
        if ended in ready:
            break
        if control.fileno() in ready:
            if _asked(control) == b"T":
                _signal_program(first, signal.SIGTERM)
                continue
            how = "stopped"
        elif deadline is not None and time.monotonic() >= deadline:
            how = "time"
        else:
            used, count = _used(first, limits["memory_bytes"])
            peak = max(peak, used)
            # The kernel refuses it one more, which a program that only tries for a moment may live with.
            full_since = min(full_since, time.monotonic()) if count >= limits["processes"] else math.inf
            if used > limits["memory_bytes"] or _met(met):
                how = "memory"
            elif count > limits["processes"] + 8 or time.monotonic() - full_since > _FULL_SECONDS:
                how = "processes"
            elif time.monotonic() >= look_at:
                began = time.monotonic()
                spent = max(spent, _spent(first))
                if limits["processor_seconds"] is not None and spent > limits["processor_seconds"]:
                    how = "processor"
                elif _keeps_too_much(limits["kept"]) or _removed(first, limits["devices"]) > limits["file_bytes"]:
                    how = "disk"
                # A directory of very many files is not walked all the time.
                look_at = time.monotonic() + max(_KEPT_SECONDS, 20 * (time.monotonic() - began))
                if how == "exited":
                    continue
            else:
                pause = _WATCHFUL_SECONDS if used > limits["memory_bytes"] // 4 else _CALM_SECONDS
                continue
        signal.pidfd_send_signal(ended, signal.SIGKILL)
        break
    # The first process of a pid namespace is gone only when all others are.
    status = os.waitpid(first, 0)[1]
    if how == "exited" and _met(met):
        how = "memory"
    return {"how": how, "code": os.waitstatus_to_exitcode(status) if how == "exited" else None, "peak_bytes": peak}


def _met(path: str) -> bool:
    """Whether the kernel ended a process of the program because all together wanted more memory than there is."""
    return path != "" and any(
        line.startswith("oom_kill ") and line.split()[1] != "0" for line in _read(path).splitlines()
    )


def _asked(control: socket.socket) -> bytes:
    try:
        return control.recv(1)
    except OSError:
        # Who closes a socket without having read it resets it; that is an end like any other.
        return b""


def _signal_program(first: int, number: int) -> None:
    # The first is bwrap, its child is bwrap as the sandbox's init; what they run is below.
    for pid in _tree(first)[0][2:]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _tree(first: int) -> tuple[list[int], int]:
    """The processes from the first one down, and how many threads they have, which the kernel counts."""
    found, many = [first], 0
    for pid in found:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        many += len(threads)
        for thread in threads:
            # A child belongs to the thread that made it.
            found.extend(int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split())
    return found, many


def _used(first: int, most: int) -> tuple[int, int]:
    """Bytes of memory of the whole tree, and how many processes and threads it has."""
    pids, many = _tree(first)
    # Counting shared pages once is dear, so it is done only where counting them for everybody says too much.
    used = sum(int(fields[1]) * _PAGE for fields in (_read(f"/proc/{pid}/statm").split() for pid in pids) if fields)
    if used > most:
        used = sum(_shared_fairly(pid) for pid in pids)
    return used, many


def _keeps_too_much(kept: list[tuple[str, int]]) -> bool:
    return any(_fills(path, most) for path, most in kept)


def _fills(path: str, most: int) -> bool:
    """Whether the files below a directory take more than so many bytes; empty ones take some, too."""
    taken, below = 0, [path]
    while below:
        try:
            with os.scandir(below.pop()) as entries:
                for entry in entries:
                    try:
                        taken += max(_SMALLEST_FILE, entry.stat(follow_symlinks=False).st_blocks * 512)
                    except FileNotFoundError:
                        continue
                    if taken > most:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            # Only whoever owns it could have hidden it from us, by its rights or by a path too long to be opened.
            return True
    return False


def _removed(first: int, devices: list[int]) -> int:
    """Bytes that files take which nobody finds any more, because the program removed them and holds them open."""
    found: dict[tuple[int, int], int] = {}
    for pid in _tree(first)[0] if devices else ():
        for place in (f"/proc/{pid}/fd", f"/proc/{pid}/map_files"):
            with contextlib.suppress(OSError):
                for name in os.listdir(place):
                    with contextlib.suppress(OSError):
                        facts = os.stat(f"{place}/{name}")
                        if facts.st_nlink == 0 and stat.S_ISREG(facts.st_mode) and facts.st_dev in devices:
                            found[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return sum(found.values())


def _spent(first: int) -> float:
    """Seconds that processors worked for the whole tree; each process tells those of its children that have ended."""
    ticks = 0
    for pid in _tree(first)[0]:
        # The name may have spaces and brackets in it.
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        ticks += sum(int(each) for each in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _shared_fairly(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    # A process may hide its maps from an ordinary user; then all that it has is its own.
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        # It ended between being listed and being read.
        return ""


def _received(control: socket.socket) -> dict[str, Any]:
    size = int.from_bytes(control.recv(4, socket.MSG_WAITALL), "big")
    order: dict[str, Any] = json.loads(control.recv(size, socket.MSG_WAITALL))
    return order


def _tell(control: socket.socket, what: dict[str, Any]) -> None:
    try:
        control.sendall(json.dumps(what).encode() + b"\n")
    except OSError:
        # Nobody is left to tell; that we came here is what mattered.
        pass


if __name__ == "__main__":
    main()
