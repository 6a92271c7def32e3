"""Tries to get out of where it runs; prints one JSON object of what each attempt came to. Standard library only.

Its arguments name the attempts; `PLACES` in its environment says what there is to reach, as JSON.
"""

import contextlib
import ctypes
import errno
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PLACES: dict[str, Any] = json.loads(os.environ.get("PLACES", "{}"))
# Told backwards, so that nobody has it only because we were told.
SECRET = str(PLACES.get("outside_secret_backwards", ""))[::-1].encode() or b"\0none\0"
libc = ctypes.CDLL(None, use_errno=True)
ARM = os.uname().machine == "aarch64"
ATTACKS: dict[str, Callable[[], str | None]] = {}


def attack(run: Callable[[], str | None]) -> Callable[[], str | None]:
    ATTACKS[run.__name__] = run
    return run


def system(number: int, *arguments: Any) -> int:
    """A raw system call; OSError where it fails."""
    words = (ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments)
    value = int(libc.syscall(ctypes.c_long(number), *words))
    if value < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value


def others() -> list[int]:
    """Processes that are neither we nor the sandbox's own first one."""
    mine = {os.getpid(), os.getppid(), 1}
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) not in mine]


@attack
def inherit_descriptors() -> str | None:
    held: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        # The one that lists the others is gone by now.
        with contextlib.suppress(OSError):
            if int(name) > 2:
                held.append(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return ",".join(held) or None


@attack
def see_other_processes() -> str | None:
    return ",".join(map(str, others()[:5])) or None


@attack
def read_environments() -> str | None:
    for pid in (1, os.getppid(), *others()):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/environ").read_bytes()
            if SECRET in text:
                return str(pid)
    return None


@attack
def find_secrets_in_the_memory_of_others() -> str | None:
    for pid in (1, os.getppid(), PLACES["outside_pid"], *others()):
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
            for line in maps:
                place, rights = line.split()[:2]
                start, end = (int(each, 16) for each in place.split("-"))
                if rights.startswith("r") and end - start < 1 << 28:
                    with contextlib.suppress(OSError, OverflowError, ValueError):
                        memory.seek(start)
                        if SECRET in memory.read(end - start):
                            return f"{pid} {line.strip()}"
    return None


@attack
def read_the_first_process() -> str | None:
    """Inside it is the sandbox's own, which knows the machine's mounts; outside, whoever started us."""
    read: list[str] = []
    for pid in (1, os.getppid()):
        for name in ("maps", "environ", "auxv", "cmdline", "mountinfo", "task/1/maps", "root/etc/passwd"):
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/{name}").read_bytes()
                read.append(f"/proc/{pid}/{name}")
    return ",".join(read) or None


@attack
def trace_the_first_process() -> str | None:
    return str(system(117 if ARM else 101, 16, 1, None, None))


@attack
def read_memory_by_call() -> str | None:
    buffer = ctypes.create_string_buffer(8)

    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))

    mine, theirs = Vector(ctypes.addressof(buffer), 8), Vector(ctypes.addressof(buffer), 8)
    number = 270 if ARM else 310
    return str(system(number, os.getpid(), ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0))


@attack
def steal_a_descriptor() -> str | None:
    handle = os.pidfd_open(os.getppid())
    return str(system(438, handle, 0, 0))


@attack
def signal_others() -> str | None:
    os.kill(PLACES["outside_pid"], 0)
    return "reached"


@attack
def read_files() -> str | None:
    for path in (*PLACES["files"], "/etc/shadow", "/root/.bashrc", "/root", "/home", "/var", "/srv", "/sys", "/boot"):
        with contextlib.suppress(OSError):
            found = os.listdir(path) if os.path.isdir(path) else Path(path).read_bytes()
            # A directory on the way to something mounted is there, and holds nothing else.
            if found and path != "/root" and found != PLACES.get("shown", {}).get(path):
                return str(path)
    return None


@attack
def write_files() -> str | None:
    for path in ("/usr/x", "/etc/x", "/x", "/dev/x", "/proc/x", "/opt/program.py", "/lib/x", "/proc/1/oom_score_adj"):
        with contextlib.suppress(OSError):
            Path(path).write_bytes(b"x")
            return path
    return None


@attack
def write_kernel_settings() -> str | None:
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger"):
        with contextlib.suppress(OSError):
            Path(path).write_text("x")
            return path
    return None


@attack
def connect_to_this_machine() -> str | None:
    socket.create_connection(("127.0.0.1", PLACES["port"]), 3).close()
    return "connected"


@attack
def connect_outside() -> str | None:
    socket.create_connection(("192.0.2.1", 80), 3).close()
    return "connected"


@attack
def send_datagrams() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.settimeout(3)
        out.sendto(b"x", ("192.0.2.1", 53))
    return "sent"


@attack
def resolve_names() -> str | None:
    return str(socket.getaddrinfo("example.com", 80))


@attack
def connect_to_an_abstract_socket() -> str | None:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect("\0" + PLACES["abstract"])
    return "connected"


