"""Owns the proof that files are read as they should, and that bad ones do no harm."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from holdfast.engines.extract.chunk import MAX_TOKENS, Chunk, count_tokens
from holdfast.engines.extract.engine import ExtractEngine
from holdfast.engines.extract.formats import FileKind, UnsupportedFormat, recognise
from holdfast.engines.extract.model import ExtractionFailed, ExtractLimits, Summary
from tests.engines.extract import files

Read = Callable[[str, bytes], Awaitable[tuple[list[Chunk], Summary]]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return reader(tmp_path, ExtractLimits())


def reader(directory: Path, limits: ExtractLimits) -> Read:
    async def extract(filename: str, content: bytes) -> tuple[list[Chunk], Summary]:
        path = directory / "file"
        path.write_bytes(content)
        values = [value async for value in ExtractEngine(limits).extract(path, recognise(filename, "", content))]
        summary = values.pop()
        assert isinstance(summary, Summary)
        return [value for value in values if isinstance(value, Chunk)], summary

    return extract


async def test_word_is_read_with_headings_and_tables(read: Read) -> None:
    chunks, summary = await read("handbook.docx", files.word())

    assert chunks == [
        Chunk("The office opens at nine.", "Welcome"),
        Chunk("Trains are booked by Kim.\n\ncity | train\nUlm | ICE 518", "Welcome › Travel"),
        Chunk("Thirty days.", "Leave"),
    ]
    assert summary == Summary("Handbook", 3, sum(len(chunk.text) for chunk in chunks), False)


async def test_slides_are_read_in_order_with_their_notes(read: Read) -> None:
    chunks, _ = await read("deck.pptx", files.slides())

    assert chunks == [
        Chunk("Ship the beta in May\n\nMention the giraffe", "Roadmap", 1),
        Chunk("Too few testers", "Risks", 2),
    ]


async def test_sheets_are_read_with_dates_and_their_header(read: Read) -> None:
    chunks, _ = await read("people.xlsx", files.sheet())

    assert chunks == [
        Chunk("Ada | 1815-12-10 | TRUE\nKim | 1990-01-02 03:04:00 | 12.5", "People › Name | Born | Paid", 1)
    ]


async def test_pdf_is_read_page_by_page(read: Read) -> None:
    chunks, summary = await read("report.pdf", files.pdf("First page", "Second page", title="Report"))

    assert chunks == [Chunk("First page", "", 1), Chunk("Second page", "", 2)]
    assert summary.title == "Report"


async def test_html_is_read_as_it_is_seen(read: Read) -> None:
    page = b"""<title>Zoo</title><style>p {color: red}</style><h1>Animals</h1><p>The <b>giraffe</b> &amp; co</p>
    <h2>Food</h2><ul><li>leaves<li>hay</ul><table><tr><td>a<td>b</table><script>steal()</script>"""
    chunks, summary = await read("zoo.html", page)

    assert summary.title == "Zoo"
    assert chunks[0] == Chunk("The giraffe & co", "Animals")
    assert chunks[1].heading == "Animals › Food"
    assert "- leaves" in chunks[1].text and "a | b" in chunks[1].text
    assert not any("steal" in chunk.text or "color" in chunk.text for chunk in chunks)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
async def test_text_in_other_encodings_is_read(read: Read, encoding: str) -> None:
    text = "Die Größe der Äpfel überrascht: schöne Früchte, süß und saftig, für alle Bären."
    chunks, _ = await read("note.txt", text.encode(encoding))
    assert [chunk.text for chunk in chunks] == [text]


async def test_invalid_utf8_is_read_with_what_can_be_read(read: Read) -> None:
    chunks, _ = await read("note.txt", b"Caf\xe9 opens at \xff nine o'clock, says the sign at the door.")
    assert "opens at" in chunks[0].text


async def test_code_is_cut_at_functions(read: Read) -> None:
    body = "".join(f"    value_{number} = compute(value_{number - 1}, {number})\n" for number in range(1, 30))
    method = body.replace("    value", "        value")
    source = f"import os\n\n\ndef first(value_0):\n{body}\n\nclass Zoo:\n    def feed(self):\n{method}"
    chunks, _ = await read("zoo.py", source.encode())

    assert chunks[0] == Chunk("import os")
    assert chunks[1].text.startswith("def first(value_0):\n    value_1")
    assert chunks[1].heading == "first"
    assert chunks[-1].heading == "Zoo › feed"
    assert all(count_tokens(chunk.text) <= MAX_TOKENS for chunk in chunks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "heading"),
    [
        ("a.go", "package a\n\nfunc (s *Zoo) Feed() error {{\n{body}}}\n", "Feed"),
        ("a.rs", "impl Zoo {{\n  fn feed(&self) {{\n{body}  }}\n}}\n", "Zoo › feed"),
        ("a.ts", "export class Zoo {{\n  feed(): void {{\n{body}  }}\n}}\n", "Zoo › feed"),
        ("a.js", "class Zoo {{\n  feed() {{\n{body}  }}\n}}\n", "Zoo › feed"),
        ("a.java", "class Zoo {{\n  void feed() {{\n{body}  }}\n}}\n", "Zoo › feed"),
        ("a.c", "static int *feed(int argc) {{\n{body}}}\n", "feed"),
        ("a.cpp", "namespace n {{ class Zoo {{ void feed() {{\n{body}}} }}; }}\n", "n › Zoo › feed"),
        ("a.cs", "class Zoo {{ void Feed() {{\n{body}}} }}\n", "Zoo › Feed"),
        ("a.rb", "class Zoo\n  def feed\n{body}  end\nend\n", "Zoo › feed"),
        ("a.php", "<?php\nclass Zoo {{ function feed() {{\n{body}}} }}\n", "Zoo › feed"),
        ("a.swift", "class Zoo {{ func feed() {{\n{body}}} }}\n", "Zoo › feed"),
        ("a.kt", "class Zoo {{ fun feed() {{\n{body}}} }}\n", "Zoo › feed"),
    ],
)
async def test_functions_carry_their_names_in_many_languages(read: Read, name: str, source: str, heading: str) -> None:
    body = "    hay(1, 2);\n" * 60
    chunks, _ = await read(name, source.format(body=body).encode())
    assert heading in {chunk.heading for chunk in chunks}


async def test_a_poisoned_pdf_fails_with_the_reason(read: Read) -> None:
    whole = files.pdf("Some text")
    for damaged in (b"%PDF-1.7\n" + b"\x00\xff garbage" * 1000, whole[:200], b"%PDF-1.4\n%%EOF"):
        with pytest.raises(ExtractionFailed) as problem:
            await read("bad.pdf", damaged)
        assert problem.value.code in ("damaged", "no_text")


@pytest.mark.slow
async def test_a_pdf_with_random_damage_never_hangs_or_breaks_the_engine(read: Read) -> None:
    whole = files.pdf("Some text", "More text")
    for number in range(6):
        damaged = bytearray(whole)
        for at in range(30 + number, len(damaged), 97 + number):
            damaged[at] = (damaged[at] * 7 + number) % 256
        try:
            await read("bad.pdf", bytes(damaged))
        except (ExtractionFailed, UnsupportedFormat) as problem:
            assert problem.message


async def test_a_pdf_without_text_says_what_it_may_be(read: Read) -> None:
    with pytest.raises(ExtractionFailed, match="scan"):
        await read("scan.pdf", files.pdf(""))


@pytest.mark.slow
@pytest.mark.parametrize("bomb", [files.zip_bomb, files.lying_zip_bomb, files.entity_bomb])
async def test_a_bomb_in_an_office_file_is_refused(read: Read, bomb: Callable[[], bytes]) -> None:
    content = bomb()
    assert len(content) < 1_000_000
    with pytest.raises(ExtractionFailed) as problem:
        await read("bomb.docx", content)
    assert problem.value.code in ("too_large_unpacked", "damaged", "hostile_xml")


async def test_reading_that_needs_too_much_memory_is_ended(tmp_path: Path) -> None:
    read = reader(tmp_path, ExtractLimits(memory_bytes=200 * 1024 * 1024, characters=100_000_000))
    with pytest.raises(ExtractionFailed) as problem:
        await read("large.txt", b"word " * 20_000_000)
    assert problem.value.code in ("too_much_memory", "crashed")


@pytest.mark.slow
async def test_reading_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    read = reader(tmp_path, ExtractLimits(cpu_seconds=1))
    with pytest.raises(ExtractionFailed) as problem:
        await read("large.py", b"x = [1, 2, 3]\n" * 140_000)
    assert problem.value.code == "too_slow"
    read = reader(tmp_path, ExtractLimits(wall_seconds=0.05))
    with pytest.raises(ExtractionFailed, match="longer than"):
        await read("large.py", b"x = [1, 2, 3]\n" * 100_000)


async def test_a_reader_that_is_not_wanted_any_more_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some words in a line\n\n" * 500_000)
    before = {child.pid for child in psutil.Process().children()}
    async with aclosing(ExtractEngine().extract(path, FileKind("text"))) as values:
        await anext(values)
        child = next(child for child in psutil.Process().children() if child.pid not in before)
    assert not child.is_running()


async def test_the_reader_sees_none_of_the_servers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_SECRET", "hidden")
    path = tmp_path / "file"
    path.write_bytes(b"some words in a line\n\n" * 500_000)
    before = {child.pid for child in psutil.Process().children()}
    async with aclosing(ExtractEngine().extract(path, FileKind("text"))) as values:
        await anext(values)
        child = next(child for child in psutil.Process().children() if child.pid not in before)
        assert "HOLDFAST_TEST_SECRET" not in child.environ()


def test_a_reader_is_bound_before_it_reads() -> None:
    """In a process that does nothing else: it can write no file, and has no network where the kernel allows that."""
    program = """
