"""Owns what a source file says of itself: what it imports, what it is for, and what its classes are."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import orjson

from holdfast.features.synthesis.sources.quoting import first_sentence, is_fit

MAX_IMPORTS = 80
MAX_TERMS = 12
_SCRIPTS = ("javascript", "typescript", "tsx")
LANGUAGES = frozenset({"python", "go", "java", "kotlin", "rust", "ruby", "csharp", "php", "swift", *_SCRIPTS})

_PYTHON = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+\(?([^#\n]*)|import\s+([\w., ]+))")
_SCRIPT = re.compile(r"(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*['\"]([^'\"\n]+)['\"]")
_GO_ONE = re.compile(r'^\s*import\s+(?:[\w.]+\s+)?"([^"]+)"')
_GO_LINE = re.compile(r'^\s*(?:[\w.]+\s+)?"([^"]+)"\s*$')
_JAVA = re.compile(r"^\s*import\s+(?:static\s+)?([\w.]+(?:\.\*)?)")
_RUST = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:use\s+([\w:]+)|mod\s+(\w+)\s*;)")
_RUBY = re.compile(r"^\s*require(?:_relative)?\s*\(?['\"]([^'\"]+)")
_NAMED = {
    "python": re.compile(r"^class\s+([A-Za-z]\w+)"),
    "go": re.compile(r"^type\s+([A-Z]\w+)\s+(?:struct|interface)"),
    "rust": re.compile(r"^pub\s+(?:struct|enum|trait)\s+(\w+)"),
    "java": re.compile(r"^(?:public\s+|abstract\s+|final\s+|sealed\s+)*(?:class|interface|enum|record)\s+(\w+)"),
}
_NAMED_ELSEWHERE = re.compile(
    r"^(?:export\s+|default\s+|public\s+|abstract\s+|final\s+|data\s+|sealed\s+|internal\s+|open\s+)*"
    r"(?:class|interface|struct|enum|protocol|trait)\s+([A-Za-z]\w+)"
)
_COMMENT = re.compile(r"^\s*(?:///?!?|#+!?|\*+(?!/)|/\*\*?|--)\s?(.*?)(?:\s*\*/)?\s*$")
_LICENCE = re.compile(r"copyright|licen[cs]e|spdx|all rights reserved|eslint|@ts-|-\*-|coding[:=]|pylint|noqa|^!", re.I)


@dataclass(frozen=True, slots=True)
class GlossaryTerm:
    """Something a file defines and explains."""

    name: str
    text: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Outline:
    """A source file in a few words."""

    imports: tuple[str, ...] = ()
    doc: str = ""
    doc_lines: tuple[int, int] = (1, 1)
    terms: tuple[GlossaryTerm, ...] = ()

    def to_json(self) -> str:
        return orjson.dumps(asdict(self)).decode()


def from_json(text: str) -> Outline:
    """The outline that was kept."""
    value = orjson.loads(text)
    first, last = value["doc_lines"]
    terms = tuple(GlossaryTerm(**term) for term in value["terms"])
    return Outline(tuple(value["imports"]), value["doc"], (first, last), terms)


def outline(language: str, lines: Sequence[str]) -> Outline:
    """What the beginning of a source file says of itself."""
    imports = tuple(dict.fromkeys(_IMPORTS.get(language, _nothing)(lines)))[:MAX_IMPORTS]
    doc, start, end = _python_doc(lines) if language == "python" else _first_comment(language, lines)
    doc = doc if is_fit(doc) else ""
    return Outline(imports, doc, (start, end), tuple(_terms(language, lines)[:MAX_TERMS]))


# What is imported


def _python(lines: Sequence[str]) -> list[str]:
    """Dotted names; what `from a import b` brings is `a` with its names, since `b` may be a module."""
    found = []
    for line in lines:
        match = _PYTHON.match(line)
        if match is None:
            continue
        if match[3]:
            found += [name.split()[0] for name in match[3].split(",") if name.strip()]
            continue
        found.append(match[1])
        names = [name.split()[0] for name in match[2].strip(" ()\\").split(",") if name.strip(" ()\\")]
        joint = "" if match[1].endswith(".") else "."
        found += [f"{match[1]}{joint}{name}" for name in names if name.isidentifier() and name[:1].islower()]
    return found


def _script(lines: Sequence[str]) -> list[str]:
    return [name for line in lines for name in _SCRIPT.findall(line)]


def _go(lines: Sequence[str]) -> list[str]:
    found, within = [], False
    for line in lines:
        if one := _GO_ONE.match(line):
            found.append(one[1])
        elif line.strip().startswith("import ("):
            within = True
        elif within and line.strip() == ")":
            within = False
        elif within and (each := _GO_LINE.match(line)):
            found.append(each[1])
    return found


def _java(lines: Sequence[str]) -> list[str]:
    return [match[1] for line in lines if (match := _JAVA.match(line))]


def _rust(lines: Sequence[str]) -> list[str]:
    return [match[1] or f"self::{match[2]}" for line in lines if (match := _RUST.match(line))]


def _ruby(lines: Sequence[str]) -> list[str]:
    return [match[1] for line in lines if (match := _RUBY.match(line))]


def _nothing(lines: Sequence[str]) -> list[str]:
    return []


_IMPORTS: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "python": _python,
    "go": _go,
    "java": _java,
    "kotlin": _java,
    "rust": _rust,
    "ruby": _ruby,
    **dict.fromkeys(_SCRIPTS, _script),
}


# What it is for


def _python_doc(lines: Sequence[str], start: int = 0) -> tuple[str, int, int]:
    """The docstring that is the first statement from a line on: its first sentence and where it is."""
    for number in range(start, min(start + 40, len(lines))):
        line = lines[number].strip()
        if not line or line.startswith("#"):
            continue
        mark = next((mark for mark in ('"""', "'''") if line.lstrip("rRuU").startswith(mark)), None)
        if mark is None:
            break
        text = line.lstrip("rRuU")[3:]
        last = number
        while mark not in text and last + 1 < min(number + 12, len(lines)):
            last += 1
            if not lines[last].strip():
                break
            text = f"{text} {lines[last].strip()}"
        said = first_sentence(text.split(mark)[0].strip())
        return said, number + 1, last + 1
    return "", 1, 1


