"""Owns reading server-sent events: data lines out of byte pieces, however they were cut."""

from collections.abc import Iterator

from holdfast.engines.llm.remote.texts import Texts, no_texts

MAX_LINE_BYTES = 16 * 1024 * 1024


class LineTooLong(ValueError):
    """One event is larger than anything a model says."""


class Events:
    """Give it bytes as they come; it gives the data of each event that is whole, and runs of mere texts as such."""

    def __init__(self, texts: Texts | None = None) -> None:
        self._texts = texts or no_texts()
        self._pieces: list[bytes] = []
        self._size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self.framing: bytes | None = None
        """What stood before the data of the event that was given last; None where that was written unusually."""

    def feed(self, piece: bytes) -> Iterator[bytes | list[str]]:
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
            yield from self._read_events(whole)
        else:
            self.framing = None
            yield from self._read_lines(whole)

    def _read_events(self, whole: bytes) -> Iterator[bytes | list[str]]:
        """The events of whole ones, as nearly all pieces are; most have one line of data, perhaps behind their name."""
        at, texts = 0, self._texts
        while at < len(whole):
            if texts.before and whole.startswith(texts.before, at):
                run, at = texts.take(whole, at)
                if run:
                    yield run
                    continue
            end = whole.find(b"\n\n", at)
            if end < 0:
                # A blank line too many.
                return
            name, mark, data = whole[at:end].partition(b"data: ")
            if mark and b"\n" not in data and (not name or _is_name(name)):
                self.framing = name + mark
                yield data
            else:
                self.framing = None
                yield from self._read_lines(whole[at : end + 2])
            at = end + 2

    def _read_lines(self, whole: bytes) -> Iterator[bytes]:
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


def _is_name(line: bytes) -> bool:
    """Whether this is an event's name, as Anthropic writes it before the data."""
    return line.startswith(b"event: ") and line.find(b"\n") == len(line) - 1
