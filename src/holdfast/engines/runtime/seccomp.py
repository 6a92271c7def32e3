"""Owns the filter of system calls that every sandboxed program lives under, as the bytes that the kernel loads."""

import errno
import platform
import struct
from collections.abc import Sequence

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT = 0, 4
_ALLOW, _FAIL, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_X32 = 0x4000_0000
_NAMESPACE_FLAGS = 0x7E02_0080
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_PUSH_INPUT, _CONSOLE = 0x5412, 0x541C

# Nothing that a tool does needs these; each has been a way out of containers, or reaches beyond the program itself.
_REFUSED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
# Libraries ask for these first and fall back to what the filter can look into.
_ABSENT = {"clone3": (435, 435), "io_uring_setup": (425, 425)}
_CLONE, _SOCKET, _SOCKETPAIR, _IOCTL = (56, 220), (41, 198), (53, 199), (16, 29)
_NEWEST = 462
"""Calls that were added after this one (`mseal`) are unknown to us, and so refused."""
_MACHINES = {"x86_64": (0xC000_003E, 0), "aarch64": (0xC000_00B7, 1)}


class UnknownMachine(Exception):
    """There is no filter for this kind of processor."""


class _Program:
    """Instructions of the kernel's packet filter; jumps are counted from the next one."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []

    def load(self, at: int) -> None:
        self._code.append((_LOAD, 0, 0, at))

    def answer(self, verdict: int) -> None:
        self._code.append((_RETURN, 0, 0, verdict))

    def answer_if(self, test: int, value: int, verdict: int, *, unless: bool = False) -> None:
        """Answer where the test holds (or does not), else go on."""
        self._code.append((test, 1, 0, value) if unless else (test, 0, 1, value))
        self.answer(verdict)

    def only_for(self, number: int, body: "_Program") -> None:
        """Run the body for one system call; it leaves with an answer."""
        self._code.append((_EQUAL, 0, len(body._code), number))
        self._code.extend(body._code)

    def to_bytes(self) -> bytes:
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in self._code)


def _argument(index: int) -> int:
    """Where the low half of an argument is, on the little-endian machines that we know."""
    return 16 + 8 * index


def _failing(code: int) -> int:
    return _FAIL | code


def syscall_filter(machine: str = platform.machine()) -> bytes:
    """The filter for this kind of processor; UnknownMachine where there is none."""
    if machine not in _MACHINES:
        raise UnknownMachine(machine)
    audit_name, column = _MACHINES[machine]
    program = _Program()
    program.load(_MACHINE_AT)
    # Another word length has other numbers; nothing below would mean what it says.
    program.answer_if(_EQUAL, audit_name, _KILL, unless=True)
    program.load(_NUMBER_AT)
    if machine == "x86_64":
        program.answer_if(_AT_LEAST, _X32, _failing(errno.ENOSYS))
    program.answer_if(_AT_LEAST, _NEWEST + 1, _failing(errno.ENOSYS))
    for names, code in ((_ABSENT, errno.ENOSYS), (_REFUSED, errno.EPERM)):
        for numbers in names.values():
            number = numbers[column]
            if number is not None:
                program.answer_if(_EQUAL, number, _failing(code))
    program.only_for(_CLONE[column], _only_without_namespaces())
    program.only_for(_SOCKET[column], _only_known_sockets())
    program.only_for(_SOCKETPAIR[column], _only_value(0, (_UNIX,), errno.EAFNOSUPPORT))
    program.only_for(_IOCTL[column], _not_values(1, (_PUSH_INPUT, _CONSOLE)))
    program.answer(_ALLOW)
    return program.to_bytes()


def _only_without_namespaces() -> _Program:
    body = _Program()
    body.load(_argument(0))
    body.answer_if(_ANY_BIT, _NAMESPACE_FLAGS, _failing(errno.EPERM))
    body.answer(_ALLOW)
    return body


def _only_known_sockets() -> _Program:
    body = _Program()
    body.load(_argument(0))
    for family in (_UNIX, _INET, _INET6):
        body.answer_if(_EQUAL, family, _ALLOW)
    body.answer_if(_EQUAL, _NETLINK, _failing(errno.EAFNOSUPPORT), unless=True)
    # Of netlink only the routing table, which resolvers read.
    body.load(_argument(2))
    body.answer_if(_EQUAL, 0, _ALLOW)
    body.answer(_failing(errno.EAFNOSUPPORT))
    return body


def _only_value(index: int, values: Sequence[int], code: int) -> _Program:
    body = _Program()
    body.load(_argument(index))
    for value in values:
        body.answer_if(_EQUAL, value, _ALLOW)
    body.answer(_failing(code))
    return body


def _not_values(index: int, values: Sequence[int]) -> _Program:
    body = _Program()
    body.load(_argument(index))
    for value in values:
        body.answer_if(_EQUAL, value, _failing(errno.EPERM))
    body.answer(_ALLOW)
    return body
