"""Owns the little of the protobuf wire format that a model's file needs: whole numbers and whatever has a length."""

from collections.abc import Iterator

Value = int | memoryview

_NUMBER, _EIGHT_BYTES, _WITH_LENGTH, _FOUR_BYTES = 0, 1, 2, 5


def fields(content: memoryview) -> Iterator[tuple[int, Value]]:
    """Each field's number with its value: a whole number, or its bytes as they are."""
    place = 0
    while place < len(content):
        key, place = _number_at(content, place)
        kind = key & 7
        if kind == _NUMBER:
            value, place = _number_at(content, place)
            yield key >> 3, value
            continue
        if kind == _WITH_LENGTH:
            size, place = _number_at(content, place)
        elif kind in (_FOUR_BYTES, _EIGHT_BYTES):
            size = 4 if kind == _FOUR_BYTES else 8
        else:
            raise ValueError(f"a field of kind {kind} at {place}")
        yield key >> 3, content[place : place + size]
        place += size


def number(value: Value) -> int:
    """A value that must be a whole number."""
    if not isinstance(value, int):
        raise ValueError("bytes where a number belongs")
    return value


def part(value: Value) -> memoryview:
    """A value that must have a length: a message, a text, raw numbers."""
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")
    return value


def whole(field: int, value: int) -> bytes:
    """A field that is a whole number."""
    return _counted(field << 3 | _NUMBER) + _counted(value)


def message(field: int, content: bytes) -> bytes:
    """A field that has a length."""
    return _counted(field << 3 | _WITH_LENGTH) + _counted(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A field that is text."""
    return message(field, value.encode())


def _number_at(content: memoryview, place: int) -> tuple[int, int]:
    """The number there, seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _counted(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
