"""Owns import files that an attacker would send: generated, each with what becomes of it."""

import io
import json
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

FOREIGN_ID = "mem_" + "f" * 32
_MOMENT = "2026-01-01T00:00:00.000Z"


_MOMENTS: dict[str, object] = {"created_at": _MOMENT, "updated_at": _MOMENT}
_DECISION = {"holdfast": "decision", "id": "dec_" + "a" * 32, "title": "t", "status": "accepted"} | {
    "decided_at": _MOMENT,
    **_MOMENTS,
}
_ARTIFACT = {"holdfast": "artifact", "id": "art_" + "a" * 32, "identifier": "a", "title": "a"} | {
    "type": "text/markdown",
    "version": 1,
    "written_at": _MOMENT,
    **_MOMENTS,
}
_TIE = {
    "id": "rel_" + "a" * 32,
    "from": {"type": "memory", "id": FOREIGN_ID},
    "to": {"type": "\x1b[2J", "id": "x"},
    "relation": "x",
    "created_at": _MOMENT,
}


@dataclass(frozen=True, slots=True)
class Attack:
    """Files by path. `told` is a part of the reason, if they are refused; else they come in and do no harm."""

    name: str
    files: Callable[[], dict[str, bytes]]
    told: str = ""


def memory(words: str = "The pump runs at night.", **front: object) -> bytes:
    """One of our own memory files, with fields changed."""
    fields = {
        "holdfast": "memory",
        "id": "mem_" + "a" * 32,
        "slug": "the-pump",
        "title": "The pump",
        "category": "fact",
        "status": "current",
        "learned_at": _MOMENT,
        "updated_at": _MOMENT,
        "author": "usr_somebody",
        "author_name": "Somebody",
        "trust": "person",
    } | front
    return own(fields, words)


def own(fields: dict[str, object], body: str) -> bytes:
    """A file of ours with any fields."""
    lines = [f"{name}: {json.dumps(value)}" for name, value in fields.items() if value is not None]
    return ("---\n" + "\n".join(lines) + f"\n---\n\n{body}\n").encode()


def line(**record: object) -> bytes:
    """A JSON line."""
    return json.dumps(record).encode() + b"\n"


def _deep(opening: bytes, closing: bytes, times: int = 200_000) -> bytes:
    return opening * times + closing * times


