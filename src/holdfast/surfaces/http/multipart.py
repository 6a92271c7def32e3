"""Owns reading a multipart upload as it arrives: its file goes on piece by piece, its fields are kept."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from email.message import Message
from urllib.parse import unquote

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.operations import CutShort

MAX_FIELD_BYTES = 10_000
MAX_FIELDS = 20


class Form:
    """The fields of an upload, and the name and type of its file (None until one came)."""

    def __init__(self, file_field: str) -> None:
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self.media_type = ""
        self._file_field = file_field
        self._header = (bytearray(), bytearray())
        self._headers: dict[str, str] = {}
        self._name = ""
        self._in_file = False
        self._value = bytearray()
        self.pieces: list[bytes] = []
        self.ended = False

    def parser(self, boundary: bytes) -> MultipartParser:
        """A parser that fills this form."""
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
        )

    def _part_begin(self) -> None:
        self._headers = {}
        self._value = bytearray()

    def _header_end(self) -> None:
        name, value = self._header
        self._headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")
        self._header = (bytearray(), bytearray())

    def _headers_finished(self) -> None:
        disposition = self._headers.get("content-disposition", "")
        name, filename = _disposition(disposition)
        self._name = name
        self._in_file = name == self._file_field and filename is not None
        if self._in_file:
            if self.filename is not None:
                raise _wrong(self._file_field, "send one file at a time")
            self.filename = filename
            self.media_type = self._headers.get("content-type", "")
        elif len(self.fields) >= MAX_FIELDS:
            raise _wrong(name, f"send at most {MAX_FIELDS} fields")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.pieces.append(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > MAX_FIELD_BYTES:
            raise _wrong(self._name, f"keep it under {MAX_FIELD_BYTES} bytes, or send it as a file with a file name")

    def _part_end(self) -> None:
        if not self._in_file and self._name:
            self.fields[self._name] = self._value.decode("utf-8", "replace")

    def _end(self) -> None:
        self.ended = True


async def read_upload(
    content_type: str, body: AsyncIterator[bytes], write: Callable[[bytes], Awaitable[None]], file_field: str = "file"
) -> Form:
    """Hand the file's bytes to `write` as they come; the form once everything was read. Invalid when it is broken."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise _wrong(file_field, "send the file as multipart/form-data")
    form = Form(file_field)
    try:
        parser = form.parser(boundary)
        async for data in body:
            parser.write(data)
            for piece in form.pieces:
                await write(piece)
            form.pieces.clear()
        parser.finalize()
    except FormParserError as problem:
        raise _wrong(file_field, f"the multipart body is broken ({problem})") from None
    except CutShort:
        raise _wrong(file_field, "the connection closed before the file was whole") from None
    if not form.ended:
        raise _wrong(file_field, "the multipart body ends before its last boundary")
    if form.filename is None:
        raise _wrong(file_field, f"add a part named {file_field!r} with a file name")
    return form


def _disposition(value: str) -> tuple[str, str | None]:
    """(field name, file name) of a Content-Disposition header."""
    message = Message()
    message["content-disposition"] = re.sub(r"[\r\n]", " ", value)
    name = message.get_param("name", header="content-disposition")
    plain = re.search(r'filename="((?:[^"\\]|\\.)*)"', value)
    extended = re.search(r"filename\*\s*=\s*utf-8''([^;]+)", value, re.IGNORECASE)
    if extended:
        filename: str | None = unquote(extended[1].strip(), errors="replace")
    elif plain:
        # Browsers write a quotation mark as %22 and leave a backslash as it is.
        filename = plain[1].replace("%22", '"').replace('\\"', '"')
    else:
        bare = message.get_filename()
        filename = bare if isinstance(bare, str) else None
    return (name if isinstance(name, str) else ""), filename


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid("The upload could not be read.", code="upload", fields=[FieldError(field or "file", problem)])
