"""Owns telling that a file which went and a file which came are one and the same. Runs in the child."""

from collections import Counter
from collections.abc import Callable, Sequence

from holdfast.engines.git.reading.trees import Difference

_LEAST_ALIKE = 0.5
"""How much of the larger file both must share, as git itself has it."""
_MOST_PAIRS = 10_000
_MOST_BYTES = 30_000_000

Load = Callable[[Difference], bytes | None]
"""The content of the side that is there; None for what is not compared."""


def paired(differences: Sequence[Difference], load: Load) -> list[Difference]:
    """The differences with each rename as one, at its new path."""
    gone = [each for each in differences if each.new is None]
    came = [each for each in differences if each.old is None]
    if not gone or not came:
        return list(differences)
    pairs = _equal(gone, came)
    taken = {id(each) for pair in pairs for each in pair}
    gone = [each for each in gone if id(each) not in taken]
    came = [each for each in came if id(each) not in taken]
    if gone and came and len(gone) * len(came) <= _MOST_PAIRS:
        pairs += _alike(gone, came, load)
    former = {id(new): old for old, new in pairs}
    merged = {id(old) for old, _ in pairs}
    return [
        Difference(each.path, former[id(each)].old, each.new, former[id(each)].path) if id(each) in former else each
        for each in differences
        if id(each) not in merged
    ]


def _equal(gone: Sequence[Difference], came: Sequence[Difference]) -> list[tuple[Difference, Difference]]:
    """Pairs of the same content, of the same file name where there is a choice."""
    by_content: dict[bytes, list[Difference]] = {}
    for old in gone:
        if old.old is not None and not old.old.is_submodule:
            by_content.setdefault(old.old.id.raw, []).append(old)
    pairs: list[tuple[Difference, Difference]] = []
    for new in came:
        if new.new is None or not (choices := by_content.get(new.new.id.raw)):
            continue
        name = _name(new.path)
        best = next((old for old in choices if _name(old.path) == name), choices[0])
        choices.remove(best)
        pairs.append((best, new))
    return pairs


def _alike(gone: Sequence[Difference], came: Sequence[Difference], load: Load) -> list[tuple[Difference, Difference]]:
    old_lines = _lines(gone, load)
    new_lines = _lines(came, load)
    scored: list[tuple[float, bool, int, int]] = []
    for at, (old, old_size, old_words) in enumerate(old_lines):
        for to, (new, new_size, new_words) in enumerate(new_lines):
            larger = max(old_size, new_size)
            if min(old_size, new_size) < _LEAST_ALIKE * larger:
                continue
            shared = sum(len(line) * count for line, count in (old_words & new_words).items())
            if shared >= _LEAST_ALIKE * larger:
                scored.append((shared / larger, _name(old.path) == _name(new.path), at, to))
    pairs: list[tuple[Difference, Difference]] = []
    used_old, used_new = set[int](), set[int]()
    for _, _, at, to in sorted(scored, key=lambda each: (-each[0], not each[1], each[2], each[3])):
        if at not in used_old and to not in used_new:
            used_old.add(at)
            used_new.add(to)
            pairs.append((old_lines[at][0], new_lines[to][0]))
    return pairs


def _lines(differences: Sequence[Difference], load: Load) -> list[tuple[Difference, int, Counter[bytes]]]:
    """Each file with its size and how often it has each line; nothing when together they are too large."""
    read: list[tuple[Difference, int, Counter[bytes]]] = []
    total = 0
    for each in differences:
        data = load(each)
        if not data or b"\0" in data[:8000]:
            continue
        total += len(data)
        if total > _MOST_BYTES:
            return []
        read.append((each, len(data), Counter(data.splitlines(keepends=True))))
    return read


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]