ATTACKS = (
    Attack("deep json", lambda: {"a.json": _deep(b"[", b"]")}, "is not JSON"),
    Attack("deep json line", lambda: {"a.jsonl": b'{"a":' + _deep(b"[", b"]") + b"}"}, "is not JSON"),
    Attack(
        "deep own front", lambda: {"a.md": b"---\nholdfast: " + _deep(b"[", b"]") + b"\n---\nx"}, "nested too deeply"
    ),
    Attack("deep yaml", lambda: {"a.md": b"---\na: " + _deep(b"[", b"]", 20_000) + b"\n---\nx"}, "not YAML"),
    Attack("yaml aliases", lambda: {"a.md": b"---\na: &a [x]\nb: [*a, *a]\n---\nx"}, "aliases"),
    Attack("yaml object", lambda: {"a.md": b"---\na: !!python/object/apply:os.system [id]\n---\nx"}, "not YAML"),
    Attack("yaml infinity", lambda: {"a.md": b"---\ndate: .inf\n---\nThe tower stands in Ulm."}),
    Attack("json infinity", lambda: {"a.jsonl": b'{"memory": "The tower stands in Bonn.", "created_at": Infinity}\n'}),
    Attack("json huge number", lambda: {"a.jsonl": b'{"memory": "The tower stands in Kiel.", "created_at": 1e300}\n'}),
    Attack("json digits", lambda: {"a.jsonl": b'{"memory": "x", "n": ' + b"9" * 10_000 + b"}\n"}, "line 1 is not JSON"),
    Attack("own time beyond the calendar", lambda: {"a.md": memory(learned_at=10**18)}, "learned_at is not a time"),
    Attack("own time without end", lambda: {"a.md": memory(learned_at=1e300)}, "learned_at is not a time"),
    Attack(
        "lone surrogates", lambda: {"a.jsonl": line(memory="A \ud800 green gate.", title="\udfff", tags=["\ud801"])}
    ),
    Attack(
        "surrogate names",
        lambda: {"a.jsonl": line(type="entity", name="\ud800", observations=["The gate opens at six."])},
    ),
    Attack(
        "surrogate links",
        lambda: {"a.jsonl": line(type="relation", **{"from": "\ud800", "to": "b", "relationType": "x"})},
        "is not among what was imported",
    ),
    Attack("NUL in JSON", lambda: {"a.jsonl": line(memory="The lift \0 is broken.", source="\0", user_id="\0")}),
    Attack(
        "NUL in a name", lambda: {"a.jsonl": line(type="entity", name="a\0b", observations=["The lift is mended."])}
    ),
    Attack("NUL in YAML", lambda: {"a.md": b'---\ntitle: "a\\0b"\ntags: ["\\0"]\n---\nThe cellar is dry.'}),
    Attack("NUL in own file", lambda: {"a.md": memory(title="a\0b")}, "title holds characters that no store keeps"),
    Attack("surrogate in own file", lambda: {"a.md": memory(author_name="\ud800")}, "author_name holds characters"),
    Attack("duplicate keys", lambda: {"a.jsonl": b'{"memory": "no", "memory": "The well is deep."}\n'}),
    Attack("huge record", lambda: {"a.jsonl": line(memory="x" * 2_000_000)}, "a memory has at most"),
    Attack(
        "huge line",
        lambda: {"a.jsonl": line(memory="x" * 2_000_000) + line(memory="x")},
        "line 1 is over 1,000,000 characters",
    ),
    Attack(
        "huge list item",
        lambda: {"a.json": b"[" + line(memory="x" * 5_000_000) + b"]"},
        "record 1 is not JSON, or is over",
    ),
    Attack("long text", lambda: {"a.jsonl": line(memory="word " * 20_000)}, "a memory has at most"),
    Attack(
        "long history",
        lambda: {"a.md": memory(revision=2, history=[{"revision": 1, "content": "x" * 100_000}])},
        "the field content has 100,000 characters",
    ),
    Attack("revisions without end", lambda: {"a.md": memory(revision=2**52)}, "does not lead up to the revision"),
    Attack(
        "long decision", lambda: {"a.md": own(_DECISION, "x" * 1_000_000)}, "the rationale has 1,000,000 characters"
    ),
    Attack("long author", lambda: {"a.md": memory(author_name="x" * 100_000)}, "author_name has 100,000 characters"),
    Attack("not an id", lambda: {"a.md": memory(id="../../etc/passwd")}, "id is not an id"),
    Attack("slug that climbs", lambda: {"a.md": memory(slug="../../../x")}, "slug is not"),
    Attack("unknown kind", lambda: {"a.md": own({"holdfast": "api_key", "id": "x"}, "x")}, "names no type"),
    Attack(
        "relation to nowhere",
        lambda: {"a.md": own({"holdfast": "relations", "relations": [_TIE]}, "")},
        "which is not here",
    ),
    Attack("spaces behind a dash", lambda: {"a.md": b"The road is long.\n- " + b" " * 1_000_000 + b"x\n"}, "gibberish"),
    Attack("spaces in a heading", lambda: {"a.md": b"# a" + b" " * 1_000_000 + b"b\n\nThe lake is cold.\n"}),
    Attack("marks in a heading", lambda: {"a.md": b"# a" + b"#" * 1_000_000 + b"b\n\nThe lake is warm.\n"}),
    Attack("one long paragraph", lambda: {"a.md": b"word " * 40_000}, "gibberish"),
    Attack("versions without end", lambda: {"a.md": own(_ARTIFACT | {"versions": 2**52}, "a")}, "versions are missing"),
    Attack("brackets", lambda: {"a.md": b"The path is open. " + b"- [[" * 50_000}, "gibberish"),
    Attack("line ends", lambda: {"a.jsonl": b"\n" * 5_000_000 + line(memory="The end is near.")}),
    Attack(
        "lists of nothing",
        lambda: {"a.json": b"[" + (b'"' + b"x" * 1_000 + b'",') * 4_100 + b"[]]"},
        "is not an object",
    ),
)


def archive(files: dict[str, bytes]) -> bytes:
    """A ZIP archive with any names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for path, data in files.items():
            opened.writestr(path, data)
    return buffer.getvalue()


def odd_archive() -> bytes:
    """A link, a device, a name that climbs, one that commands a terminal, and entries that cannot be unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, kind in (("link.md", stat.S_IFLNK), ("device.md", stat.S_IFCHR), ("pipe.md", stat.S_IFIFO)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (kind | 0o777) << 16
            opened.writestr(entry, "/etc/passwd")
        opened.writestr("../../../tmp/climbed.md", "Climbing words are only words.")
        opened.writestr("/etc/absolute.md", "Absolute words are only words too.")
        opened.writestr("C:\\windows\\drive.md", "Words from a drive are only words as well.")
        opened.writestr("\x1b]0;owned\x07.md", "Words under a loud name are quiet.")
        opened.writestr("packed.md", b"x" * 1000, zipfile.ZIP_BZIP2)
        opened.writestr("zz-broken.md", bytes(range(256)) * 40)
        opened.writestr("zz-locked.md", "These words are locked away.")
    whole = bytearray(buffer.getvalue())
    start = whole.find(b"zz-broken.md") + len("zz-broken.md")
    whole[start : start + 40] = b"\xff" * 40
    # The flag that says that an entry is encrypted, in the list of files.
    locked = whole.rfind(b"zz-locked.md")
    whole[locked - 46 + 8] |= 1
    return bytes(whole)


def bomb() -> bytes:
    """Some hundred kilobytes that unpack to as much as every file may have, many times over."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as opened:
        for number in range(3):
            with opened.open(f"{number}.md", "w") as entry:
                for _ in range(40):
                    entry.write(b" " * 1024 * 1024)
    return whole.getvalue()


def crowded() -> bytes:
    """An archive whose list of files alone is larger than any import's."""
    name = b"a" * 60_000
    entry = b"PK\x01\x02" + bytes(24) + len(name).to_bytes(2, "little") + bytes(16) + name
    directory = entry * 300
    end = b"PK\x05\x06" + bytes(4) + b"\xff\x00" * 2 + len(directory).to_bytes(4, "little") + bytes(4) + bytes(2)
    return b"PK\x03\x04" + bytes(26) + directory + end
