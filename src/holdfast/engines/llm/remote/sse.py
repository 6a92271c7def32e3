"""Owns reading server-sent events: data lines out of byte pieces, however they were cut."""

from collections.abc import Iterator

MAX_LINE_BYTES = 16 * 1024 * 1024


class LineTooLong(ValueError):
    """One event is larger than anything a model says."""


class Events:
    """Give it bytes as they come; it gives the data of each event that is whole."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._data: list[bytes] = []
        self._data_size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The events that this piece finished."""
        end = piece.rfind(b"\n")
        if end < 0:
            self._hold(piece)
            return
        whole = b"".join((*self._pieces, piece[: end + 1])) if self._pieces else piece[: end + 1]
        self._pieces, self._size = [], 0
        if end + 1 < len(piece):
            self._hold(piece[end + 1 :])
        if not self._data and whole.endswith(b"\n\n") and b"\r" not in whole:
            # Whole events, as nearly all pieces are; most of one line.
            for event in whole[:-2].split(b"\n\n"):
                if event.startswith(b"data: ") and b"\n" not in event:
                    yield event[6:]
                else:
                    yield from self._read(event + b"\n\n")
            return
        yield from self._read(whole)

    def _read(self, whole: bytes) -> Iterator[bytes]:
        """The events of whole lines."""
        for raw in whole.split(b"\n")[:-1]:
            line = raw[:-1] if raw.endswith(b"\r") else raw
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._data_size += len(line)
                if self._data_size > MAX_LINE_BYTES:
                    raise LineTooLong
            elif not line:
                yield from self.flush()

    def flush(self) -> Iterator[bytes]:
        """The event that a blank line, or the end of the stream, finishes."""
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._data, self._data_size = [], 0
            yield data

    def _hold(self, piece: bytes) -> None:
        # Joined only once a line ends: a long line in many pieces would cost its square otherwise.
        self._size += len(piece)
        if self._size > MAX_LINE_BYTES:
            raise LineTooLong
        self._pieces.append(piece)