import os, socket, sys, tempfile
from holdfast.engines.extract.child import bind, bounds
from holdfast.engines.extract.model import ExtractLimits
listener = socket.create_server(("127.0.0.1", 0))
own = os.readlink("/proc/self/ns/net")
bind(bounds(ExtractLimits()))
apart = os.readlink("/proc/self/ns/net") != own
try:
    socket.create_connection(listener.getsockname(), timeout=5)
    reached = True
except OSError:
    reached = False
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
    wrote = True
except OSError:
    wrote = False
print(apart, reached, wrote)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    apart, reached, wrote = done.stdout.split()
    assert wrote == "False"
    assert reached == ("False" if apart == "True" else "True")


async def test_a_long_text_is_cut_and_says_so(tmp_path: Path) -> None:
    read = reader(tmp_path, ExtractLimits(characters=10_000))
    chunks, summary = await read("long.txt", "Grüße an alle. ".encode() * 5_000)
    assert summary.truncated
    assert sum(len(chunk.text) for chunk in chunks) <= 10_000
    read = reader(tmp_path, ExtractLimits(chunks=3))
    chunks, summary = await read("long.txt", b"word " * 5_000)
    assert (len(chunks), summary.truncated) == (3, True)


async def test_megabytes_of_space_do_not_choke_the_pipe(read: Read) -> None:
    chunks, _ = await read("odd.txt", b"first" + b" " * 3_000_000 + b"last")
    assert [chunk.text for chunk in chunks] == ["first last"]


