"""Owns reading stylesheets: each declaration with the number of elements on the page that it is about."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import tinycss2

_STATE = re.compile(r":(hover|focus|active|visited|disabled|target|checked|:?selection|:?placeholder|:?backdrop)\b")
_PSEUDO = re.compile(r"(?<!\\):{1,2}[\w-]+(\([^()]*\))?|\[[^\]]*\]")
_CLASS = re.compile(r"\.((?:[\w-]|\\.|[^\x00-\x7f])+)")
_ID = re.compile(r"#((?:[\w-]|\\.|[^\x00-\x7f])+)")
_TAG = re.compile(r"^[A-Za-z][\w-]*")
_WIDTH = re.compile(r"(?:min|max)-width\s*:\s*([\d.]+(?:px|r?em))|width\s*[<>]=?\s*([\d.]+(?:px|r?em))")
_PARENTS = frozenset({"media", "supports", "layer", "container", "scope", "starting-style"})
_MAX_RULES = 20_000
_MAX_VARIABLES = 5
_MAX_TOKENS = 300


@dataclass(frozen=True, slots=True)
class Declaration:
    """One `name: value`; `weight` counts the elements it is about, `subject` is the selector's last part."""

    name: str
    value: list[Any]
    weight: int
    subject: str


@dataclass
class Elements:
    """How often each tag, class and id occurs on the page."""

    total: int = 0
    tags: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    ids: Counter[str] = field(default_factory=Counter)


@dataclass
class Styles:
    """Everything the page's CSS says that the report needs."""

    elements: Elements
    declarations: list[Declaration] = field(default_factory=list)
    variables: dict[str, list[Any]] = field(default_factory=dict)
    fonts: list[str] = field(default_factory=list)
    breakpoints: Counter[str] = field(default_factory=Counter)
    _rules: int = 0

    def add_sheet(self, text: str) -> None:
        """Take in a stylesheet."""
        self._add_rules(tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True))

    def add_inline(self, tag: str, text: str) -> None:
        """Take in a `style` attribute."""
        self._add_block(tinycss2.parse_blocks_contents(text, skip_comments=True, skip_whitespace=True), [(tag, 1)])

    def resolved(self, declaration: Declaration) -> Iterator[Any]:
        """A declaration's tokens, variables replaced by what they hold and functions opened."""
        return islice(self._resolve(declaration.value, _MAX_VARIABLES), _MAX_TOKENS)

    def text(self, declaration: Declaration) -> str:
        """A declaration's value as text, variables replaced."""
        tokens = list(islice(self._resolve(declaration.value, _MAX_VARIABLES, opened=False), _MAX_TOKENS))
        return " ".join(tinycss2.serialize(tokens).split())[:200]

    def _resolve(self, tokens: list[Any], depth: int, *, opened: bool = True) -> Iterator[Any]:
        for token in tokens:
            if token.type == "function" and token.lower_name == "var" and depth:
                named = [argument for argument in token.arguments if argument.type == "ident"]
                held = self.variables.get(named[0].value) if named else None
                if held is None:
                    comma = next((at for at, part in enumerate(token.arguments) if part == ","), None)
                    held = token.arguments[comma + 1 :] if comma is not None else []
                yield from self._resolve(held, depth - 1, opened=opened)
            else:
                yield token
                if opened and depth and token.type == "function":
                    yield from self._resolve(token.arguments, depth - 1)

    def _add_rules(self, rules: list[Any]) -> None:
        for rule in rules:
            self._rules += 1
            if self._rules > _MAX_RULES:
                return
            if rule.type == "qualified-rule":
                content = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
                self._add_block(content, self._subjects(tinycss2.serialize(rule.prelude)))
            elif rule.type == "at-rule" and rule.content is not None:
                self._add_at_rule(rule)

    def _add_at_rule(self, rule: Any) -> None:
        keyword = rule.lower_at_keyword
        if keyword == "media":
            for found in _WIDTH.findall(tinycss2.serialize(rule.prelude)[:500]):
                self.breakpoints[found[0] or found[1]] += 1
        if keyword in _PARENTS:
            self._add_rules(tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True))
        elif keyword == "font-face":
            for entry in tinycss2.parse_blocks_contents(rule.content):
                if entry.type == "declaration" and entry.lower_name == "font-family":
                    self.fonts.append(tinycss2.serialize(entry.value).strip().strip("\"'")[:80])

    def _add_block(self, content: list[Any], subjects: list[tuple[str, int]]) -> None:
        for entry in content:
            if entry.type == "declaration":
                if entry.name.startswith("--"):
                    self.variables.setdefault(entry.name, entry.value)
                    continue
                for subject, count in subjects:
                    if count:
                        self.declarations.append(Declaration(entry.lower_name, entry.value, count, subject))
            elif _holds_rules(entry) and any(count for _, count in subjects):
                nested = tinycss2.parse_blocks_contents(entry.content, skip_comments=True, skip_whitespace=True)
                self._add_block(nested, subjects)

    def _subjects(self, selectors: str) -> list[tuple[str, int]]:
        """The last compound of each selector, with how many elements carry its rarest part."""
        found: dict[str, int] = {}
        for selector in selectors[:4_000].split(","):
            compound = re.split(r"[\s>+~]+", selector.strip()[:300])[-1]
            count = self._count(_PSEUDO.sub("", compound))
            found[compound] = min(count, 1) if _STATE.search(compound) else count
        return list(found.items())

    def _count(self, compound: str) -> int:
        tag = _TAG.match(compound)
        parts = [self.elements.tags[tag.group().lower()]] if tag else []
        parts += [self.elements.classes[name.replace("\\", "")] for name in _CLASS.findall(compound)]
        parts += [self.elements.ids[name.replace("\\", "")] for name in _ID.findall(compound)]
        if not parts or (len(parts) == 1 and tag and tag.group().lower() in ("html", "body")):
            # What is said of the page itself shows wherever nothing else is said.
            return max(1, self.elements.total // 2)
        return min(parts)


def _holds_rules(entry: Any) -> bool:
    if entry.type == "at-rule":
        return entry.content is not None and entry.lower_at_keyword in _PARENTS
    return bool(entry.type == "qualified-rule")