@attack
def connect_to_a_socket_file() -> str | None:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect(PLACES["socket"])
    return "connected"


def family(number: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> str:
    socket.socket(number, kind, protocol).close()
    return "opened"


@attack
def open_vsock() -> str | None:
    return family(40)


@attack
def open_packets() -> str | None:
    return family(17, socket.SOCK_RAW, 0x0300)


@attack
def open_raw() -> str | None:
    return family(socket.AF_INET, socket.SOCK_RAW, 1)


@attack
def open_kernel_crypto() -> str | None:
    return family(38, socket.SOCK_SEQPACKET)


@attack
def open_netfilter() -> str | None:
    return family(16, socket.SOCK_RAW, 12)


@attack
def open_bluetooth() -> str | None:
    return family(31, socket.SOCK_RAW, 1)


@attack
def set_up_a_ring() -> str | None:
    return str(system(425, 8, ctypes.create_string_buffer(120)))


@attack
def use_keys() -> str | None:
    return str(system(219 if ARM else 250, 0, -3, 1))


@attack
def add_keys() -> str | None:
    return str(system(217 if ARM else 248, b"user", b"x", b"x", 1, -3))


@attack
def make_a_user_namespace() -> str | None:
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(0x1000_0000) == 0 else 1)
    return "made" if os.waitpid(child, 0)[1] == 0 else None


@attack
def clone_into_namespaces() -> str | None:
    for flag in (0x1000_0000, 0x0002_0000, 0x2000_0000, 0x4000_0000, 0x0800_0000, 0x0400_0000, 0x0200_0000):
        with contextlib.suppress(OSError):
            child = system(220 if ARM else 56, ctypes.c_ulong(flag | 17), None, None, None, None)
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            return hex(flag)
    return None


@attack
def clone_the_newer_way() -> str | None:
    arguments = struct.pack("11Q", 0x1000_0000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    child = system(435, arguments, len(arguments))
    if child == 0:
        os._exit(0)
    return "made"


@attack
def enter_a_namespace() -> str | None:
    with open("/proc/1/ns/net") as namespace:
        return str(system(268 if ARM else 308, namespace.fileno(), 0))


@attack
def mount_something() -> str | None:
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
        return "mounted"
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@attack
def mount_the_newer_way() -> str | None:
    return str(system(430, b"tmpfs", 0))


@attack
def change_root() -> str | None:
    os.chroot("/tmp")
    return "changed"


@attack
def load_programs_into_the_kernel() -> str | None:
    return str(system(280 if ARM else 321, 0, ctypes.create_string_buffer(128), 128))


@attack
def watch_performance() -> str | None:
    attributes = ctypes.create_string_buffer(struct.pack("II", 1, 112) + bytes(104))
    return str(system(241 if ARM else 298, attributes, 0, -1, -1, 0))


@attack
def handle_faults() -> str | None:
    return str(system(282 if ARM else 323, 1))


@attack
def open_by_handle() -> str | None:
    return str(system(265 if ARM else 304, -100, ctypes.create_string_buffer(32), 0))


@attack
def read_the_kernel_log() -> str | None:
    return str(system(116 if ARM else 103, 3, ctypes.create_string_buffer(64), 64))


@attack
def set_the_clock() -> str | None:
    return str(system(112 if ARM else 227, 0, struct.pack("qq", 0, 0)))


@attack
def make_a_device() -> str | None:
    os.mknod("/work/disk", 0o60600, os.makedev(8, 0))
    return "made"


@attack
def become_root() -> str | None:
    os.setuid(0)
    return "became"


@attack
def gain_by_setuid_programs() -> str | None:
    status = Path("/proc/self/status").read_text()
    return None if "NoNewPrivs:\t1" in status else "may gain"


@attack
def keep_capabilities() -> str | None:
    lines = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    held = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(lines[name], 16)]
    return ",".join(held) or None


@attack
def use_other_call_numbers() -> str | None:
    if ARM:
        return None
    return str(system(0x4000_0000 + 39))


@attack
def use_unknown_calls() -> str | None:
    try:
        return str(system(463, 0, 0, 0, 0))
    except OSError as problem:
        # Refused by us; the kernel itself would look at the arguments first.
        return None if problem.errno == errno.ENOSYS else str(problem)


@attack
def push_input_to_a_terminal() -> str | None:
    master, slave = os.openpty()
    if libc.ioctl(slave, 0x5412, b"x") == 0:
        return "pushed"
    os.close(master)
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def attempts(names: Iterable[str]) -> dict[str, str]:
    """What each attempt came to."""
    outcomes: dict[str, str] = {}
    for name in names:
        try:
            got = ATTACKS[name]()
        except OSError as problem:
            outcomes[name] = f"refused: {problem.strerror}"
        else:
            outcomes[name] = "refused: nothing there" if got is None else f"got: {got}"
    return outcomes


def main() -> None:
    print(json.dumps(attempts(sys.argv[1:] or ATTACKS)))


if __name__ == "__main__":
    main()