def _first_comment(language: str, lines: Sequence[str]) -> tuple[str, int, int]:
    """The comment at the top, where it is not a licence."""
    held: list[str] = []
    first = 0
    for number, line in enumerate(lines[:60], 1):
        comment = _COMMENT.match(line)
        if comment is not None:
            first = first if held else number
            held.append(comment[1])
            continue
        if held and not _LICENCE.search(" ".join(held)) and any(letter.isalpha() for letter in "".join(held)):
            said = first_sentence(" ".join(part for part in held if part))
            return _unprefixed(language, said), first, number - 1
        held = []
        if line.strip() and not line.strip().startswith(("package ", "'use ", '"use ', "<?", "*/", "import ", "#!")):
            break
    return "", 1, 1


def _unprefixed(language: str, text: str) -> str:
    """Go begins with the package's name; the rest says what it does."""
    return re.sub(r"^Package\s+(\w+)\s+", lambda found: f"{found[1]}: ", text) if language == "go" else text


# What its classes are


def _terms(language: str, lines: Sequence[str]) -> list[GlossaryTerm]:
    pattern = _NAMED.get(language, _NAMED_ELSEWHERE)
    found = []
    for number, line in enumerate(lines):
        named = pattern.match(line)
        if named is None or named[1].startswith("_"):
            continue
        if language == "python":
            text, first, last = _docstring_below(lines, number)
        else:
            text, first, last = _comment_above(lines, number)
        if len(text.split()) >= 4 and is_fit(text):
            found.append(GlossaryTerm(named[1], text, min(first, number + 1), max(last, number + 1)))
    return found


def _docstring_below(lines: Sequence[str], number: int) -> tuple[str, int, int]:
    head = next((at for at in range(number, min(number + 8, len(lines))) if lines[at].rstrip().endswith(":")), number)
    return _python_doc(lines, head + 1)


def _comment_above(lines: Sequence[str], number: int) -> tuple[str, int, int]:
    held: list[str] = []
    at = number - 1
    while at >= 0 and (lines[at].lstrip().startswith(("@", "#[")) or (not held and not lines[at].strip())):
        at -= 1
    while at >= 0 and number - at < 20 and (comment := _COMMENT.match(lines[at])):
        held.insert(0, comment[1])
        at -= 1
    said = [part for part in held if part and not part.startswith("@")]
    return first_sentence(" ".join(said)), at + 2, number
