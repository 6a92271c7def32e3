"""Owns making anybody's HTML cheap to parse: the same page, well nested, no deeper and no wider than real ones are.

HTML's own rules cost the square, or the cube, of how deep a page is nested, of how many formatting elements are left
open and of how many attributes one tag has; a parser that follows them can be kept busy for minutes by a small file.
So a page is written anew before it is parsed. Every tag that is kept is closed by us, so that nothing that the parser
does differently can nest deeper than what was written. Text is never left out, only tags are."""

import re
from collections import Counter
from collections.abc import Iterator

MAX_DEPTH = 200
"""Browsers cut at 512; what is deeper keeps its words and loses its tags."""
MAX_LISTS = 10
"""Lists within lists are indented, each line by each list around it."""
MAX_ATTRIBUTES = 60
MAX_TAGS = 500_000
MAX_LEFT_OUT = 5_000
"""A page with more tags than the first, or that leaves out more than the second, keeps only its words from there on."""
PIECE_TAGS = 3_000
PIECE_CHARACTERS = 200_000
"""A long page is read in pieces of about this size: a reader that looks back at what it wrote takes their square."""

_TOKEN = re.compile(r"<!--(?:-?>|.*?(?:--!?>|\Z))|<(/?)([a-zA-Z][^\s/>]*)|<[!?/][^>]*(?:>|\Z)", re.DOTALL)
_ATTRIBUTE = re.compile(r"""[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)|(?=>)))?""")
_NAME = re.compile(r"[a-z_][a-z0-9_:.-]*", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>?")
_LONGEST_NAME = 80
_LONGEST_REPEATED = 300


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_VOID = _names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
)
# What holds text, not elements; of the first only the tag is kept.
_UNSEEN = frozenset({"script", "iframe", "noembed", "noframes"})
_WORDS_ONLY = frozenset({"title", "textarea", "style", "xmp", "plaintext"})
_ONCE = frozenset({"html", "head", "body"})
_LISTS = frozenset({"ul", "ol", "dl", "dir", "menu"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_FOREIGN = frozenset({"svg", "math"})
# An end tag never reaches beyond these, whatever stands within them.
_WALLS = _names("table td th caption button object applet marquee template select")
_TABLE_PARTS = _names("table tbody thead tfoot tr td th caption colgroup")
_FORMATTING = _names(
    "a b big code em font i nobr s small strike strong tt u span abbr cite label sub sup q mark kbd var"
)
_ENDS_PARAGRAPH = _HEADINGS | _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form "
    "header hgroup hr li dd dt listing main menu nav ol p pre search section summary table ul xmp plaintext"
)
# A start tag, what it ends, and what it does not look beyond.
_ENDS = {
    "li": (frozenset({"li"}), _LISTS | _WALLS),
    "dt": (frozenset({"dt", "dd"}), _LISTS | _WALLS),
    "dd": (frozenset({"dt", "dd"}), _LISTS | _WALLS),
    "option": (frozenset({"option"}), _WALLS),
    "optgroup": (frozenset({"option", "optgroup"}), _WALLS),
    "td": (frozenset({"td", "th", "caption"}), frozenset({"tr", "table", "template"})),
    "th": (frozenset({"td", "th", "caption"}), frozenset({"tr", "table", "template"})),
    "tr": (frozenset({"td", "th", "tr", "caption", "colgroup"}), frozenset({"table", "template"})),
    "a": (frozenset({"a"}), _WALLS),
    "button": (frozenset({"button"}), _WALLS - {"button"}),
    "nobr": (frozenset({"nobr"}), _WALLS),
} | dict.fromkeys(
    ("tbody", "thead", "tfoot", "caption", "colgroup"), (_TABLE_PARTS - {"table"}, frozenset({"table", "template"}))
)


def bounded(markup: str) -> str:
    """The page with every tag closed, nested and repeated no more than a parser can take."""
    return "".join(_Writer(markup, cut=False).pieces())


def pieces(markup: str) -> Iterator[str]:
    """The page like that in pieces, each a page of its own, with what stands around it opened again."""
    return _Writer(markup, cut=True).pieces()


class _Writer:
    def __init__(self, markup: str, *, cut: bool) -> None:
        self._markup = markup
        self._cut = cut
        self._out: list[str] = []
        self._open: list[str] = []
        self._opened: list[str] = []
        self._cut_at = 0
        self._counts: Counter[str] = Counter()
        self._lists = 0
        self._foreign = 0
        # By name: left out so far, and how many of them have ended.
        self._left_out: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._left_out_in_all = 0
        self._seen: set[str] = set()

    def pieces(self) -> Iterator[str]:
        markup, position = self._markup, 0
        if re.match(r"\s*<!doctype", markup[:1_000], re.IGNORECASE):
            # Without it, a table within a paragraph is another thing.
            self._out.append("<!DOCTYPE html>")
        tags = 0
        while (token := _TOKEN.search(markup, position)) is not None:
            self._text(position, token.start())
            position = token.end()
            tags += 1
            if tags > MAX_TAGS or self._left_out_in_all > MAX_LEFT_OUT:
                self._out.append(_TAG.sub(" ", markup[token.start() :]).replace("<", "&lt;"))
                position = len(markup)
            elif token[2] is not None:
                name = token[2].lower()
                attributes, position, closes_itself = self._attributes(position, keep=not token[1])
                if token[1]:
                    self._end(name)
                    continue
                if self._cut and self._is_full(name, token.start()):
                    yield self._piece(token.start())
                position = self._start(name, attributes, position, closes_itself)
        self._text(position, len(markup))
        self._close(0)
        yield "".join(self._out)

    def _is_full(self, name: str, position: int) -> bool:
        """Whether a piece ends here: where something new begins, unless that is too long in coming."""
        size = max(len(self._out) / PIECE_TAGS, (position - self._cut_at) / PIECE_CHARACTERS)
        return size >= 1 and (name in _ENDS_PARAGRAPH or name in _TABLE_PARTS or size >= 2)

    def _piece(self, position: int) -> str:
        around = list(zip(self._open, self._opened, strict=True))
        self._close(0)
        piece = "".join(self._out)
        self._out, self._cut_at = [], position
        for name, attributes in around:
            self._open_tag(name, attributes if len(attributes) <= _LONGEST_REPEATED else "")
        return piece

    def _text(self, start: int, end: int) -> None:
        if start < end:
            self._out.append(self._markup[start:end].replace("<", "&lt;"))

    def _attributes(self, position: int, *, keep: bool) -> tuple[str, int, bool]:
        """The attributes of the tag that goes on at `position`, where it ends, and whether it says that it is empty."""
        markup = self._markup
        if markup[position : position + 1] == ">":
            return "", position + 1, False
        found: list[str] = []
        while (match := _ATTRIBUTE.match(markup, position)) is not None:
            position = match.end()
            if keep and len(found) < MAX_ATTRIBUTES and len(match[1]) <= _LONGEST_NAME and _NAME.fullmatch(match[1]):
                value = next((each for each in match.groups()[1:] if each is not None), None)
                found.append(f" {match[1]}" if value is None else f' {match[1]}="{value.replace(chr(34), "&quot;")}"')
        end = markup.find(">", position)
        end = len(markup) if end < 0 else end
        return "".join(found), end + 1, "/" in markup[position:end]

    def _start(self, name: str, attributes: str, position: int, closes_itself: bool) -> int:
        """Write a start tag as far as there is room; where to go on reading."""
        if name in _UNSEEN or name in _WORDS_ONLY:
            return position if self._foreign and closes_itself else self._raw(name, attributes, position)
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name) or name in ("frameset", "form"):
            # A form within a form is none, and no reader asks for either.
            self._out.append("\n")
        elif name in _ONCE:
            if name not in self._seen and not self._open:
                self._seen.add(name)
                self._out.append(f"<{name}{attributes}>")
        elif name in _VOID:
            self._make_room(name)
            # Among foreign elements such a name is not empty by itself.
            self._out.append(f"<{name}{attributes}/>")
        elif self._foreign and closes_itself:
            self._out.append(f"<{name}{attributes}></{name}>")
        else:
            self._make_room(name)
            self._open_tag(name, attributes)
        return position

    def _open_tag(self, name: str, attributes: str) -> None:
        if len(self._open) >= MAX_DEPTH or (name in _LISTS and self._lists >= MAX_LISTS):
            self._left_out[name] += 1
            self._left_out_in_all += 1
            self._out.append("\n")
            return
        self._open.append(name)
        self._opened.append(attributes)
        self._counts[name] += 1
        self._lists += name in _LISTS
        self._foreign += name in _FOREIGN
        self._out.append(f"<{name}{attributes}>")

    def _make_room(self, name: str) -> None:
        """Close what a start tag ends without saying so."""
        if name in _ENDS_PARAGRAPH and self._counts["p"]:
            self._end_within(frozenset({"p"}), _WALLS)
        if name in _ENDS:
            ended, walls = _ENDS[name]
            if any(self._counts[each] for each in ended):
                while self._end_within(ended, walls):
                    pass
        elif name in _HEADINGS and self._open and self._open[-1] in _HEADINGS:
            self._close(len(self._open) - 1)

    def _end(self, name: str) -> None:
        if self._left_out[name] > self._ended[name]:
            self._ended[name] += 1
        elif self._counts[name]:
            if name in _FORMATTING:
                self._end_formatting(name)
            else:
                walls = frozenset({"table", "template"}) if name in _TABLE_PARTS else _WALLS
                self._end_within(frozenset({name}), walls - {name})
        elif name == "br":
            self._out.append("<br/>")

    def _end_formatting(self, name: str) -> None:
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index] == name:
                self._close(index)
                return
            if self._open[index] not in _FORMATTING:
                # It ends inside of something else: what is around it goes on.
                return

    def _end_within(self, names: frozenset[str], walls: frozenset[str]) -> bool:
        """Close the innermost of these elements and all within it, unless a wall stands before it."""
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index] in names:
                self._close(index)
                return True
            if self._open[index] in walls:
                return False
        return False

    def _close(self, index: int) -> None:
        while len(self._open) > index:
            name = self._open.pop()
            self._opened.pop()
            self._counts[name] -= 1
            self._lists -= name in _LISTS
            self._foreign -= name in _FOREIGN
            self._out.append(f"</{name}>")

    def _raw(self, name: str, attributes: str, position: int) -> int:
        """Write an element that holds no others; where it ends."""
        closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(self._markup, position)
        end = closing.start() if closing and name != "plaintext" else len(self._markup)
        words = "" if name in _UNSEEN else self._markup[position:end].replace("<", "" if name == "style" else "&lt;")
        shown = "pre" if name in ("xmp", "plaintext") else name
        if shown == "pre":
            self._make_room(shown)
        self._out.append(f"<{shown}{attributes}>{words}</{shown}>")
        if closing is None or name == "plaintext":
            return len(self._markup)
        return min(self._markup.find(">", closing.end()) % (len(self._markup) + 1) + 1, len(self._markup))
