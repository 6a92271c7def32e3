"""Owns the difference of two texts: a unified diff by lines, in bounded time whatever the texts are.

Not libgit2's: it lets no other thread run meanwhile, and needs 6–8 s for texts of 1 MB whose lines repeat; nobody else
would be served (decision 26).
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CHANGES = 1_000
"""Beyond so many changed lines the shortest edit is not sought any more; the changed middle is replaced as a whole."""
CONTEXT = 3


@dataclass(frozen=True, slots=True)
class LineEdit:
    """Lines `a_start:a_end` of the old text become lines `b_start:b_end` of the new one."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int


def unified_diff(old: str, new: str, old_name: str, new_name: str) -> tuple[str, int, int]:
    """The unified diff as `patch` reads it (empty for equal texts), the lines added and the lines removed."""
    a, b = _lines(old), _lines(new)
    edits = find_edits(a, b)
    if not edits:
        return "", 0, 0
    parts = [f"--- {old_name}\n", f"+++ {new_name}\n"]
    for group in _hunks(edits):
        parts.extend(_hunk(a, b, group))
    added = sum(edit.b_end - edit.b_start for edit in edits)
    removed = sum(edit.a_end - edit.a_start for edit in edits)
    return "".join(parts), added, removed


def find_edits(a: list[str], b: list[str]) -> list[LineEdit]:
    """The fewest changes that make `b` of `a`, in order; one coarse change where they are too many."""
    low = 0
    while low < len(a) and low < len(b) and a[low] == b[low]:
        low += 1
    a_end, b_end = len(a), len(b)
    while a_end > low and b_end > low and a[a_end - 1] == b[b_end - 1]:
        a_end, b_end = a_end - 1, b_end - 1
    if a_end == low and b_end == low:
        return []
    return _shortest(a, b, low, a_end, b_end) or [LineEdit(low, a_end, low, b_end)]


def _shortest(a: list[str], b: list[str], low: int, a_end: int, b_end: int) -> list[LineEdit] | None:
    """Myers' greedy search over the middle; None when it needs more than MAX_CHANGES."""
    n, m = a_end - low, b_end - low
    most = min(n + m, MAX_CHANGES)
    # Diagonal k is kept at index k + most + 1, so that both neighbours always exist.
    reach = array("l", bytes(array("l").itemsize * (2 * most + 3)))
    trace: list[array[int]] = []
    for changes in range(most + 1):
        for k in range(-changes, changes + 1, 2):
            at = k + most + 1
            down = k == -changes or (k != changes and reach[at - 1] < reach[at + 1])
            x = reach[at + 1] if down else reach[at - 1] + 1
            y = x - k
            while x < n and y < m and a[low + x] == b[low + y]:
                x, y = x + 1, y + 1
            reach[at] = x
            if x >= n and y >= m:
                return _retraced(trace, n, m, low)
        trace.append(reach[most + 1 - changes : most + 2 + changes : 2])
    return None


def _retraced(trace: list["array[int]"], n: int, m: int, low: int) -> list[LineEdit]:
    """The way back from the end: row d of the trace holds how far d changes reach on diagonals -d, -d + 2, … d."""
    steps: list[LineEdit] = []
    x, y = n, m
    for changes in range(len(trace), 0, -1):
        row = trace[changes - 1]
        k = x - y
        left = (k - 1 + changes - 1) // 2
        down = k == -changes or (k != changes and row[left] < row[left + 1])
        before_x = row[left + 1] if down else row[left]
        before_y = before_x - (k + 1 if down else k - 1)
        at_x, at_y = low + before_x, low + before_y
        steps.append(LineEdit(at_x, at_x, at_y, at_y + 1) if down else LineEdit(at_x, at_x + 1, at_y, at_y))
        x, y = before_x, before_y
    return _merged(reversed(steps))


def _merged(steps: Iterator[LineEdit]) -> list[LineEdit]:
    merged: list[LineEdit] = []
    for step in steps:
        last = merged[-1] if merged else None
        if last and last.a_end == step.a_start and last.b_end == step.b_start:
            merged[-1] = LineEdit(last.a_start, step.a_end, last.b_start, step.b_end)
        else:
            merged.append(step)
    return merged


def _hunks(edits: list[LineEdit]) -> Iterator[list[LineEdit]]:
    held = [edits[0]]
    for edit in edits[1:]:
        if edit.a_start - held[-1].a_end > 2 * CONTEXT:
            yield held
            held = []
        held.append(edit)
    yield held


def _hunk(a: list[str], b: list[str], edits: list[LineEdit]) -> Iterator[str]:
    lead = min(CONTEXT, edits[0].a_start)
    a_start, b_start = edits[0].a_start - lead, edits[0].b_start - lead
    a_end = min(edits[-1].a_end + CONTEXT, len(a))
    b_end = edits[-1].b_end + a_end - edits[-1].a_end
    yield f"@@ -{_range(a_start, a_end)} +{_range(b_start, b_end)} @@\n"
    at = a_start
    for edit in edits:
        yield from (_written(" ", line) for line in a[at : edit.a_start])
        yield from (_written("-", line) for line in a[edit.a_start : edit.a_end])
        yield from (_written("+", line) for line in b[edit.b_start : edit.b_end])
        at = edit.a_end
    yield from (_written(" ", line) for line in a[at:a_end])


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + 1 if length else start},{length}"


def _written(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Lines with their newline; only `\\n` ends one, as `patch` has it."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