@pytest.mark.parametrize(
    ("filename", "head", "kind"),
    [
        ("a.PDF", b"%PDF-1.7", FileKind("pdf")),
        ("wrong-name.txt", b"%PDF-1.7", FileKind("pdf")),
        ("a.md", b"# hello", FileKind("markdown")),
        ("a.tsx", b"import", FileKind("code", "tsx")),
        ("Makefile", b"all:", FileKind("text")),
        ("page", b"<!DOCTYPE HTML><p>", FileKind("html")),
        ("utf16.txt", b"\xff\xfeh\x00i\x00", FileKind("text")),
    ],
)
def test_a_kind_is_told_from_name_and_beginning(filename: str, head: bytes, kind: FileKind) -> None:
    assert recognise(filename, "", head) == kind


@pytest.mark.parametrize(
    ("filename", "head", "remedy"),
    [
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as docx"),
        ("a.zip", b"PK\x03\x04", "unpack"),
        ("a.png", b"\x89PNG\r\n", "binary"),
        ("a.bin", b"ab\x00cd", "binary"),
        ("a.docx", b"not a zip", "damaged"),
        ("a.pdf", b"not a pdf", "damaged"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_remedy(filename: str, head: bytes, remedy: str) -> None:
    with pytest.raises(UnsupportedFormat, match=remedy):
        recognise(filename, "", head)
