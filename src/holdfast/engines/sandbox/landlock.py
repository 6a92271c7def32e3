"""Owns Linux's Landlock: a process gives up changing files outside one directory, and running programs at all."""

import ctypes
import os
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_BENEATH = 1
_EXECUTE = 1 << 0
_WRITE = 1 << 1
_REMOVE_AND_MAKE = 0b1_1111_1111 << 4
_REFER = 1 << 13
_TRUNCATE = 1 << 14


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def restrict(writable: str) -> bool:
    """Only below `writable` (nowhere, if empty) may anything be changed from now on; False where the kernel can't."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    version = libc.syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 1:
        return False
    changes = _WRITE | _REMOVE_AND_MAKE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    handled = ctypes.c_uint64(changes | _EXECUTE)
    rules = libc.syscall(_CREATE, ctypes.byref(handled), ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    try:
        return _allow(libc, rules, writable, changes) and libc.syscall(_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, writable: str, changes: int) -> bool:
    if not writable:
        return True
    directory = os.open(writable, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        rule = _Beneath(changes, directory)
        return bool(libc.syscall(_ADD, rules, _BENEATH, ctypes.byref(rule), 0) == 0)
    finally:
        os.close(directory)
